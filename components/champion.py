"""The champion of a slot: the model that was promoted last, which the next run has to beat and may begin from.

Kept as `<store>/champions/<slot>.json`. Reading gives its version too. Replacing names the version that the new champion
was compared with and fails with `Overtaken` when another run has been promoted since, so of two runs that are better
than the same champion only one takes its place. In Cloud Storage the version is the generation of the object, locally a
hash of the file, which is compared and renamed under a lock. A pointer that cannot be read, and a champion that no run
can be compared with, are a UserError.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from components import gcs, lock, manifest, storage
from components.config import Config
from components.errors import UserError
from components.record import ArtifactRecord

NONE = ""  # the version where there is no champion


class Overtaken(Exception):
    """Another run has taken the slot since its champion was read."""


class Architecture(BaseModel):
    """What two checkpoints must share to be read with the same settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    sizes: dict[str, int]
    scan_layers: bool

    @classmethod
    def of(cls, config: Config) -> Architecture:
        """That of the model that a configuration trains."""
        return cls(name=config.model.name, sizes=config.model.sizes, scan_layers=config.model.scan_layers)


class Champion(BaseModel):
    """A promoted model.

    Attributes:
      run_id: the run that trained it.
      checkpoint: its trained weights in MaxText's format.
      exported: address of its Hugging Face directory.
      hub, vertex: its commit on the Hugging Face hub and its version in Vertex AI's Model Registry, where it has them.
      trained_on: the folders of questions that it was trained on, and those that what it began from was trained on.
      accuracy: fraction 0..1 with its 95 % interval, on `n_questions` questions of that run's evaluation.
      promoted_at: UTC, ISO 8601.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    checkpoint: ArtifactRecord
    exported: str
    hub: str | None = None
    vertex: str | None = None
    trained_on: list[str]
    architecture: Architecture
    accuracy: float
    accuracy_ci_low: float
    accuracy_ci_high: float
    n_questions: int
    promoted_at: str


def pointer(store: str, slot: str) -> str:
    """The address of the file that says who the champion is."""
    return storage.join(store, "champions", f"{slot}.json")


def read(store: str, slot: str) -> tuple[Champion | None, str]:
    """Returns the champion of a slot, if there is one, and the version to replace."""
    uri = pointer(store, slot)
    text, version = _local(uri) if storage.is_local(uri) else _object(uri)
    if version == NONE:
        return None, NONE
    try:
        return Champion.model_validate_json(text), version
    except ValidationError as error:
        raise UserError(f"{uri} is damaged or of another version: {_without(uri)}.") from error


def replace(store: str, slot: str, champion: Champion, version: str) -> None:
    """Makes `champion` the champion of a slot, in place of the one of this version.

    Raises Overtaken when the slot has another version.
    """
    uri = pointer(store, slot)
    data = (champion.model_dump_json(indent=1) + "\n").encode()
    (_replace_local if storage.is_local(uri) else _replace_object)(uri, data, version)


def check(champion: Champion, config: Config, store: str) -> None:
    """Raises UserError when no run of this configuration can be compared with the champion, or begin from it."""
    uri = pointer(store, str(config.publish.slot))
    ours = Architecture.of(config)
    if champion.architecture != ours:
        theirs = champion.architecture
        what = (
            f"a {theirs.name}, not a {ours.name}"
            if theirs.name != ours.name
            else f"another {ours.name} (sizes, layers)"
        )
        raise UserError(
            f"The champion of '{config.publish.slot}', run {champion.run_id}, is {what}: set publish.slot to a slot of its own."
        )
    try:
        manifest.check(champion.checkpoint.data_uri)
    except manifest.IncompleteError as error:
        raise UserError(
            f"The champion of '{config.publish.slot}', run {champion.run_id}, is gone or damaged ({error}): restore it, or "
            f"{_without(uri)}."
        ) from error


def refuse_seen(champion: Champion, config: Config, questions: str) -> None:
    """Raises UserError when the champion may have been trained on what this run evaluates with, which flatters it.

    Questions count as the same when they are of one cluster. Those of runs whose folders are gone are not looked at.

    Args:
      champion: the champion in question.
      config: of this run.
      questions: the folder with the questions of this run.
    """
    from components.sources import dataset

    asked = set(dataset.read(questions, "eval")["cluster"])
    trained = (dataset.read(folder, "train")["cluster"] for folder in champion.trained_on if storage.exists(folder))
    if seen := asked & set().union(*trained):
        raise UserError(
            f"The champion of '{config.publish.slot}', run {champion.run_id}, may have been trained on {len(seen)} of the "
            f"{len(asked)} questions to evaluate with: keep the seed and the number of questions of that run, give "
            "data.evaluation, or set publish.slot to a slot of its own."
        )


def _without(uri: str) -> str:
    remove = "rm" if storage.is_local(uri) else "gcloud storage rm"
    return f"go on without a champion by `{remove} {uri}`"


# -- this machine -----------------------------------------------------------------------------------------------------


def _local(uri: str) -> tuple[bytes, str]:
    if not Path(uri).exists():
        return b"", NONE
    data = storage.read_bytes(uri)
    return data, hashlib.sha256(data).hexdigest()


def _replace_local(uri: str, data: bytes, version: str) -> None:
    with lock.held(uri, lambda text: None):  # held for an instant, so that nobody need be told
        if _local(uri)[1] != version:
            raise Overtaken
        storage.write_bytes(uri, data)


# -- Cloud Storage ----------------------------------------------------------------------------------------------------


def _object(uri: str) -> tuple[bytes, str]:
    from google.api_core.exceptions import NotFound

    bucket, name = gcs.bucket(uri), gcs.split(uri)[1]
    with gcs.errors("read", uri):
        while (found := bucket.get_blob(name)) is not None:
            try:
                return bucket.blob(name, generation=found.generation).download_as_bytes(), str(found.generation)
            except NotFound:  # replaced between the two calls
                continue
    return b"", NONE


def _replace_object(uri: str, data: bytes, version: str) -> None:
    from google.api_core.exceptions import PreconditionFailed

    with gcs.errors("write", uri):
        try:
            gcs.blob(uri).upload_from_string(
                data, content_type="application/json", checksum="crc32c", if_generation_match=int(version or 0)
            )
        except PreconditionFailed as error:
            if _object(uri)[0] != data:  # else it is ours: only the answer to an earlier try was lost
                raise Overtaken from error
