"""Files in Cloud Storage (`gs://bucket/name`) and on this machine (plain paths), through one small surface.

Every function takes either kind of uri and behaves the same for both. A file appears whole or not at all: locally it
is written under a name that starts with `.partial-` and then renamed, in Cloud Storage a write is atomic by itself.
Which server `gs://` is, gcs.py says; how many files travel at once, transfer.py.

Fails with UserError for what the user can mend: something missing, no permission, a full disk, no credentials. What
was half-written, and every folder made for it, is removed first. Other errors of the operating system or of the
service pass through.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mimetypes
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from components import gcs, transfer
from components.errors import UserError

if TYPE_CHECKING:
    from google.cloud.storage import Blob

type Uri = str | os.PathLike[str]

PARTIAL = ".partial-"  # names that start so are being written; listings leave them out
_CHUNK = 1 << 20  # bytes
_PATIENCE_S = 10.0
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class FileInfo(NamedTuple):
    """A file below a folder: its name relative to the folder, with `/` between parts, and its size in bytes."""

    name: str
    size: int


# -- names ------------------------------------------------------------------------------------------------------------


def is_local(uri: Uri) -> bool:
    """Whether `uri` is a path on this machine. Raises UserError for a scheme other than gs://."""
    text = os.fspath(uri)
    if text.startswith(gcs.SCHEME):
        return False
    if text.startswith("gs:"):
        raise UserError(f"{text} is no address in Cloud Storage: write gs://BUCKET/FOLDER.")
    if "://" in text:
        raise UserError(f"Cannot store at {text}: use a gs:// address or a path on this machine.")
    return True


def join(uri: Uri, *parts: str) -> str:
    """Returns the address of `parts` below `uri`."""
    return "/".join([os.fspath(uri).rstrip("/"), *(part.strip("/") for part in parts)])


# -- errors -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def user_errors(action: str, uri: Uri, *, only_full: bool = False) -> Iterator[None]:
    """Turns the operating system's errors that the user can mend into UserError.

    Args:
      action: what was tried, as a verb: "read", "write", "delete".
      uri: the place it was tried on.
      only_full: translate nothing but a full disk; for blocks that do more than touch `uri`.
    """
    try:
        yield
    except OSError as error:
        place, code = os.fspath(uri), error.errno
        if action == "read" and str(error.filename).startswith(f"{place}/"):
            place = error.filename  # of a folder, the file that is at fault
        if code in (errno.ENOSPC, errno.EDQUOT):
            message = f"Disk full: cannot {action} {place}. Free some space or choose another place."
        elif code == errno.EFBIG:
            message = f"Cannot {action} {place}: the file is larger than the file system or `ulimit -f` allows."
        elif only_full:
            raise
        elif code in _FORBIDDEN:
            message = f"No permission to {action} {place}: choose another place or have access granted."
        elif code == errno.ENOENT and action == "read":
            message = f"{place} does not exist: check the address."
        elif code == errno.ENOENT:
            message = f"Cannot {action} {place}: its folder cannot be made. Choose another place."
        elif code in (errno.ENOTDIR, errno.EEXIST):
            message = f"Cannot {action} {place}: a part of the path is a file, not a folder. Choose another place."
        elif code == errno.EISDIR:
            message = f"Cannot {action} {place}: it is a folder, not a file."
        elif code == errno.ENOTEMPTY:
            message = f"Cannot {action} {place}: there are files in it already. Choose another place or remove them."
        elif code == errno.ENAMETOOLONG:
            message = f"Cannot {action} {place}: the name is too long."
        elif code == errno.ELOOP:
            message = f"Cannot {action} {place}: its symbolic links lead in a circle."
        else:
            raise
        raise UserError(message) from error


# -- this machine -----------------------------------------------------------------------------------------------------


def _remove_if_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):
        directory.rmdir()


