"""Which checkpoints of a pre-training are complete.

MaxText saves `<run>/checkpoints/<step>/items/`. On a file system Orbax writes a step under another name and renames it
last; Cloud Storage cannot rename a folder, and there it writes `commit_success.txt` into the step last.
"""

from __future__ import annotations

import re

from components import storage

ITEMS = "items"
_COMMITTED = "commit_success.txt"
_STEP = re.compile(rf"^(\d+)/(?:{ITEMS}/.+|{_COMMITTED})$")


def complete_steps(folder: str, *, renamed: bool) -> list[int]:
    """Returns the complete steps below `.../checkpoints`, ascending. `renamed`: they were written on a file system."""
    names = [name for name, _ in storage.list_files(folder)]
    found = {int(match[1]) for name in names if (match := _STEP.match(name))}
    return sorted(step for step in found if renamed or f"{step}/{_COMMITTED}" in names)
