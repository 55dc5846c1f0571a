"""Files in Cloud Storage (`gs://bucket/name`) and on this machine (plain paths), through one small surface.

Every function takes either kind of uri and behaves the same for both. A file appears whole or not at all: locally it
is written under a name that starts with `.partial-` and then renamed, in Cloud Storage a write is atomic by itself.

With STORAGE_EMULATOR_HOST set, `gs://` is that server, without credentials; otherwise Google's, with the default
credentials of the environment.

Fails with UserError for what the user can mend: something missing, no permission, a full disk, no credentials. What
was half-written, and every folder made for it, is removed first. Other errors of the operating system or of the
service pass through.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import hashlib
import mimetypes
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from components.errors import UserError

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket, Client

type Uri = str | os.PathLike[str]

PARTIAL = ".partial-"  # names that start so are being written; listings leave them out
_CHUNK = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class FileInfo(NamedTuple):
    """A file below a folder: its name relative to the folder, with `/` between parts, and its size in bytes."""

    name: str
    size: int


# -- names ------------------------------------------------------------------------------------------------------------


def is_local(uri: Uri) -> bool:
    """Whether `uri` is a path on this machine. Raises UserError for a scheme other than gs://."""
    text = os.fspath(uri)
    if text.startswith("gs://"):
        return False
    assert not text.startswith("gs:/"), f"{text} went through pathlib, which takes away a slash"
    if "://" in text:
        raise UserError(f"Cannot store at {text}: use a gs:// address or a path on this machine.")
    return True


def join(uri: Uri, *parts: str) -> str:
    """Returns the address of `parts` below `uri`."""
    return "/".join([os.fspath(uri).rstrip("/"), *(part.strip("/") for part in parts)])


def _split(uri: Uri) -> tuple[str, str]:
    """Splits gs://bucket/name into bucket and name; the name has no slash at its ends and may be empty."""
    bucket, _, name = os.fspath(uri).removeprefix("gs://").partition("/")
    if not bucket:
        raise UserError(f"{os.fspath(uri)} names no bucket: write gs://BUCKET/NAME.")
    return bucket, name.strip("/")


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
        else:
            raise
        raise UserError(message) from error


@contextlib.contextmanager
def _gcs_errors(action: str, uri: Uri) -> Iterator[None]:
    """Turns Cloud Storage's errors that the user can mend into UserError."""
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    place = os.fspath(uri)
    bucket = place.removeprefix("gs://").partition("/")[0]
    try:
        yield
    except api.NotFound as error:
        raise UserError(f"Cannot {action} {place}: it, or the bucket {bucket}, does not exist.") from error
    except (api.Forbidden, api.Unauthorized) as error:
        cure = f"grant this account a Storage role on the bucket {bucket}"
        raise UserError(f"No permission to {action} {place}: {cure}.") from error
    except auth.DefaultCredentialsError as error:
        cure = "run `gcloud auth application-default login` or attach a service account"
        raise UserError(f"No Google credentials to {action} {place}: {cure}.") from error
    except auth.RefreshError as error:
        cure = "run `gcloud auth application-default login` again"
        raise UserError(f"The Google credentials to {action} {place} are no longer valid: {cure}.") from error
    except (api.RetryError, auth.TransportError, requests.ConnectionError) as error:
        raise UserError(f"Cannot reach Cloud Storage to {action} {place}: check the network.") from error