@contextlib.contextmanager
def _parents(path: Path) -> Iterator[None]:
    """Makes the folders above `path`; removes those it made when the block fails."""
    with contextlib.ExitStack() as undo:
        with user_errors("write", path):
            for directory in [parent for parent in path.parents if not parent.exists()][::-1]:
                undo.callback(_remove_if_empty, directory)
            path.parent.mkdir(parents=True, exist_ok=True)
        yield
        undo.pop_all()


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yields the name of a file to write beside `path`; it becomes `path` when the block ends well."""
    with user_errors("write", path), _parents(path):
        partial = path.with_name(f"{PARTIAL}{uuid.uuid4().hex}")
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


# -- single files -----------------------------------------------------------------------------------------------------


def exists(uri: Uri) -> bool:
    """Whether `uri` is a file or a folder with something in it (locally: any folder)."""
    if is_local(uri):
        with user_errors("read", uri):
            return Path(uri).exists()
    with gcs.errors("read", uri):
        return (bool(gcs.split(uri)[1]) and gcs.blob(uri).exists()) or any(True for _ in gcs.blobs(uri, limit=2))


def read_bytes(uri: Uri) -> bytes:
    """Returns the content of the file `uri`."""
    if is_local(uri):
        with user_errors("read", uri):
            return Path(uri).read_bytes()
    with gcs.errors("read", uri):
        return bytes(gcs.blob(uri).download_as_bytes(checksum="crc32c"))


def read_text(uri: Uri) -> str:
    """Returns the content of the UTF-8 text file `uri`."""
    return read_bytes(uri).decode()


def write_bytes(uri: Uri, data: bytes) -> None:
    """Writes the file `uri`, whole or not at all, in place of what was there; makes the folders above it."""
    if is_local(uri):
        with _replacing(Path(uri)) as written:
            written.write_bytes(data)
        return
    with gcs.errors("write", uri):
        gcs.blob(uri).upload_from_string(data, content_type=content_type(uri), checksum="crc32c")


def write_text(uri: Uri, text: str) -> None:
    """Writes the UTF-8 text file `uri`, as `write_bytes` does."""
    write_bytes(uri, text.encode())


def copy_file(source: Uri, destination: Uri) -> None:
    """Copies one file between any two places, whole or not at all, in place of what was there."""
    if not is_local(destination):
        _store(source, destination, threading.Event())
        return
    with _replacing(Path(destination)) as written:
        if is_local(source):
            _copy(Path(source), written, destination)
        else:
            with gcs.errors("read", source):
                blob = gcs.blob(source)
                blob.reload()  # its size and checksum
                transfer.download({written: blob})


def _copy(source: Path, target: Path, destination: Uri) -> None:
    """Copies one file on this machine to `target`, which is to become `destination`."""
    reading, writing = user_errors("read", source), user_errors("write", destination)
    with reading, source.open("rb") as read, writing, target.open("wb") as written:
        shutil.copyfileobj(read, written, _CHUNK)


def _store(source: Uri, destination: Uri, stop: threading.Event) -> None:
    """Copies one file to gs://. Raises transfer.Stopped between two pieces once `stop` is set."""
    target = gcs.blob(destination)
    if is_local(source):
        with user_errors("read", source), gcs.errors("write", destination):
            transfer.upload(Path(source), target, content_type(destination), stop)
        return
    with gcs.errors("copy", source):
        token, _, _ = target.rewrite(gcs.blob(source))
        while token is not None:  # a large object between regions is copied in several calls
            if stop.is_set():
                raise transfer.Stopped
            token, _, _ = target.rewrite(gcs.blob(source), token=token)


def delete_file(uri: Uri) -> None:
    """Removes the file `uri`; nothing happens when it does not exist."""
    if is_local(uri):
        with user_errors("delete", uri):
            Path(uri).unlink(missing_ok=True)
        return
    with gcs.errors("delete", uri):
        _delete([gcs.blob(uri)])


def _delete(blobs: Iterable[Blob], **patience: float | None) -> None:
    """Removes objects, many at once; one that is gone already is no error."""
    from google.api_core.exceptions import NotFound

    def delete(blob: Blob) -> None:
        with contextlib.suppress(NotFound):
            blob.delete(**patience)

    transfer.run([partial(delete, blob) for blob in blobs])


def crc32c(uri: Uri) -> str:
    """Returns the CRC-32C of a file as Cloud Storage writes it: base64 of the four bytes, most significant first.

    Of a gs:// file it is the one that the service keeps, so nothing is downloaded.
    """
    if not is_local(uri):
        with gcs.errors("read", uri):
            blob = gcs.blob(uri)
            blob.reload()
            return str(blob.crc32c)
    import google_crc32c

    checksum = 0
    with user_errors("read", uri), Path(uri).open("rb") as file:
        while chunk := file.read(_CHUNK):
            checksum = google_crc32c.extend(checksum, chunk)
    return transfer.encoded(checksum)


def content_type(uri: Uri) -> str:
    """The type with which a browser opens the object, by its name."""
    return mimetypes.guess_type(os.fspath(uri))[0] or "application/octet-stream"


