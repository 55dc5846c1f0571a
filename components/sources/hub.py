"""The Hugging Face hub: addresses, commits, files. The only module that imports huggingface_hub.

An address is `hf://org/name` or `hf://datasets/org/name`, with `@revision` at its end or not. HF_ENDPOINT names another
hub. The token is HF_TOKEN, else the secret that the preset names, and no stored login. HF_HOME is where files are cached
and an interrupted download goes on; what was cached is found without a network. A file can also be read as a stream that
touches no disk; its bytes are then compared with the hash that the hub names. Everything that the user can mend is a
UserError of one line.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from components import secrets
from components.errors import UserError
from components.refusal import TIMED_OUT, UNREACHABLE, refusal
from components.storage import user_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SCHEME = "hf://"
_CHUNK = 1 << 20  # bytes
_PATIENCE_S = 60.0  # for the answer to one call of a push
_TRIES = 6  # connections in a row that bring nothing, with half a minute of waiting between them in all


@dataclass(frozen=True)
class Repo:
    """A repository of the hub: `model` or `dataset`, `org/name`, and the revision asked for."""

    kind: str
    id: str
    revision: str | None

    @property
    def uri(self) -> str:
        """The address without revision."""
        return f"{SCHEME}{'datasets/' if self.kind == 'dataset' else ''}{self.id}"


class File(NamedTuple):
    """A file at a commit: its size in bytes and the hash of its content, `sha256:...` (LFS) or `git:...`."""

    name: str
    size: int
    digest: str


def parse(source: str, kind: str, revision: str | None = None) -> Repo:
    """Reads an address. `revision` and an `@revision` in the address must not contradict each other."""
    from huggingface_hub.errors import HfUriError
    from huggingface_hub.utils import parse_hf_uri

    example = f"{SCHEME}datasets/org/name" if kind == "dataset" else f"{SCHEME}org/name"
    try:
        uri = parse_hf_uri(source)
    except HfUriError as error:
        raise UserError(f"{source} is no address on the hub: write {example}.") from error
    if uri.type != kind or uri.path_in_repo:
        raise UserError(f"{source} is not the address of a {kind}: write {example}.")
    if uri.revision and revision and uri.revision != revision:
        raise UserError(f"{source} names another revision than the configuration ({revision}): keep one of them.")
    return Repo(kind, uri.id, uri.revision or revision)


def resolve(repo: Repo) -> str:
    """Returns the commit of the repository's revision (of its default branch without one)."""
    with _hub_errors(repo):
        return str(_api().resolve_revision(repo.id, repo_type=repo.kind, revision=repo.revision).resolved)


def list_files(repo: Repo, commit: str) -> list[str]:
    """Returns the names of all files at a commit."""
    with _hub_errors(repo):
        return sorted(_api().list_repo_files(repo.id, repo_type=repo.kind, revision=commit))


def files(repo: Repo, commit: str) -> list[File]:
    """Returns all files at a commit, by name."""
    from huggingface_hub import RepoFile

    with _hub_errors(repo):
        entries = list(_api().list_repo_tree(repo.id, repo_type=repo.kind, revision=commit, recursive=True))
    return sorted(
        File(entry.path, entry.size, f"sha256:{entry.lfs.sha256}" if entry.lfs else f"git:{entry.blob_id}")
        for entry in entries
        if isinstance(entry, RepoFile)
    )


def fetch(repo: Repo, commit: str, patterns: Iterable[str], ignore: Iterable[str] = ()) -> Path:
    """Returns a folder of the cache that has the files of a commit which match `patterns` and none of `ignore`.

    A `*` stands for slashes too. Other files of that commit may lie in the folder.
    """
    with _hub_errors(repo):
        folder = _api().snapshot_download(
            repo.id,
            repo_type=repo.kind,
            revision=commit,
            allow_patterns=list(patterns),
            ignore_patterns=list(ignore) or None,
        )
    assert isinstance(folder, str)  # a list only when asked what it would do
    return Path(folder)


class Stream:
    """The bytes of a file at a commit. The last are handed out only when all of them have the hash that the hub names.

    Where a connection breaks, the next one goes on.
    """

    def __init__(self, repo: Repo, commit: str, file: File) -> None:
        self._chunks = _chunks(repo, commit, file)
        self._ahead = b""
        self._address = f"{repo.uri}/{file.name}"
        self._size = file.size
        self._position = 0
        algorithm, self._expected = file.digest.split(":")
        self._hash = hashlib.sha256() if algorithm == "sha256" else hashlib.sha1(usedforsecurity=False)
        if algorithm == "git":  # https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
            self._hash.update(f"blob {file.size}\0".encode())

    def read(self, size: int) -> bytes:
        """Returns the next `size` bytes, fewer only at the end. Raises UserError when the file is not what it should be."""
        wanted = min(size, self._size - self._position)
        pieces, there = [self._ahead], len(self._ahead)
        while there < wanted and (piece := next(self._chunks, b"")):
            pieces.append(piece)
            there += len(piece)
        ahead = b"".join(pieces)
        data, self._ahead = ahead[:wanted], ahead[wanted:]
        self._hash.update(data)
        self._position += len(data)
        if self._position == self._size and self._hash.hexdigest() != self._expected:
            raise UserError(f"{self._address} was damaged on the way: its hash is not the hub's. Try again.")
        return data

    def tell(self) -> int:
        """How many bytes were read."""
        return self._position

    def close(self) -> None:
        """Ends the connection."""
        self._chunks.close()


@contextlib.contextmanager
def opened(repo: Repo, commit: str, file: File) -> Iterator[Stream]:
    """Yields the bytes of a file at a commit."""
    with _hub_errors(repo), contextlib.closing(Stream(repo, commit, file)) as stream:
        yield stream


