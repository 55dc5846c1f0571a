"""The rollouts that a training keeps: JSON lines `rollouts-<first step>-<pid>.jsonl`, one line per completion.

Written inside the trainer by `components.rewards.recorder`. Read here for progress and for the curve. After a kill the
steps behind the latest checkpoint are trained again, so
their lines are dropped before the resume: no completion is counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def lines(directory: Path) -> Iterator[dict[str, Any]]:
    """Every rollout, file by file. A last line that a kill cut in half is left out."""
    for path in sorted(directory.glob("rollouts-*.jsonl")):
        yield from _complete(path)


def drop_after(directory: Path, step: int) -> int:
    """Removes the rollouts of steps later than `step`; returns how many."""
    dropped = 0
    for path in sorted(directory.glob("rollouts-*.jsonl")):
        every = list(_complete(path))
        kept = [row for row in every if row["step"] <= step]
        dropped += len(every) - len(kept)
        fresh = path.with_suffix(".tmp")
        fresh.write_text("".join(json.dumps(row) + "\n" for row in kept))
        fresh.replace(path)
    return dropped


class Follower:
    """Mean reward of a step, read as the trainer writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._rewards: dict[int, list[float]] = {}

    def reward(self, step: int) -> float | None:
        """Returns the mean reward of the step's completions, or None while there are none."""
        for path in sorted(self._directory.glob("rollouts-*.jsonl")):
            with path.open("rb") as stream:
                stream.seek(self._offsets.get(path, 0))
                for raw in stream:
                    if not raw.endswith(b"\n"):
                        break
                    self._offsets[path] = self._offsets.get(path, 0) + len(raw)
                    row = json.loads(raw)
                    self._rewards.setdefault(row["step"], []).append(row["reward"])
        rewards = self._rewards.get(step)
        return sum(rewards) / len(rewards) if rewards else None


def _complete(path: Path) -> Iterator[dict[str, Any]]:
    for raw in path.read_bytes().splitlines(keepends=True):
        if raw.endswith(b"\n"):
            yield json.loads(raw)
