"""The Hugging Face hub: addresses, commits, files. The only module that imports huggingface_hub.

An address is `hf://org/name` or `hf://datasets/org/name`, with `@revision` at its end or not. HF_ENDPOINT names another
hub, HF_TOKEN is the token (no stored login is used), HF_HOME is where files are cached and an interrupted download goes
on. What was cached is found without a network. Everything that the user can mend is a UserError of one line.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import UserError
from components.storage import user_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SCHEME = "hf://"


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


def _api() -> HfApi:
    from huggingface_hub import HfApi

    return HfApi(endpoint=_endpoint(), token=os.environ.get("HF_TOKEN") or False)


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
