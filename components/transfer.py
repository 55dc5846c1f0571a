"""Many transfers at once between this machine and Cloud Storage, each with its checksum.

In: files and objects. Out: the bytes at the other end, compared by CRC-32C. A large object is fetched in pieces, so one
file uses all threads as well as many do. The first failure or interrupt ends the rest within the piece at hand;
Google's own `transfer_manager` moves the same bytes but finishes everything else first, which may be hours.

Errors of the operating system and of the service pass through.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from google.cloud.storage import Blob

THREADS = 8  # fewer than the ten connections that the client keeps open
PIECE = 16 << 20  # bytes; each thread holds one in memory
PIECE_UP = 100 << 20  # of a file that goes up: the service confirms one before the next is sent, so few are better


class Stopped(Exception):
    """Another transfer failed, so this one ended early."""


def run[T](tasks: Iterable[Callable[[], T]], stop: threading.Event | None = None) -> list[T]:
    """Runs all tasks in threads and returns their results in order.

    When one raises, those not begun are dropped, and once the others have ended the error is raised.

    Args:
      tasks: what to do.
      stop: is set when one has failed, for tasks that can end early.
    """
    with ThreadPoolExecutor(THREADS, thread_name_prefix="transfer") as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            done = wait(futures, return_when=FIRST_EXCEPTION).done
            for future in filter(done.__contains__, futures):
                future.result()
        except BaseException:
            if stop:
                stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]


# -- to Cloud Storage -------------------------------------------------------------------------------------------------


class Source(Protocol):
    """What bytes are read from: a file or a stream."""

    def read(self, size: int, /) -> bytes:
        """Returns the next `size` bytes, fewer only at the end."""

    def tell(self) -> int:
        """How many bytes were read."""


def upload(source: Path, target: Blob, content_type: str, stop: threading.Event) -> None:
    """Stores a file as an object, as `send` does."""
    with source.open("rb") as file:
        send(file, target, os.fstat(file.fileno()).st_size, content_type, stop, PIECE_UP)


def send(source: Source, target: Blob, size: int, content_type: str, stop: threading.Event, piece: int) -> None:
    """Stores the `size` bytes of a stream as an object, `piece` by `piece`; it appears when the service has all of them.

    When reading fails nothing appears. Raises DataCorruption when the service has got other bytes, and Stopped between
    two pieces once `stop` is set.
    """
    from google.cloud.storage.exceptions import DataCorruption

    target.chunk_size = piece
    read = _Read(source, stop)
    target.upload_from_file(read, size=size, content_type=content_type, checksum="crc32c")
    if target.crc32c != encoded(read.checksum):  # the service compares too, but not every one that speaks its language
        target.delete(if_generation_match=target.generation)
        raise DataCorruption(None, f"{target.name} has the checksum {target.crc32c}, not {encoded(read.checksum)}")


class _Read:
    """A source with the CRC-32C of what was read, that ends once `stop` is set."""

    def __init__(self, source: Source, stop: threading.Event) -> None:
        self.tell = source.tell
        self.checksum = 0
        self._source = source
        self._stop = stop

    def read(self, size: int) -> bytes:
        import google_crc32c

        if self._stop.is_set():
            raise Stopped
        data = self._source.read(size)
        self.checksum = google_crc32c.extend(self.checksum, data)
        return data


# -- from Cloud Storage -----------------------------------------------------------------------------------------------


def download(files: Mapping[Path, Blob]) -> None:
    """Fetches objects, as a listing or `reload` gives them, to files in folders that exist.

    Raises DataCorruption when the bytes are not those that the service keeps. Files are then left behind.
    """
    tasks: list[Callable[[], None]] = []
    for path, source in files.items():
        if source.size > PIECE and not source.content_encoding:  # a compressed one is unpacked on the way
            tasks += _Pieces(source, path).tasks()
        else:
            tasks.append(partial(_whole, source, path))
    run(tasks)


def _whole(source: Blob, path: Path) -> None:
    # named anew, without generation: a file that is being rewritten is fetched as it is now
    source.bucket.blob(source.name).download_to_filename(path, checksum="crc32c", single_shot_download=True)


class _Pieces:
    """One object, fetched in pieces that may come in any order."""

    def __init__(self, source: Blob, path: Path) -> None:
        self._source = source
        self._path = path
        self._checksums = dict.fromkeys(range(0, source.size, PIECE), -1)  # by first byte; -1 is not there yet
        path.touch()

    def tasks(self) -> list[Callable[[], None]]:
        return [partial(self._fetch, start) for start in self._checksums]

    def _fetch(self, start: int) -> None:
        import google_crc32c

        end = min(start + PIECE, self._source.size) - 1
        data = self._source.download_as_bytes(start=start, end=end, checksum=None, single_shot_download=True)
        with self._path.open("r+b") as file:
            file.seek(start)
            file.write(data)
        self._checksums[start] = google_crc32c.value(data)
        if -1 not in self._checksums.values():
            self._compare()

    def _compare(self) -> None:
        from google.cloud.storage.exceptions import DataCorruption

        lengths = [min(PIECE, self._source.size - start) for start in self._checksums]
        if encoded(joined(self._checksums.values(), lengths)) != self._source.crc32c:
            raise DataCorruption(None, f"{self._source.name} has another checksum than {self._source.crc32c}")


# -- checksums --------------------------------------------------------------------------------------------------------


def joined(checksums: Iterable[int], lengths: Iterable[int]) -> int:
    """Returns the CRC-32C of pieces one after the other, from that of each and its length in bytes (at most PIECE).

    CRCs are linear: crc(a + b) = crc(a + zeros) ^ crc(zeros) ^ crc(b), with as many zeros as b is long.
    """
    import google_crc32c

    zeros, total = bytes(PIECE), 0
    for checksum, length in zip(checksums, lengths, strict=True):
        pad = zeros[:length]
        total = google_crc32c.extend(total, pad) ^ google_crc32c.value(pad) ^ checksum
    return total


def encoded(checksum: int) -> str:
    """Returns a CRC-32C as Cloud Storage writes it: base64 of the four bytes, most significant first."""
    return base64.b64encode(checksum.to_bytes(4, "big")).decode()
