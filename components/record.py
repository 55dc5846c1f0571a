"""The record of an artifact: what it is, where its bytes are, what it was made from, by which code and configuration.

A stage writes it as `provenance.json` beside the data and, flattened, as the metadata of the KFP artifact. This module
knows nothing of KFP, so it runs in the training image too. A record that cannot be read, and an artifact of the wrong
kind, raise UserError.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from components import storage
from components.errors import UserError

FILE_NAME = "provenance.json"

Kind = Literal[
    "hf-model",
    "maxtext-checkpoint",
    "rl-checkpoint",
    "ray-checkpoint",
    "dataset",
    "evaluation",
    "rollouts",
    "publication",
    "serving-check",
]
KINDS: tuple[str, ...] = get_args(Kind)

_OF_THE_BACKENDS = {"display_name", "store_session_info"}  # keys that KFP adds to metadata of its own accord
_ROOT = Path(__file__).resolve().parents[1]


def code_version() -> str:
    """Returns which code is running: POSTTRAIN_CODE_VERSION, else the git commit, else the version of the package.

    The commit has `-dirty` appended when a tracked file differs from it. Takes about 10 ms, once per process.
    """
    return os.environ.get("POSTTRAIN_CODE_VERSION") or _checkout_version(_ROOT)


@functools.cache
def _checkout_version(root: Path) -> str:
    if (root / ".git").exists():  # else git would answer for a repository that this code merely lies in
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass  # no git here, or it refuses the checkout: the version of the package is the next best answer
    if (root / "pyproject.toml").is_file():
        return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])
    try:
        return importlib.metadata.version("posttrain")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def sha256_of(value: object) -> str:
    """Returns the SHA-256, in hex, of `value` as JSON: the same for equal values whatever the order of their keys.

    Takes what JSON can hold (without NaN and infinity), paths and pydantic models. Raises TypeError or ValueError
    otherwise.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"no canonical JSON for {type(value).__name__}")


class ArtifactRecord(BaseModel):
    """One artifact.

    Attributes:
      kind: what it is; a stage checks it with `expect`.
      format: how the bytes are laid out, such as `safetensors`, `orbax`, `parquet`, `jsonl`.
      data_uri: the file or folder with the bytes.
      base_model_id: the model that everything began from, such as `Qwen/Qwen3-30B-A3B`; empty where there is none.
      base_model_revision: its commit.
      step: the training step of a checkpoint.
      run_id: the run that made it.
      parent_uris: the data_uri of each artifact that it was made from.
      code_version: see `code_version`.
      image: the container image that made it; POSTTRAIN_IMAGE unless given.
      config_sha256: `sha256_of` the resolved configuration.
      extra: what is particular to the kind; its keys stand beside the others when flattened.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    kind: Kind
    format: str
    data_uri: str
    base_model_id: str = ""
    base_model_revision: str = ""
    step: int | None = None
    run_id: str = ""
    parent_uris: list[str] = []
    code_version: str = Field(default_factory=code_version)
    image: str = Field(default_factory=lambda: os.environ.get("POSTTRAIN_IMAGE", ""))
    config_sha256: str = ""
    extra: dict[str, str | float | int] = {}

    @field_validator("extra")
    @classmethod
    def _no_second_meaning(cls, extra: dict[str, str | float | int]) -> dict[str, str | float | int]:
        taken = sorted(extra.keys() & (cls.model_fields.keys() | _OF_THE_BACKENDS))
        if taken:
            raise ValueError(f"keys with a meaning of their own cannot be in extra: {', '.join(taken)}")
        return extra

    def flat(self) -> dict[str, str | float | int]:
        """Returns the record as the metadata of an artifact: strings and numbers, `parent_uris` as JSON, no None."""
        plain = self.model_dump(mode="json", exclude={"extra", "parent_uris"}, exclude_none=True)
        return {**plain, "parent_uris": json.dumps(self.parent_uris), **self.extra}

    @classmethod
    def from_flat(cls, metadata: Mapping[str, Any]) -> ArtifactRecord:
        """Reads what `flat` wrote, with all numbers perhaps turned to float and keys of the backend added.

        Strings and numbers under other names become `extra`; other values are left out. Raises UserError when it is not
        the metadata of a record.
        """
        fields: dict[str, Any] = {"code_version": "", "image": ""}  # never those of the reader
        extra: dict[str, Any] = {}
        for key, value in metadata.items():
            if key == "parent_uris" and isinstance(value, str):
                fields[key] = _json_list(value)
            elif key in cls.model_fields and key != "extra":
                fields[key] = value
            elif key not in _OF_THE_BACKENDS and isinstance(value, str | float | int):
                extra[key] = value
        return _validated({**fields, "extra": extra}, "the artifact's metadata")


def _json_list(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text  # the model then refuses it, and says so


def _validated(fields: object, where: str) -> ArtifactRecord:
    try:
        return ArtifactRecord.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "record"
        raise UserError(
            f"Not a record of this project: {where} has no valid '{name}' ({first['msg']}). "
            "Give the output of one of its stages."
        ) from error


def expect(record: ArtifactRecord, kind: Kind) -> ArtifactRecord:
    """Returns `record` when it is of this kind; raises UserError otherwise."""
    if record.kind != kind:
        raise UserError(f"Wanted a '{kind}' artifact, got '{record.kind}' ({record.data_uri}): give the right one.")
    return record


def write(record: ArtifactRecord, directory_uri: storage.Uri) -> str:
    """Writes `record` as provenance.json in the folder and returns its address. The manifest is written after it."""
    uri = storage.join(directory_uri, FILE_NAME)
    storage.write_text(uri, record.model_dump_json(indent=2) + "\n")
    return uri


def read(directory_uri: storage.Uri) -> ArtifactRecord:
    """Reads the record in a folder. Raises UserError when there is none or it is damaged."""
    uri = storage.join(directory_uri, FILE_NAME)
    text = storage.read_bytes(uri)
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise UserError(f"{uri} is damaged (not JSON): make the artifact again.") from error
    return _validated(fields, uri)
