"""What every worker of a pre-training does: MaxText's own program. Imported on its machine by Ray Train, which has
initialised jax.distributed.

The first worker of a group notes that the group begins: how many workers it has and which step it trains first. The notes
are files beside Ray's state, since MaxText hands nothing in to Ray.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

import ray.train
from pyarrow import fs

from components.maxtext_schema import package_root
from components.ray_runtime import files

_GROUPS = "groups"


def train(config: dict[str, Any]) -> None:
    """Runs MaxText with `config["settings"]`."""
    from absl import flags

    package = package_root()
    # the tokenizers that come with it, which its wheel has elsewhere than it looks
    os.environ.setdefault("MAXTEXT_ASSETS_ROOT", str(package / "assets"))
    from maxtext.trainers.pre_train.train import main as maxtext

    # what a command line would have done; the processes that read data ask for flags
    flags.FLAGS.mark_as_parsed()

    settings: list[str] = config["settings"]
    context = ray.train.get_context()
    if context.get_world_rank() == 0:
        _note(config["storage"], context.get_world_size(), latest_step(checkpoints(settings)))
    maxtext(["maxtext", str(package / "configs" / "base.yml"), *settings])


def checkpoints(settings: list[str]) -> str:
    """The folder where MaxText keeps its checkpoints."""
    given = dict(setting.split("=", 1) for setting in settings)
    return f"{given['base_output_directory'].rstrip('/')}/{given['run_name']}/checkpoints"


def latest_step(folder: str) -> int | None:
    """Returns the step of the latest checkpoint, as far as a folder of its number tells; None without one."""
    system, path = files.located(folder)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return max((int(one.base_name) for one in found if one.base_name.isdigit()), default=None)


def groups(storage: str) -> list[dict[str, Any]]:
    """Returns the notes of all groups, in the order in which they began."""
    system, path = files.located(f"{storage}/{_GROUPS}")
    notes = []
    for one in sorted(system.get_file_info(fs.FileSelector(path)), key=lambda info: info.base_name):
        with system.open_input_stream(one.path) as stream:
            notes.append(json.loads(stream.readall()))
    return notes


def _note(storage: str, workers: int, latest: int | None) -> None:
    system, path = files.located(f"{storage}/{_GROUPS}")
    at = datetime.now(UTC)
    note = {
        "workers": workers,
        "from_step": 0 if latest is None else latest + 1,
        "at": at.isoformat(timespec="seconds"),
    }
    system.create_dir(path)
    with system.open_output_stream(f"{path}/{at:%Y%m%dT%H%M%S.%f}.json") as stream:
        stream.write(json.dumps(note).encode())
    print(f"a group of {workers} begins with step {note['from_step']}", flush=True)
