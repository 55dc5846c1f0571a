"""Keeps every rollout of a training as JSON lines, from inside the trainer.

MaxText calls the reward functions of a run one after the other on the same completions and may load their file once for
each, so what they share lives here. The values of a batch are complete with the last function; then one line per
completion is written and flushed.

Environment, set by the train stage and by maxtext_runtime/entry.py:
  POSTTRAIN_REWARDS         JSON object, reward function -> weight, in the order in which MaxText calls them
  POSTTRAIN_REWARD_FILE     a Python file with the user's own functions; empty for none
  POSTTRAIN_ROLLOUTS        directory for a file `rollouts-<step>.jsonl` per step; empty to keep nothing
  POSTTRAIN_START_STEP      the step that the training continues from, 0 for a fresh one
  POSTTRAIN_CALLS_PER_STEP  batches of completions in one step, 1 when a step generates once

A line has `step` (from 1), `question_id` (first 12 hex digits of the SHA-1 of the question), `question`, `answer`
(acceptable ones), `prompt`, `completion`, `reward` (the sum) and `rewards` (weighted value of each function, null where
it cannot be scored).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from components.rewards.batch import Batch, Values


def question_id(question: str) -> str:
    """The id of a question: the first 12 hex digits of its SHA-1."""
    return hashlib.sha1(question.encode(), usedforsecurity=False).hexdigest()[:12]


class Recorder:
    """Collects the values of one batch after the other and writes each when it is complete.

    Args:
      weights: reward function -> weight, in calling order.
      directory: where the files go, None to keep nothing.
      start_step: the step before the first one recorded.
      calls_per_step: batches per step.
    """

    def __init__(
        self, weights: Mapping[str, float], directory: Path | None, start_step: int = 0, calls_per_step: int = 1
    ) -> None:
        self.weights = dict(weights)
        self._directory = directory
        self._start_step = start_step
        self._calls_per_step = calls_per_step
        self._batches = 0
        self._values: dict[str, Values] = {}

    @classmethod
    def from_environment(cls) -> Recorder:
        """The recorder that the train stage asked for."""
        directory = os.environ.get("POSTTRAIN_ROLLOUTS")
        return cls(
            json.loads(os.environ["POSTTRAIN_REWARDS"]),
            Path(directory) if directory else None,
            start_step=int(os.environ.get("POSTTRAIN_START_STEP") or 0),
            calls_per_step=int(os.environ.get("POSTTRAIN_CALLS_PER_STEP") or 1),
        )

    def add(self, name: str, values: Values, batch: Batch) -> None:
        """Takes the weighted values of one function; with those of the last function the batch is written.

        Raises:
          RuntimeError: a function of this batch was not called, or was called on another batch.
        """
        self._values[name] = values
        if name != next(reversed(self.weights)):
            return
        collected, self._values = self._values, {}
        sizes = {function: len(column) for function, column in collected.items()}
        if list(sizes) != list(self.weights) or set(sizes.values()) != {len(batch.completions)}:
            raise RuntimeError(f"expected one call each of {list(self.weights)} on the same completions, got {sizes}")
        step = self._start_step + self._batches // self._calls_per_step + 1
        self._batches += 1
        if self._directory is not None:
            self._write(step, collected, batch)

    def _write(self, step: int, columns: Mapping[str, Values], batch: Batch) -> None:
        assert self._directory is not None
        self._directory.mkdir(parents=True, exist_ok=True)
        rows = []
        for i, completion in enumerate(batch.completions):
            rewards = {name: values[i] for name, values in columns.items()}
            row = {
                "step": step,
                "question_id": question_id(batch.questions[i]),
                "question": batch.questions[i],
                "answer": list(batch.golds[i]),
                "prompt": batch.prompts[i],
                "completion": completion,
                "reward": sum(value for value in rewards.values() if value is not None),
                "rewards": rewards,
            }
            rows.append(json.dumps(row, ensure_ascii=False) + "\n")
        # a file per step: what is complete is copied to a bucket once, and a step that is trained again after a kill
        # takes the place of its first, cut-off time
        first = (self._batches - 1) % self._calls_per_step == 0
        with (self._directory / f"rollouts-{step}.jsonl").open("w" if first else "a", encoding="utf-8") as file:
            file.write("".join(rows))


@functools.cache
def recorder() -> Recorder:
    """The one recorder of this process."""
    return Recorder.from_environment()