# -- folders ----------------------------------------------------------------------------------------------------------


def list_files(uri: Uri, *, deep: bool = True) -> list[FileInfo]:
    """Returns every file below the folder `uri`, at any depth, by name; none when there is no such folder.

    Without `deep`, those directly in it: a request for them does not grow with what lies in its folders. Links are
    followed. Files that are still being written are left out.
    """
    if not is_local(uri):
        with gcs.errors("list", uri):
            return sorted(FileInfo(name, blob.size) for name, blob in gcs.blobs(uri, deep=deep))
    found = []
    with user_errors("read", uri):
        for directory, folders, names in os.walk(uri, onerror=_raise_unless_missing, followlinks=True):
            folders[:] = [folder for folder in folders if deep and not folder.startswith(PARTIAL)]
            for name in names:
                if not name.startswith(PARTIAL):
                    path = Path(directory, name)
                    found.append(FileInfo(path.relative_to(uri).as_posix(), path.stat().st_size))
    return sorted(found)


def _raise_unless_missing(error: OSError) -> None:
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        raise error


def checksums(uri: Uri, names: Collection[str] | None = None) -> dict[str, str]:
    """Returns the CRC-32C (see `crc32c`) of files below the folder `uri`, keyed by relative name, in order.

    Args:
      uri: the folder.
      names: of these files alone; None is every one. Locally only they are read.
    """
    if is_local(uri):
        there = names if names is not None else [name for name, _ in list_files(uri)]
        return {name: crc32c(join(uri, name)) for name in sorted(there)}
    with gcs.errors("list", uri):
        found = {name: str(blob.crc32c) for name, blob in gcs.blobs(uri) if names is None or name in names}
        return dict(sorted(found.items()))


def copy_tree(source: Uri, destination: Uri, *, last: str = "manifest.json") -> None:
    """Copies every file below `source` to the same name below `destination`, many at once.

    The file `last` comes after all others, and an older one is removed before them: as long as it is there, what lies
    beside it is whole. When it fails, the files it has written are removed again. Raises UserError when `source` has no
    files.
    """
    found = _found(source)
    if not found:
        raise UserError(f"{os.fspath(source)} does not exist or is empty: check the address.")
    _copy_all(source, destination, found, last)


def copy_files(source: Uri, destination: Uri, names: Collection[str], *, last: str = "manifest.json") -> None:
    """Copies as `copy_tree` does, but only the files of these names, relative to the folders."""
    found: Mapping[str, Blob | None] = dict.fromkeys(names) if is_local(source) else _found(source)
    if missing := sorted(set(names) - found.keys()):
        raise UserError(f"{join(source, missing[0])} does not exist: check the address.")
    _copy_all(source, destination, {name: found[name] for name in names}, last)


def _found(uri: Uri) -> dict[str, Blob | None]:
    """Returns the names of all files below a folder; with what the service knows of each, where it does."""
    if is_local(uri):
        return {name: None for name, _ in list_files(uri)}
    with gcs.errors("list", uri):
        return dict(gcs.blobs(uri))


def _copy_all(source: Uri, destination: Uri, files: Mapping[str, Blob | None], last: str) -> None:
    ordered = {name: files[name] for name in sorted(files, key=lambda name: (name == last, name))}
    if is_local(destination):
        _copy_here(source, Path(destination), ordered, last)
    else:
        _copy_there(source, destination, list(ordered), last)


def _copy_here(source: Uri, destination: Path, files: Mapping[str, Blob | None], last: str) -> None:
    """Brings files to this machine: to a folder beside their places first, from where they are renamed in order."""
    if outside := [name for name in files if ".." in PurePosixPath(name).parts or name.startswith("/")]:
        raise UserError(f"{os.fspath(source)} holds {outside[0]}, a name that leads out of a folder: rename it.")
    stage = destination / f"{PARTIAL}{uuid.uuid4().hex}"
    with user_errors("write", destination), _parents(stage), contextlib.ExitStack() as undo:
        try:
            for folder in {(stage / name).parent for name in files}:
                folder.mkdir(parents=True, exist_ok=True)
            if is_local(source):
                transfer.run([partial(_copy, Path(source, name), stage / name, destination / name) for name in files])
            else:
                with gcs.errors("read", source):
                    transfer.download({stage / name: blob for name, blob in files.items() if blob})
            if last in files:
                (destination / last).unlink(missing_ok=True)
            for name in files:
                undo.callback(_discard, destination, name)
                place = destination / name
                with user_errors("write", place):
                    if place.parent != destination:
                        place.parent.mkdir(parents=True, exist_ok=True)
                    (stage / name).replace(place)
            undo.pop_all()
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _discard(folder: Path, name: str) -> None:
    """Removes a file that may exist, and the folders it leaves empty, silently: another error is on its way."""
    path = Path(folder, name)
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    for parent in path.parents[: len(Path(name).parts)]:
        _remove_if_empty(parent)


