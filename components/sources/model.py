"""The model to improve, as a Hugging Face directory with manifest and provenance, pinned to one revision.

In: a source, `hf://org/name`, a directory (local or gs://), or `tiny://<family>`. Out: the directory at its destination
and its record. Runs that want the same model at the same place fetch it once. A source that is not a usable model is a
UserError, before its weights are moved where that can be seen, and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from components import gcs, lock, manifest, record, storage
from components.errors import UserError, did_you_mean
from components.progress import say
from components.record import ArtifactRecord
from components.sources import bucket, check, hub, place
from components.sources.tiny import make as tiny

TINY = "tiny://"
_TEXTS = ("*.json", "*.txt", "*.model", "*.jinja")
_WEIGHTS = ("*.safetensors",)
_BELOW = ("*/*",)  # other forms of the weights (onnx, fp8, original) lie in folders
_TINY_SEED = 0
_say = partial(say, "download")


def resolve_revision(source: str, revision: str | None) -> str:
    """Returns what pins the bytes of a source.

    For the hub the commit of `revision`, or of the default branch. For a directory, which must be a usable model, a
    hash over its configuration and the sizes and checksums of its files; for a tiny model a hash over its generator.
    Where these two are given a `revision`, it must be the one they have.
    """
    if source.startswith(hub.SCHEME):
        return hub.resolve(hub.parse(source, "model", revision))
    if source.startswith(TINY):
        _family(source)
        found = _tiny_revision()
    else:
        if storage.is_local(source):
            check.check_model_directory(source)
        found = _directory_revision(source)
    if revision not in (None, found):
        raise UserError(f"{source} is not at {revision} but at {found}: it has changed. Start a run anew.")
    return found


def fetch_model(
    source: str, revision: str | None, destination: storage.Uri, *, run_id: str = "", config_sha256: str = ""
) -> ArtifactRecord:
    """Puts the model at `destination` unless it is there already, and returns its record.

    Args:
      source: see the module.
      revision: as `resolve_revision` takes or returns it.
      destination: a folder, local or gs://, that is free or holds this very model.
      run_id: the run that asks for it; not in the record of a model that another run has fetched.
      config_sha256: the configuration of that run.
    """
    commit = resolve_revision(source, revision)
    repo = hub.parse(source, "model", revision) if source.startswith(hub.SCHEME) else None
    address = repo.uri if repo else source
    made = ArtifactRecord(
        kind="hf-model",
        format="safetensors",
        data_uri=os.fspath(destination),
        base_model_id=repo.id if repo else source,
        base_model_revision=commit,
        run_id=run_id,
        parent_uris=[f"{address}@{commit}"],
        config_sha256=config_sha256,
        extra={"identity": record.sha256_of({"source": address, "revision": commit})},
    )
    if there := place.found(destination, made):
        return there
    with lock.held(destination, _say):
        if there := place.found(destination, made):  # made by the run that we waited for
            return there
        if storage.is_local(destination) or source.startswith(TINY):
            _through_this_machine(source, repo, made)
        else:
            if repo:
                _hub_to_bucket(repo, commit, made.data_uri)
            else:
                _directory_to_bucket(source, made.data_uri)
            record.write(made, made.data_uri)
            manifest.write_manifest(made.data_uri)
    return made


def _through_this_machine(source: str, repo: hub.Repo | None, made: ArtifactRecord) -> None:
    storage.delete_tree(made.data_uri)  # what a run that was killed has left
    with storage.staged(made.data_uri) as stage:
        if repo:
            _from_hub(repo, made.base_model_revision, stage)
        elif source.startswith(TINY):
            tiny.make(_family(source), stage, _TINY_SEED)
        else:
            storage.copy_files(source, stage, _model_files(source))
        with _called(stage, repo.uri if repo else source):
            check.check_model_directory(stage)
        record.write(made, stage)
        manifest.write_manifest(stage)


def _from_hub(repo: hub.Repo, commit: str, stage: Path) -> None:
    _texts(repo, commit)
    cached = hub.fetch(repo, commit, (*_TEXTS, *_WEIGHTS), _BELOW)
    for name in _model_files(cached):
        _link_or_copy(cached / name, stage / name)


def _texts(repo: hub.Repo, commit: str) -> Path:
    """Returns a folder with the small files of a model; most unusable models are refused here."""
    texts = hub.fetch(repo, commit, _TEXTS, _BELOW)
    with _called(texts, repo.uri):
        check.check_config(texts)
        check.check_tokenizer(texts)
    return texts


def _hub_to_bucket(repo: hub.Repo, commit: str, destination: str) -> None:
    texts = _texts(repo, commit)
    files = [file for file in hub.files(repo, commit) if _is_part(file.name)]
    weights = {file.name: file for file in files if _matches(file.name, _WEIGHTS)}
    with _looked_at(repo.uri) as skeleton:
        storage.copy_files(texts, skeleton, [file.name for file in files if file.name not in weights])
        sizes = {name: file.size for name, file in weights.items()}
        bucket.write_headers(sizes, lambda name: hub.opened(repo, commit, weights[name]), skeleton)
    bucket.stream(repo, commit, files, destination, _say)


def _directory_to_bucket(source: str, destination: str) -> None:
    names = _model_files(source)
    if not storage.is_local(source):  # else it was checked when its revision was
        sizes = dict(storage.list_files(source))
        weights = {name: sizes[name] for name in names if _matches(name, _WEIGHTS)}
        with _looked_at(source) as skeleton:
            storage.copy_files(source, skeleton, [name for name in names if name not in weights])
            with gcs.errors("read", source):
                bucket.write_headers(weights, lambda name: gcs.opened(storage.join(source, name)), skeleton)
    storage.delete_tree(destination)  # what a run that was killed has left
    storage.copy_files(source, destination, names)


@contextlib.contextmanager
def _looked_at(address: str) -> Iterator[Path]:
    """Yields a folder to put the texts and the headers of a model in, and checks what was put there."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        with _called(folder, address):
            check.check_model_directory(folder)


