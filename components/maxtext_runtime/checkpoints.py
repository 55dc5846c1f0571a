"""Which checkpoints of a training are complete.

Tunix saves `<run>/checkpoints/actor/<step>/` with the items `model_params` and `optimizer_state`. Locally Orbax writes a
step under a temporary name and renames it last, so a directory whose name is a number is complete. Cloud Storage cannot
rename a folder; there Orbax writes `commit_success.txt` into the step last.
"""

from __future__ import annotations

import re
from collections import defaultdict

from components import storage

PARAMETERS = "model_params"
_COMMITTED = "commit_success.txt"
_STEP = re.compile(rf"^(\d+)/(?:({PARAMETERS})/.+|({_COMMITTED}))$")


def actor_dir(output: str, run_name: str) -> str:
    """Where `train_rl` with these arguments keeps its checkpoints."""
    return storage.join(output, run_name, "checkpoints", "actor")


def complete_steps(directory: str) -> list[int]:
    """Returns the complete steps in the directory `.../checkpoints/actor`, ascending."""
    wanted = {PARAMETERS} if storage.is_local(directory) else {PARAMETERS, _COMMITTED}
    found: dict[int, set[str]] = defaultdict(set)
    for name, _ in storage.list_files(directory):
        if match := _STEP.match(name):
            found[int(match[1])].add(match[2] or match[3])
    return sorted(step for step, parts in found.items() if wanted <= parts)
