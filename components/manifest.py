"""The manifest of a folder of weights: every file with its size and checksum, written after all of them.

A folder is complete when `manifest.json` exists and says what lies there. A writer that was killed leaves no manifest,
so its folder is never taken for a whole one. `content_id` names converted weights by what they were made from.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from components import storage
from components.errors import UserError
from components.record import sha256_of

FILE_NAME = "manifest.json"


class IncompleteError(Exception):
    """A folder is not what its manifest says.

    Attributes:
      directory: the folder.
      file: the first file at fault, relative to the folder.
      problem: `missing`, `damaged` or `extra`.
    """

    def __init__(self, directory: storage.Uri, file: str, problem: str, detail: str = "") -> None:
        super().__init__(f"{directory} is incomplete: {file} is {problem}{f' ({detail})' if detail else ''}")
        self.directory = str(directory)
        self.file = file
        self.problem = problem


class Entry(BaseModel):
    """One file: its size in bytes and its CRC-32C in base64, as Cloud Storage writes it."""

    model_config = ConfigDict(extra="forbid")

    size: int
    crc32c: str


class Manifest(BaseModel):
    """Every file of a folder but the manifest, keyed by relative name, and what its writer wished to add."""

    model_config = ConfigDict(extra="forbid")

    files: dict[str, Entry]
    extra: dict[str, Any] = {}


def write_manifest(directory_uri: storage.Uri, extra: Mapping[str, Any] | None = None) -> Manifest:
    """Lists the folder, writes its manifest.json and returns it. Nothing may be written there afterwards.

    Raises UserError when the folder holds no files.
    """
    sizes = {name: size for name, size in storage.list_files(directory_uri) if name != FILE_NAME}
    if not sizes:
        raise UserError(f"{directory_uri} holds no files: there is nothing to list in a manifest.")
    sums = storage.checksums(directory_uri)
    files = {name: Entry(size=size, crc32c=sums[name]) for name, size in sizes.items()}
    manifest = Manifest(files=files, extra=dict(extra or {}))
    storage.write_text(storage.join(directory_uri, FILE_NAME), manifest.model_dump_json(indent=1) + "\n")
    return manifest


@contextlib.contextmanager
def published(destination: storage.Uri) -> Iterator[str]:
    """Yields where to write a folder that readers take for complete only when the block has ended well.

    Locally it is written beside `destination` and renamed. In Cloud Storage, where pods write, it is written in place
    and its manifest comes last.
    """
    if not storage.is_local(destination):
        storage.delete_file(storage.join(destination, FILE_NAME))
        yield os.fspath(destination)
        write_manifest(destination)
        return
    with storage.staged(destination) as stage:
        yield str(stage)
        write_manifest(stage)


def check(directory_uri: storage.Uri, deep: bool = True) -> Manifest:
    """Compares a folder with its manifest, and returns the manifest.

    Args:
      directory_uri: the folder.
      deep: compare checksums too. Locally this reads every byte; in Cloud Storage it costs nothing more.

    Raises:
      IncompleteError: the manifest or a file is missing or damaged, or a file lies there that it does not list.
    """
    found = dict(storage.list_files(directory_uri))
    if FILE_NAME not in found:
        raise IncompleteError(directory_uri, FILE_NAME, "missing")
    try:
        manifest = Manifest.model_validate_json(storage.read_bytes(storage.join(directory_uri, FILE_NAME)))
    except ValidationError as error:
        raise IncompleteError(directory_uri, FILE_NAME, "damaged", "not a manifest") from error
    del found[FILE_NAME]
    for name, entry in manifest.files.items():
        if name not in found:
            raise IncompleteError(directory_uri, name, "missing")
        if found[name] != entry.size:
            raise IncompleteError(directory_uri, name, "damaged", f"{found[name]} bytes, not {entry.size}")
    if extra := sorted(found.keys() - manifest.files.keys()):
        raise IncompleteError(directory_uri, extra[0], "extra")
    if deep:
        sums = storage.checksums(directory_uri)
        for name, entry in manifest.files.items():
            if sums.get(name) != entry.crc32c:
                raise IncompleteError(directory_uri, name, "damaged", "checksum differs")
    return manifest


def is_complete(directory_uri: storage.Uri, deep: bool = True) -> bool:
    """Whether `check` passes."""
    try:
        check(directory_uri, deep)
    except IncompleteError:
        return False
    return True


def content_id(*, repo_commit: str, converter_version: str, flags: Mapping[str, Any]) -> str:
    """Returns the identity of converted weights: a SHA-256, in hex, over what determines their bytes.

    Args:
      repo_commit: the source, as `repo@commit`.
      converter_version: the package and version of the converter.
      flags: the settings that matter to the result; their order does not.
    """
    return sha256_of({"repo_commit": repo_commit, "converter_version": converter_version, "flags": dict(flags)})
