"""Decides whether a completion's answer is right: at once where that is certain, by math-verify where it is not.

At once (at_once.py): equal spellings, plain numbers, fractions, words. Everything else is math-verify's, in worker
processes and with a hard time-out for each comparison. A comparison that cannot be made is not silently wrong: its
`Score` says why. A question without a gold answer is not scorable.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from components.rewards.at_once import decide_at_once
from components.rewards.extract import DEFAULT_TAGS, Tags, extract_answer
from components.rewards.pool import TIMEOUT, MathVerifyPool, Outcome, Pair

DEFAULT_TIMEOUT_S = 5.0

REMEMBERED = 200_000
"""Comparisons to remember before starting afresh: tens of megabytes."""


class Status(StrEnum):
    """OK: decided. TIMEOUT, ERROR: math-verify could not decide. UNSCORABLE: no gold answer to compare with."""

    OK = "ok"
    TIMEOUT = "timeout"
    ERROR = "error"
    UNSCORABLE = "unscorable"


@dataclass(frozen=True, slots=True)
class Score:
    """One completion's answer and whether it is right.

    Attributes:
      correct: None only when the status is UNSCORABLE; false on a time-out or an error, which the status tells.
      status: how the decision came about.
      answer: the answer as extracted, None when the completion gives none.
      error: the kind of error, empty otherwise.
    """

    correct: bool | None
    status: Status
    answer: str | None
    error: str = ""


class Verifier:
    """Scores completions; a context manager that owns its worker processes.

    Args:
      workers: at most this many processes; None for one per core, at most eight. None starts before it is needed.
      timeout_s: seconds that one comparison may take.

    Comparisons are remembered, so that the same answer to the same question is compared once however often it is given.
    """

    def __init__(self, workers: int | None = None, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._known: dict[Pair, Score] = {}
        self._pool = MathVerifyPool(workers or min(8, os.cpu_count() or 1), timeout_s)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the worker processes."""
        self._pool.close()

    def verify_many(
        self, golds: Sequence[Sequence[str]], completions: Sequence[str], tags: Tags = DEFAULT_TAGS
    ) -> list[Score]:
        """One score per completion.

        Args:
          golds: for each completion the acceptable answers; an empty list means that it cannot be scored.
          completions: texts, as long as `golds`.
          tags: where the answers are.
        """
        return self.verify_answers(golds, [extract_answer(completion, tags) for completion in completions])

    def verify_answers(self, golds: Sequence[Sequence[str]], answers: Sequence[str | None]) -> list[Score]:
        """As `verify_many`, for answers that are extracted already."""
        pairs: list[Pair | None] = [
            (tuple(accepted), answer) if accepted and answer is not None else None
            for accepted, answer in zip(golds, answers, strict=True)
        ]
        decided = self._decide({pair for pair in pairs if pair is not None})
        return [
            decided[pair] if pair is not None else _without_comparison(bool(accepted), answer)
            for pair, accepted, answer in zip(pairs, golds, answers, strict=True)
        ]

    def _decide(self, pairs: Iterable[Pair]) -> dict[Pair, Score]:
        if len(self._known) > REMEMBERED:
            self._known.clear()
        decided: dict[Pair, Score] = {}
        hard: list[Pair] = []
        for pair in sorted(pairs):
            correct = decide_at_once(*pair)
            if correct is not None:
                decided[pair] = Score(correct, Status.OK, pair[1])
            elif pair in self._known:
                decided[pair] = self._known[pair]
            else:
                hard.append(pair)
        compared = {pair: _score(pair, outcome) for pair, outcome in zip(hard, self._pool.compare(hard), strict=True)}
        self._known.update(compared)
        return decided | compared


def _score(pair: Pair, outcome: Outcome) -> Score:
    if isinstance(outcome, bool):
        return Score(outcome, Status.OK, pair[1])
    return Score(False, Status.TIMEOUT if outcome == TIMEOUT else Status.ERROR, pair[1], outcome)


def _without_comparison(scorable: bool, answer: str | None) -> Score:
    return Score(False, Status.OK, answer) if scorable else Score(None, Status.UNSCORABLE, answer)


def report_failures(scores: Iterable[Score]) -> None:
    """Says on standard error how many of these scores were not decided, if any; training goes on."""
    failed = Counter(score.error for score in scores if score.status in (Status.TIMEOUT, Status.ERROR))
    if failed:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in failed.most_common())
        print(
            f"verifier: {failed.total()} answers not decided and taken as wrong ({kinds})", file=sys.stderr, flush=True
        )
