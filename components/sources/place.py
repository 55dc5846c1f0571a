"""A place that may hold the wanted download already."""

from __future__ import annotations

from components import manifest, record, storage
from components.errors import UserError


def found(destination: storage.Uri, wanted: record.ArtifactRecord) -> record.ArtifactRecord | None:
    """Returns the record of what lies at `destination` when it is whole and is wanted, else None. Changes nothing.

    Two records are of the same bytes when `identity` in their extra is the same. Raises UserError when something else
    lies there than this download, whole, damaged or broken off.
    """
    names = {name for name, _ in storage.list_files(destination)}
    if not names:
        return None
    ours = record.FILE_NAME in names and record.read(destination).extra.get("identity") == wanted.extra["identity"]
    if not ours and (manifest.FILE_NAME in names or storage.is_local(destination)):  # locally a tree appears whole
        raise UserError(f"Something else lies at {destination}: choose another place, or remove it.")
    return record.read(destination) if ours and manifest.is_complete(destination) else None


def already_there(destination: storage.Uri, wanted: record.ArtifactRecord) -> record.ArtifactRecord | None:
    """Returns what `found` does, and removes what is damaged or was broken off, so that the place is free."""
    there = found(destination, wanted)
    if not there:
        storage.delete_tree(destination)
    return there
