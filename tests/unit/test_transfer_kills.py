"""A process that is killed at any moment of an upload leaves nothing that a reader takes for complete.

POSTTRAIN_KILLS is how often each of two programs is killed: 5 unless set; benchmarks/transfer.py sets 50.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hub_weights
import numpy as np
import pytest
from hub_server import Hub
from safetensors.numpy import save

from components import lock, manifest, record, storage
from components.sources.model import fetch_model

KILLS = int(os.environ.get("POSTTRAIN_KILLS", "5"))
SHARDS = [f"model-{i:05}-of-00012.safetensors" for i in range(1, 13)]
MODEL = {
    "config.json": b'{"model_type": "qwen3"}',
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}',
    "model.safetensors.index.json": json.dumps({"weight_map": {name: name for name in SHARDS}}).encode(),
    **{name: save({name: np.full((1 << 18,), i, np.float32)}) for i, name in enumerate(SHARDS)},
}

UPLOAD = """
from components import manifest, storage
storage.exists({place!r})  # loads the client
print("go", flush=True)
with storage.staged({place!r}) as stage:
    storage.copy_tree({source!r}, stage)
    manifest.write_manifest(stage)
"""
STREAM = """
from components import storage
from components.sources.model import fetch_model
storage.exists({place!r})  # loads the client
print("go", flush=True)
fetch_model("hf://org/name", None, {place!r})
"""


@pytest.fixture
def hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_weights.WeightsHub]:
    with hub_weights.serve(hub) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        served.add("model", "org/name", MODEL)
        yield served


def start(program: str) -> subprocess.Popen[str]:
    """Starts a program and returns when it says that it is about to begin."""
    environment = {**os.environ, "PYTHONPATH": str(Path(storage.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "go\n"
    return process


def stored(place: str) -> dict[str, bytes]:
    found = {name: storage.read_bytes(storage.join(place, name)) for name, _ in storage.list_files(place)}
    return {name: data for name, data in found.items() if name not in (manifest.FILE_NAME, record.FILE_NAME)}


def kill_often(gcs: str, program: str, before: Callable[[str], None], wanted: list[dict[str, bytes]]) -> None:
    """Kills the program at moments spread over the time that it takes, and looks at what a reader would find.

    What is complete by names and sizes alone must be one of `wanted`.
    """
    before(f"{gcs}/first")
    process = start(program.replace("PLACE", f"{gcs}/first"))
    begun = time.monotonic()
    process.communicate()
    takes = time.monotonic() - begun
    assert process.returncode == 0
    killed = 0
    for number in range(KILLS):
        place = f"{gcs}/{number}"
        before(place)
        process = start(program.replace("PLACE", place))
        time.sleep(random.uniform(0, takes))
        process.kill()
        process.communicate()
        killed += process.returncode != 0
        if manifest.is_complete(place, deep=False):
            assert stored(place) in wanted
    assert killed > 0, "every run was over before it was killed"
    print(f"{killed} of {KILLS} runs were killed before they ended")


def test_an_upload(gcs: str, tmp_path: Path) -> None:
    """It replaces an older folder, complete and of the same names and sizes."""
    older = {f"shard-{i:02}": bytes([i]) * (1 << 20) for i in range(16)}
    newer = {name: data[::-1][:-1] + b"!" for name, data in older.items()}
    for name, files in (("older", older), ("newer", newer)):
        for file, data in files.items():
            storage.write_bytes(tmp_path / name / file, data)
    manifest.write_manifest(tmp_path / "older")

    def put_older(place: str) -> None:
        storage.copy_tree(tmp_path / "older", place)

    kill_often(gcs, UPLOAD.format(place="PLACE", source=str(tmp_path / "newer")), put_older, [older, newer])
    for number in range(KILLS):
        with storage.staged(f"{gcs}/{number}") as stage:
            storage.copy_tree(tmp_path / "newer", stage)
            manifest.write_manifest(stage)
        manifest.check(f"{gcs}/{number}")
        assert stored(f"{gcs}/{number}") == newer


def test_a_model_from_the_hub(
    gcs: str, hub: hub_weights.WeightsHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of the dead is waited for no longer than its expiry."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(lock, "EXPIRY_S", 0.5)
    kill_often(gcs, STREAM.format(place="PLACE"), lambda place: None, [MODEL])
    for number in range(KILLS):
        fetch_model("hf://org/name", None, f"{gcs}/{number}")
        manifest.check(f"{gcs}/{number}")
        assert stored(f"{gcs}/{number}") == MODEL
