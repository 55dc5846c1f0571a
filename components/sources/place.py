"""A place that may hold the wanted download already."""

from __future__ import annotations

from components import manifest, record, storage
from components.errors import UserError


def already_there(destination: storage.Uri, wanted: record.ArtifactRecord) -> record.ArtifactRecord | None:
    """Returns the record of what lies at `destination` when it is whole and is wanted, None when the place is free.

    Two records are of the same bytes when `identity` in their extra is the same. A download that was broken off, or is
    damaged, is removed. Raises UserError when something else lies there.
    """
    found = {name for name, _ in storage.list_files(destination)}
    if not found:
        return None
    ours = record.FILE_NAME in found and record.read(destination).extra.get("identity") == wanted.extra["identity"]
    if not ours and (manifest.FILE_NAME in found or storage.is_local(destination)):  # locally a tree appears whole
        raise UserError(f"Something else lies at {destination}: choose another place, or remove it.")
    if ours and manifest.is_complete(destination):
        return record.read(destination)
    storage.delete_tree(destination)
    return None
