"""Runs that want the same thing do the work once: one holds the lock of a place, the others wait.

In: the address of the place, local or gs://. The lock lies beside it as `<place>.lock` and is removed at the end.

In Cloud Storage it is an object that its holder writes anew every quarter of its expiry. Each write names the
generation that it replaces, so of two only one succeeds. A waiter that has seen the same generation for the whole
expiry, by its own clock, takes the lock over: the holder is dead or cut off. Locally it is a file with `flock`, which
the system releases when the holder ends, however it ends.

The lock saves work and nothing else. A holder that stood still for longer than the expiry goes on beside its successor,
so both must write the same bytes, and readers must go by the manifest.

Raises UserError where the lock cannot be written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from components import gcs, storage
from components.progress import duration

EXPIRY_S = 60.0  # a killed holder delays the others by at most this and one look
_LOOKS = 20  # of a waiter within the expiry
_RENEWALS = 4  # of a holder within the expiry
_LOCAL_LOOK_S = 0.2
_FAREWELL_S = 10.0

type _Say = Callable[[str], None]


@contextlib.contextmanager
def held(uri: storage.Uri, say: _Say) -> Iterator[None]:
    """Holds the lock of `uri` while the block runs; waits first while another holds it.

    Args:
      uri: the file or folder that the block makes. It need not exist.
      say: is told whom we wait for, that we take a lock over, and that ours was lost.
    """
    with _file(Path(uri), say) if storage.is_local(uri) else _object(os.fspath(uri), say):
        yield


def _me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


# -- this machine -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _file(place: Path, say: _Say) -> Iterator[None]:
    path = place.absolute().with_name(f"{place.name}.lock")
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        with _locked(path, say):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # something lies in it
                folder.rmdir()


def _locked(path: Path, say: _Say) -> IO[str]:
    """Returns the lock file, open and locked until it is closed."""
    told = False
    with storage.user_errors("write", path):
        while True:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                file = path.open("a+")
            except FileNotFoundError:  # the holder that has just ended has removed the folder
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    file.seek(0)
                    say(f"waiting for {file.read() or 'another run'}, which works on {path.with_suffix('')}")
                    told = True
                file.close()
                time.sleep(_LOCAL_LOOK_S)
                continue
            if _lies_at(file, path):
                file.truncate(0)
                file.write(_me())
                file.flush()
                return file
            file.close()


def _lies_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is the one at `path`, and not one that its last holder removed before we had it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


# -- Cloud Storage ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _object(place: str, say: _Say) -> Iterator[None]:
    lock = _Object(place, say)
    lock.acquire()
    ended = threading.Event()
    renewal = threading.Thread(target=lock.renew, args=(ended,), daemon=True)
    renewal.start()
    try:
        yield
    finally:
        ended.set()
        renewal.join()
        lock.release()


class _Object:
    """A lock in Cloud Storage. Its content is in its metadata: who holds it, for people, and a token, for us."""

    def __init__(self, place: str, say: _Say) -> None:
        bucket, name = gcs.split(place)
        self._place = place
        self._uri = f"{gcs.SCHEME}{bucket}/{name}.lock"
        self._say = say
        self._token = uuid.uuid4().hex
        self._generation = 0  # of our last write
        self._lost = False

    def acquire(self) -> None:
        """Returns when the lock is ours."""
        bucket, name = gcs.bucket(self._uri), gcs.split(self._uri)[1]
        seen, since, told = 0, 0.0, ""
        with gcs.errors("write", self._uri):
            while True:
                there = bucket.get_blob(name)
                if there is None:
                    if self._write(in_place_of=0):
                        return
                    continue
                holder = (there.metadata or {}).get("holder", "another run")
                if there.generation != seen:
                    seen, since = there.generation, time.monotonic()
                    if holder != told:
                        self._say(f"waiting for {holder}, which works on {self._place}")
                        told = holder
                elif time.monotonic() - since >= EXPIRY_S:
                    self._say(f"{holder} has been silent for {duration(EXPIRY_S)}: taking its work over")
                    if self._write(in_place_of=seen):
                        return
                time.sleep(EXPIRY_S / _LOOKS)

    def renew(self, ended: threading.Event) -> None:
        """Writes the lock anew until `ended` is set or it is lost. A service out of reach is tried again."""
        import requests  # type: ignore[import-untyped]
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError

        period = EXPIRY_S / _RENEWALS
        while not ended.wait(period):
            with contextlib.suppress(GoogleAPIError, GoogleAuthError, requests.RequestException):
                self._lost = not self._write(in_place_of=self._generation, retry=None, timeout=period)
            if self._lost:
                self._say(f"another run took {self._place} over because this one stood still; both go on")
                return

    def release(self) -> None:
        """Removes the lock if it is ours. Where that fails, it expires."""
        import requests
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError

        if not self._lost:
            with contextlib.suppress(GoogleAPIError, GoogleAuthError, requests.RequestException):
                gcs.blob(self._uri).delete(if_generation_match=self._generation, retry=None, timeout=_FAREWELL_S)

    def _write(self, *, in_place_of: int, **patience: float | None) -> bool:
        """Writes the lock in place of one generation (0: of none); returns whether it is ours."""
        from google.api_core.exceptions import PreconditionFailed

        blob = gcs.blob(self._uri)
        blob.metadata = {"holder": _me(), "token": self._token}
        try:
            blob.upload_from_string(b"", if_generation_match=in_place_of, **patience)
        except PreconditionFailed:
            blob = gcs.bucket(self._uri).get_blob(blob.name)
            if blob is None or (blob.metadata or {}).get("token") != self._token:
                return False
            # an earlier write of ours had succeeded, and only its answer was lost
        self._generation = blob.generation
        return True
