"""The curve of a training, from the TensorBoard events that Tunix writes.

In: the directory of event files. Out: a `TrainPoint` per step. A step that was trained twice (a resume after a kill)
has the later values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from components.results import TrainPoint

# What belongs to the rollouts of a step is logged under the number of steps before it, what belongs to its update under
# its own number.
_REWARD = "rewards/train/score/mean"
_PARTS = "rewards/train/"
_COMPLETION_TOKENS = "completions/train/mean_length"
_KL = "actor/train/kl"
_UPDATE = {
    "loss": "actor/train/loss",
    "kl": _KL,
    "grad_norm": "actor/train/grad_norm",
}


def read(directory: Path, weights: dict[str, float], *, kl_measured: bool) -> list[TrainPoint]:
    """Returns the points in step order; `weights` names the reward functions."""
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    by_tag: dict[str, dict[int, float]] = {}
    for events in sorted(directory.rglob("events.out.tfevents.*"), key=lambda p: p.stat().st_mtime):
        accumulator = EventAccumulator(str(events), size_guidance={SCALARS: 0})
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            by_tag.setdefault(tag, {}).update({e.step: e.value for e in accumulator.Scalars(tag)})
    if not kl_measured:
        by_tag.pop(_KL, None)  # without a KL penalty Tunix computes none, and records zeros
    rewards = by_tag.get(_REWARD, {})
    return [
        TrainPoint(
            step=before + 1,
            reward=rewards[before],
            reward_parts={n: by_tag[_PARTS + n][before] for n in weights if before in by_tag.get(_PARTS + n, {})},
            completion_tokens=by_tag.get(_COMPLETION_TOKENS, {}).get(before),
            **{name: by_tag.get(tag, {}).get(before + 1) for name, tag in _UPDATE.items()},
        )
        for before in sorted(rewards)
    ]


def completed(points: list[TrainPoint], rows: Iterable[Mapping[str, Any]]) -> list[TrainPoint]:
    """Returns the points with those added whose events a kill has lost, as far as the rollouts (rollouts.py) tell."""
    known = {point.step for point in points}
    lost: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["step"] not in known:
            lost[row["step"]].append(row)
    added = [
        TrainPoint(
            step=step,
            reward=fmean(row["reward"] for row in of_step),
            # a completion that could not be scored counts 0 in training
            reward_parts={
                name: fmean(row["rewards"][name] or 0.0 for row in of_step) for name in of_step[0]["rewards"]
            },
        )
        for step, of_step in lost.items()
    ]
    return sorted([*points, *added], key=lambda point: point.step)