@contextlib.contextmanager
def _called(folder: str | Path, address: str) -> Iterator[None]:
    """Names a folder of ours, in what the user reads, by the address that they know."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace(str(folder), address)) from error


def _link_or_copy(source: Path, target: Path) -> None:
    """Gives a file of the hub's cache, which never changes, a second name; copies it where that cannot be."""
    try:
        os.link(source.resolve(), target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        storage.copy_file(source, target)


def _model_files(directory: storage.Uri) -> list[str]:
    """Returns the names of the files directly in a directory that belong to a model."""
    return [name for name, _ in storage.list_files(directory) if _is_part(name)]


def _is_part(name: str) -> bool:
    ours = (manifest.FILE_NAME, record.FILE_NAME)
    return "/" not in name and name not in ours and _matches(name, _TEXTS + _WEIGHTS)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _directory_revision(source: str) -> str:
    names = _model_files(source)
    if "config.json" not in names:
        raise UserError(f"{source} does not exist or has no config.json: check model.source.")
    sizes, sums = dict(storage.list_files(source)), storage.checksums(source, names)
    files = {name: [sizes[name], sums[name]] for name in names}
    return record.sha256_of([storage.read_text(storage.join(source, "config.json")), files])[:40]


def _tiny_revision() -> str:
    folder = Path(tiny.__file__).parent
    sums = {name: sum for name, sum in storage.checksums(folder).items() if "__pycache__" not in name}
    return record.sha256_of([sums, _TINY_SEED])[:40]


def _family(source: str) -> tiny.Family:
    family = source.removeprefix(TINY)
    if family not in tiny.SIZES:
        known = ", ".join(f"{TINY}{name}" for name in tiny.SIZES)
        raise UserError(f"There is no {source}.{did_you_mean(family, tiny.SIZES)} Choose one of {known}.")
    return family  # type: ignore[return-value]  # just found among the families
