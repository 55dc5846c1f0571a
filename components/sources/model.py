"""The model to improve, as a Hugging Face directory with manifest and provenance, pinned to one revision.

In: a source, `hf://org/name`, a directory (local or gs://), or `tiny://<family>`. Out: the directory at its destination
and its record. A source that is not a usable model is a UserError, and nothing is left behind.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path

from components import manifest, record, storage
from components.errors import UserError, did_you_mean
from components.record import ArtifactRecord
from components.sources import check, hub, place
from components.sources.tiny import make as tiny

TINY = "tiny://"
_TEXTS = ("*.json", "*.txt", "*.model", "*.jinja")
_WEIGHTS = ("*.safetensors",)
_BELOW = ("*/*",)  # other forms of the weights (onnx, fp8, original) lie in folders
_TINY_SEED = 0


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
    if there := place.already_there(destination, made):
        return there
    try:
        with storage.staged(destination) as stage:
            if repo:
                _from_hub(repo, commit, stage)
            elif source.startswith(TINY):
                tiny.make(_family(source), stage, _TINY_SEED)
            else:
                for name in _model_files(source):
                    storage.copy_file(storage.join(source, name), stage / name)
            check.check_model_directory(stage)
            record.write(made, stage)
            manifest.write_manifest(stage)
    except UserError:
        if there := place.already_there(destination, made):  # another run was faster
            return there
        raise
    return made


def _from_hub(repo: hub.Repo, commit: str, stage: Path) -> None:
    texts = hub.fetch(repo, commit, _TEXTS, _BELOW)  # first what is small: most unusable models are refused here
    check.check_config(texts)
    check.check_tokenizer(texts)
    cached = hub.fetch(repo, commit, (*_TEXTS, *_WEIGHTS), _BELOW)
    for name in _model_files(cached):
        _link_or_copy(cached / name, stage / name)


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
    return [name for name, _ in storage.list_files(directory) if "/" not in name and _belongs(name, _TEXTS + _WEIGHTS)]


def _belongs(name: str, patterns: Iterable[str]) -> bool:
    ours = (manifest.FILE_NAME, record.FILE_NAME)
    return name not in ours and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _directory_revision(source: str) -> str:
    names = _model_files(source)
    if "config.json" not in names:
        raise UserError(f"{source} does not exist or has no config.json: check model.source.")
    sizes = dict(storage.list_files(source))
    files = {name: [sizes[name], storage.crc32c(storage.join(source, name))] for name in names}
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