# -- Cloud Storage ----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _client(emulator: str | None) -> Client:
    """The client for one server. Imported here because the library takes a second to load."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    if emulator:
        return storage.Client(project="emulator", credentials=AnonymousCredentials())
    return storage.Client()


def _bucket(uri: Uri) -> Bucket:
    return _client(os.environ.get("STORAGE_EMULATOR_HOST")).bucket(_split(uri)[0])


def _blob(uri: Uri) -> Blob:
    return _bucket(uri).blob(_split(uri)[1])


def _blobs(uri: Uri, limit: int | None = None) -> Iterator[tuple[str, Blob]]:
    """Yields (relative name, blob) of every object below the folder `uri`."""
    name = _split(uri)[1]
    prefix = f"{name}/" if name else ""
    bucket = _bucket(uri)
    for blob in bucket.client.list_blobs(bucket, prefix=prefix, max_results=limit):
        if not blob.name.endswith("/"):  # an empty object that a console made to show a folder
            yield blob.name.removeprefix(prefix), blob


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
    with _gcs_errors("read", uri):
        return (bool(_split(uri)[1]) and _blob(uri).exists()) or any(True for _ in _blobs(uri, limit=2))


def read_bytes(uri: Uri) -> bytes:
    """Returns the content of the file `uri`."""
    if is_local(uri):
        with user_errors("read", uri):
            return Path(uri).read_bytes()
    with _gcs_errors("read", uri):
        return bytes(_blob(uri).download_as_bytes(checksum="crc32c"))


def read_text(uri: Uri) -> str:
    """Returns the content of the UTF-8 text file `uri`."""
    return read_bytes(uri).decode()


def write_bytes(uri: Uri, data: bytes) -> None:
    """Writes the file `uri`, whole or not at all, in place of what was there; makes the folders above it."""
    if is_local(uri):
        with _replacing(Path(uri)) as partial:
            partial.write_bytes(data)
        return
    with _gcs_errors("write", uri):
        _blob(uri).upload_from_string(data, content_type=_content_type(uri), checksum="crc32c")


def write_text(uri: Uri, text: str) -> None:
    """Writes the UTF-8 text file `uri`, as `write_bytes` does."""
    write_bytes(uri, text.encode())


def copy_file(source: Uri, destination: Uri) -> None:
    """Copies one file between any two places, whole or not at all, in place of what was there."""
    if is_local(destination):
        with _replacing(Path(destination)) as partial:
            if is_local(source):
                reading, writing = user_errors("read", source), user_errors("write", destination)
                with reading, Path(source).open("rb") as read, writing, partial.open("wb") as written:
                    shutil.copyfileobj(read, written, _CHUNK)
            else:
                with _gcs_errors("read", source):
                    _blob(source).download_to_filename(str(partial), checksum="crc32c")
        return
    if is_local(source):
        with user_errors("read", source), _gcs_errors("write", destination):
            _blob(destination).upload_from_filename(
                os.fspath(source), content_type=_content_type(destination), checksum="crc32c"
            )
        return
    with _gcs_errors("copy", source):
        token, target = None, _blob(destination)
        while True:  # a large object between regions is copied in several calls
            token, _, _ = target.rewrite(_blob(source), token=token)
            if token is None:
                return


def crc32c(uri: Uri) -> str:
    """Returns the CRC-32C of a file as Cloud Storage writes it: base64 of the four bytes, most significant first.

    Of a gs:// file it is the one that the service keeps, so nothing is downloaded.
    """
    if not is_local(uri):
        with _gcs_errors("read", uri):
            blob = _blob(uri)
            blob.reload()
            return str(blob.crc32c)
    import google_crc32c

    checksum = google_crc32c.Checksum()
    with user_errors("read", uri), Path(uri).open("rb") as file:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
    return base64.b64encode(checksum.digest()).decode()


def _content_type(uri: Uri) -> str:
    """The type with which a browser opens the object, by its name."""
    return mimetypes.guess_type(os.fspath(uri))[0] or "application/octet-stream"


# -- folders ----------------------------------------------------------------------------------------------------------


def list_files(uri: Uri) -> list[FileInfo]:
    """Returns every file below the folder `uri`, at any depth, by name; none when there is no such folder.

    Links are followed. Files that are still being written are left out.
    """
    if not is_local(uri):
        with _gcs_errors("list", uri):
            return sorted(FileInfo(name, blob.size) for name, blob in _blobs(uri))
    found = []
    with user_errors("read", uri):
        for directory, folders, names in os.walk(uri, onerror=_raise_unless_missing, followlinks=True):
            folders[:] = [folder for folder in folders if not folder.startswith(PARTIAL)]
            for name in names:
                if not name.startswith(PARTIAL):
                    path = Path(directory, name)
                    found.append(FileInfo(path.relative_to(uri).as_posix(), path.stat().st_size))
    return sorted(found)


def _raise_unless_missing(error: OSError) -> None:
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        raise error


def checksums(uri: Uri) -> dict[str, str]:
    """Returns the CRC-32C (see `crc32c`) of every file below the folder `uri`, keyed by relative name."""
    if is_local(uri):
        return {name: crc32c(join(uri, name)) for name, _ in list_files(uri)}
    with _gcs_errors("list", uri):
        return {name: str(blob.crc32c) for name, blob in sorted(_blobs(uri), key=lambda entry: entry[0])}


def copy_tree(source: Uri, destination: Uri, *, last: str = "manifest.json") -> None:
    """Copies every file below `source` to the same name below `destination`, the file `last` after all others.

    When it fails, the files it has written are removed again. Raises UserError when `source` has no files.
    """
    names = sorted((name for name, _ in list_files(source)), key=lambda name: (name == last, name))
    if not names:
        raise UserError(f"{os.fspath(source)} does not exist or is empty: check the address.")
    folder = _parents(Path(destination, "any file")) if is_local(destination) else contextlib.nullcontext()
    with folder, contextlib.ExitStack() as undo:
        for name in names:
            undo.callback(_discard, destination, name)
            copy_file(join(source, name), join(destination, name))
        undo.pop_all()


def _discard(folder: Uri, name: str) -> None:
    """Removes a file that may exist, and the folders it leaves empty, silently: another error is on its way."""
    if is_local(folder):
        path = Path(folder, name)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        for parent in path.parents[: len(Path(name).parts)]:
            _remove_if_empty(parent)
    else:
        from google.api_core.exceptions import GoogleAPIError

        with contextlib.suppress(GoogleAPIError):
            _blob(join(folder, name)).delete()


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
    if not _split(uri)[1]:
        raise UserError(f"Refusing to delete the whole bucket {os.fspath(uri)}: name a folder in it.")
    with _gcs_errors("delete", uri):
        for _, blob in list(_blobs(uri)):
            blob.delete()


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
    with _gcs_errors("read", uri):
        is_file = bool(_split(uri)[1]) and _blob(uri).exists()

    def content(place: Uri) -> object:
        return crc32c(place) if is_file else sorted(checksums(place).items())

    wanted = content(uri)
    key = hashlib.sha256(f"{os.fspath(uri)} {wanted}".encode()).hexdigest()[:16]
    target = Path(cache_dir, key, Path(os.fspath(uri)).name)  # the name is kept: its ending tells the format
    if not target.exists() or content(target) != wanted:
        (copy_file if is_file else copy_tree)(uri, target)
    return target
