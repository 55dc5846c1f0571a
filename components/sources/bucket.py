"""Models straight into a bucket: only headers and small files pass through the disk of this machine.

In: files on the hub. Out: the same files at a gs:// destination, compared with the hash that the hub names and with the
checksum that the bucket keeps. What has arrived stays there when the download breaks off, and the next one brings the
rest: an object is taken for whole when it bears the hash of its file, which it gets after the comparison.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

from components import gcs, manifest, storage, transfer
from components.sources import hub

_MARK = "posttrain-hub-digest"  # metadata of an object
_LONGEST_HEADER = 100_000_000  # bytes; the safetensors library takes no longer one


class Reader(Protocol):
    """What a header is read from."""

    def read(self, size: int, /) -> bytes:
        """Returns the next `size` bytes, fewer only at the end."""


def write_headers(shards: Mapping[str, int], opened: Callable[[str], AbstractContextManager[Reader]], to: Path) -> None:
    """Writes safetensors files that have the header and the length of others, and holes instead of the weights.

    That is what a check of a model looks at, and it takes no room on the disk.

    Args:
      shards: the size in bytes of each file.
      opened: reads a file from its beginning.
      to: the folder to write in.
    """

    def write(name: str, size: int) -> None:
        with opened(name) as source:
            length = source.read(8)
            header = source.read(min(int.from_bytes(length, "little"), _LONGEST_HEADER))
        with (to / name).open("wb") as file:
            file.write(length + header)
            file.truncate(size)

    transfer.run([partial(write, name, size) for name, size in shards.items()])


def stream(repo: hub.Repo, commit: str, files: list[hub.File], destination: str, say: Callable[[str], None]) -> None:
    """Makes `destination` hold these files of the hub and nothing else; brings those that are not there, many at once.

    Raises UserError for what hub and storage can have. What has arrived stays.
    """
    storage.delete_file(storage.join(destination, manifest.FILE_NAME))  # first of all: what was whole is not any more
    wanted = {file.name: file.digest for file in files}
    with gcs.errors("list", destination):
        marks = {name: (blob.metadata or {}).get(_MARK) for name, blob in gcs.blobs(destination)}
    there = {name for name, mark in marks.items() if mark and mark == wanted.get(name)}
    transfer.run([partial(storage.delete_file, storage.join(destination, name)) for name in marks.keys() - there])
    if there:
        say(f"{len(there)} of {len(files)} files are there already")
    stop, speaking = threading.Event(), threading.Lock()

    def bring(file: hub.File) -> None:
        uri = storage.join(destination, file.name)
        target = gcs.blob(uri)
        with hub.opened(repo, commit, file) as source, gcs.errors("write", uri):
            transfer.send(source, target, file.size, storage.content_type(uri), stop, transfer.PIECE)
            target.metadata = {_MARK: file.digest}
            target.patch(if_generation_match=target.generation)
        with speaking:
            there.add(file.name)
            say(f"stored {file.name}, {len(there)} of {len(files)} files ({file.size / 1e9:.2f} GB)")

    transfer.run([partial(bring, file) for file in files if file.name not in there], stop)
