"""The rollouts that a training keeps: JSON lines, a file `rollouts-<step>.jsonl` per step, one line per
completion.

Written inside the trainer by `components.rewards.recorder`. Read here for progress and for the account. After a kill
the steps behind the latest checkpoint are trained again, so their files are removed before the resume: no completion is
counted twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from components import storage

_NAME = re.compile(r"^rollouts-(\d+)\.jsonl$")


def lines(directory: str) -> Iterator[dict[str, Any]]:
    """Every rollout, step by step."""
    for name in _files(directory):
        yield from _rows(storage.join(directory, name))


def drop_after(directory: str, step: int) -> None:
    """Removes the rollouts of steps later than `step`."""
    for name, of_step in _files(directory).items():
        if of_step > step:
            storage.delete_file(storage.join(directory, name))


def mean_reward(directory: str, step: int) -> float | None:
    """Returns the mean reward of the step's completions that are there, or None while there are none."""
    uri = storage.join(directory, f"rollouts-{step}.jsonl")
    rewards = [row["reward"] for row in _rows(uri)] if storage.exists(uri) else []
    return sum(rewards) / len(rewards) if rewards else None


def _files(directory: str) -> dict[str, int]:
    """Names of the files, in the order of their steps, with the step."""
    found = {name: int(match[1]) for name, _ in storage.list_files(directory) if (match := _NAME.match(name))}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _rows(uri: str) -> Iterator[dict[str, Any]]:
    """The rows of a file. A last line that a kill cut in half is left out."""
    for raw in storage.read_bytes(uri).splitlines(keepends=True):
        if raw.endswith(b"\n"):
            yield json.loads(raw)