def _copy_there(source: Uri, destination: Uri, names: list[str], last: str) -> None:
    """Brings files to Cloud Storage."""
    stop, begun = threading.Event(), []

    def store(name: str) -> None:
        begun.append(name)
        _store(join(source, name), join(destination, name), stop)

    if last in names:
        delete_file(join(destination, last))
    try:
        transfer.run([partial(store, name) for name in names if name != last], stop)
        transfer.run([partial(store, name) for name in names if name == last], stop)
    except BaseException:
        _discard_objects(join(destination, name) for name in begun)
        raise


def _discard_objects(uris: Iterable[str]) -> None:
    """Removes objects that may exist, silently and without patience: another error is on its way."""
    import requests  # type: ignore[import-untyped]
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    with contextlib.suppress(GoogleAPIError, GoogleAuthError, requests.RequestException):
        _delete((gcs.blob(uri) for uri in uris), retry=None, timeout=_PATIENCE_S)


def location(uri: Uri) -> str:
    """Returns where the bucket of a gs:// address lies: a region such as `us-central1`, or `us`, `eu`, `nam4`.

    Source: https://cloud.google.com/storage/docs/locations
    """
    with gcs.errors("locate", uri):
        bucket = gcs.bucket(uri)
        bucket.reload()
        return str(bucket.location).lower()


def delete_tree(uri: Uri) -> None:
    """Removes the folder `uri` with all in it; nothing happens when it does not exist.

    Raises UserError for the root of the file system and for a whole bucket.
    """
    if is_local(uri):
        path = Path(uri)
        if path.resolve() == Path(path.resolve().anchor):
            raise UserError(f"Refusing to delete {path}: name a folder below it.")
        with user_errors("delete", uri), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
        return
    if not gcs.split(uri)[1]:
        raise UserError(f"Refusing to delete the whole bucket {os.fspath(uri)}: name a folder in it.")
    with gcs.errors("delete", uri):
        _delete(blob for _, blob in gcs.blobs(uri))


@contextlib.contextmanager
def staged(destination: Uri) -> Iterator[Path]:
    """Yields an empty folder on this machine; what is in it becomes `destination` when the block ends well.

    Locally the folder lies beside `destination` and is renamed, so the tree appears whole. To gs:// it is uploaded, the
    file manifest.json last. When the block fails nothing remains. Raises UserError when the local `destination` has
    files in it.
    """
    if not is_local(destination):
        with tempfile.TemporaryDirectory() as temporary, user_errors("write", temporary, only_full=True):
            yield Path(temporary)
            copy_tree(temporary, destination)
        return
    target = Path(destination).absolute()
    stage = target.with_name(f"{PARTIAL}{uuid.uuid4().hex}")
    with user_errors("write", target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UserError(f"{target} is occupied: choose another place or remove it.")
    with _parents(target):
        try:
            with user_errors("write", target):
                stage.mkdir()
            with user_errors("write", target, only_full=True):
                yield stage
            with user_errors("write", target):
                stage.rename(target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)  # nothing is there when it has been renamed


def local_copy(uri: Uri, cache_dir: Uri) -> Path:
    """Returns a path on this machine with the content of the file or folder `uri`.

    A local uri is its own copy. A gs:// one is kept in `cache_dir`, in a place of its own for each content, and fetched
    again only when the checksums differ. Raises UserError when it does not exist.
    """
    if is_local(uri):
        with user_errors("read", uri):
            Path(uri).stat()
        return Path(uri)
    with gcs.errors("read", uri):
        is_file = bool(gcs.split(uri)[1]) and gcs.blob(uri).exists()

    def content(place: Uri) -> object:
        return crc32c(place) if is_file else sorted(checksums(place).items())

    wanted = content(uri)
    key = hashlib.sha256(f"{os.fspath(uri)} {wanted}".encode()).hexdigest()[:16]
    target = Path(cache_dir, key, Path(os.fspath(uri)).name)  # the name is kept: its ending tells the format
    if not target.exists() or content(target) != wanted:
        (copy_file if is_file else copy_tree)(uri, target)
    return target
