"""Which checkpoints of a training are complete.

Tunix saves `<run>/checkpoints/actor/<step>/` with the items `model_params` and `optimizer_state`. Orbax writes a step
under a temporary name and renames it last, so a directory whose name is a number and that has the item `model_params`
is complete; a killed save leaves another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from components import storage

PARAMETERS = "model_params"
_STEP = re.compile(r"^(\d+)/" + PARAMETERS + "/")


def complete_steps(actor_dir: str) -> list[int]:
    """Returns the complete steps below `.../checkpoints/actor`, ascending."""
    names: Iterable[str] = (name for name, _ in storage.list_files(actor_dir))
    return sorted({int(match[1]) for name in names if (match := _STEP.match(name))})