def _chunks(repo: Repo, commit: str, file: File) -> Generator[bytes, None, None]:
    import httpx
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    # errors of the connection are ours to handle: the library's way fails where bytes have come already
    patience: dict[str, Any] = {"timeout": constants.HF_HUB_DOWNLOAD_TIMEOUT, "retry_on_exceptions": ()}
    url = hf_hub_url(repo.id, file.name, repo_type=repo.kind, revision=commit, endpoint=_endpoint())
    headers = {**build_hf_headers(token=_token()), "Accept-Encoding": "identity"}  # else ranges are of packed bytes
    done, failures = 0, 0
    while done < file.size:
        headers["Range"] = f"bytes={done}-{file.size - 1}"
        before = done
        try:
            with http_stream_backoff("GET", url, headers=headers, **patience) as answer:
                hf_raise_for_status(answer)
                for chunk in answer.iter_bytes(_CHUNK):
                    yield chunk
                    done += len(chunk)
                if done == before:
                    raise httpx.RemoteProtocolError(f"{url} is shorter than {file.size} bytes")
        except httpx.TransportError:
            failures = failures + 1 if done == before else 1
            if failures == _TRIES:
                raise
            time.sleep(2 ** (failures - 1) - 1)


def _api() -> HfApi:
    from huggingface_hub import HfApi

    return HfApi(endpoint=_endpoint(), token=_token())


def _token() -> str | bool:
    return secrets.value(secrets.HF_TOKEN) or False


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


@contextlib.contextmanager
def _hub_errors(repo: Repo) -> Iterator[None]:
    """Turns the hub's errors that the user can mend into UserError."""
    import httpx
    from huggingface_hub import constants, errors

    at = f"{repo.uri}@{repo.revision}" if repo.revision else repo.uri
    try:
        with user_errors("write", constants.HF_HOME, only_full=True):
            yield
    except errors.HFValidationError as error:
        raise UserError(f"{repo.uri} is no address on the hub: {error}") from error
    except errors.GatedRepoError as error:
        page = at.replace(SCHEME, f"{_endpoint()}/").partition("@")[0]
        raise UserError(f"{repo.uri} is gated: accept its terms on {page} and set HF_TOKEN.") from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(
            f"{repo.uri} is not on the hub, or is private: check the name, or set HF_TOKEN to a token that may read it."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UserError(f"{repo.uri} has no revision {repo.revision}: check the name of the commit or tag.") from error
    except (
        errors.RevisionResolutionError,
        errors.LocalEntryNotFoundError,
        errors.IncompleteSnapshotError,
        errors.OfflineModeIsEnabled,
        httpx.TransportError,
    ) as error:
        cure = "check the network and HF_HUB_OFFLINE, or give a local path"
        raise UserError(f"Cannot reach the hub at {_endpoint()} for {at}: {cure}.") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        cure = "set HF_TOKEN to a token that may read it" if status in (401, 403) else "try again later"
        raise UserError(f"The hub answered {status} for {at}: {cure}.") from error


# -- a repository to write to ------------------------------------------------------------------------------------------


def check_writable(repo_id: str, *, private: bool) -> None:
    """Raises UserError when a model could not be pushed to `org/name`, or would be public there though `private`."""
    from huggingface_hub.errors import HfHubHTTPError

    if not _token():
        raise UserError(f"Pushing to {repo_id} needs a token that may write there: set HF_TOKEN, or secrets.hf_token.")
    owner = repo_id.partition("/")[0]
    with writing(repo_id) as api:
        try:
            api.auth_check(repo_id, write=True)
            public = not api.model_info(repo_id).private
        except HfHubHTTPError as error:
            if error.response.status_code not in (401, 404):  # how the hub says that there is none, or a hidden one
                raise
            public = False
            who = api.whoami()
            if owner not in {who["name"], *(org["name"] for org in who["orgs"])}:
                raise UserError(
                    f"{repo_id} is not on the hub, and {who['name']} is no member of {owner}: check publish.hub."
                ) from None
    if public and private:
        raise UserError(
            f"{repo_id} is public on the hub, and publish.private is true: make it private there, or set it to false."
        )


@contextlib.contextmanager
def writing(repo_id: str) -> Iterator[HfApi]:
    """Yields the library's client to push to `org/name`. What the hub refuses is a UserError."""
    import httpx
    from hf_xet import XetAuthenticationError  # type: ignore[import-untyped]
    from huggingface_hub import errors, get_session

    get_session().timeout = _PATIENCE_S  # the library would wait forever
    rights = f"Give HF_TOKEN a token that may write to {repo_id}."
    changed = "Somebody else has pushed to it: publish again."
    cures = {
        401: "Give HF_TOKEN a token that is valid.",
        403: rights,
        404: rights,
        409: changed,
        412: changed,
        UNREACHABLE: "Check the network and HF_ENDPOINT.",
    }
    try:
        yield _api()
    except (
        errors.HfHubHTTPError,
        httpx.TransportError,
        ConnectionError,
        TimeoutError,
        XetAuthenticationError,
    ) as error:
        status, words = _refused(error)
        if "storage" in words.lower():
            cures[403] = "Free space on the hub, or have the quota raised."
        raise refusal("The Hugging Face hub", f"take {repo_id}", status, words, cures) from error


def _refused(error: Exception) -> tuple[int, str]:
    """Status and words of the hub's refusal. Its store of large files has a client of its own, which knows only OSError."""
    import httpx
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):
        return error.response.status_code, error.server_message or ""
    if status := re.search(r"\((\d{3}) ", str(error)):
        return int(status[1]), ""
    return TIMED_OUT if isinstance(error, httpx.TimeoutException | TimeoutError) else UNREACHABLE, ""
