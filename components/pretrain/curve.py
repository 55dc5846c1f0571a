"""The curve of a pre-training, from the TensorBoard events that MaxText writes.

In: the directory of event files. Out: loss and speed by step. A step that was trained twice (a worker was lost after it)
has the later values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_LOSS = "learning/loss"
_SPEED = "perf/per_device_tokens_per_sec"


@dataclass(frozen=True)
class Point:
    """A step: its loss, and the tokens of a second on each device."""

    step: int
    loss: float
    tokens_per_s: float


def read(directory: Path) -> list[Point]:
    """Returns the points in the order of their steps."""
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    found: dict[str, dict[int, float]] = {_LOSS: {}, _SPEED: {}}
    for events in sorted(directory.rglob("events.out.tfevents.*"), key=lambda path: path.stat().st_mtime):
        accumulator = EventAccumulator(str(events), size_guidance={SCALARS: 0})
        accumulator.Reload()
        for tag in found.keys() & set(accumulator.Tags()["scalars"]):
            found[tag].update({event.step: event.value for event in accumulator.Scalars(tag)})
    return [Point(step, loss, found[_SPEED].get(step, 0.0)) for step, loss in sorted(found[_LOSS].items())]
