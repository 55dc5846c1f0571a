"""Which questions a run trains on and which it is evaluated with: drawn by a seed, none on both sides.

In: one source to train on and one to evaluate with, or one for both. Out: two lists, each question once, in the order
of the source. Which rows are drawn follows from the seed and the texts alone, not from that order. Too few are a
UserError.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from components.errors import UserError
from components.sources.addresses import Source
from components.sources.questions import Question
from components.sources.spec import DatasetSpec

type _Rank = Callable[[Question], bytes]


@dataclass(frozen=True)
class Chosen:
    """The questions of both sides.

    `dropped` counts rows of the training source by why they cannot be trained on: `unusable` has no question or answer,
    `duplicate` has the text of an earlier one, `in_evaluation` has the text or cluster of one to evaluate with.
    """

    train: list[Question]
    evaluation: list[Question]
    dropped: Counter[str]


def choose(
    spec: DatasetSpec, train: Source, evaluation: Source | None, seed: int, need_train: int, need_eval: int
) -> Chosen:
    """Draws the questions. Holds in memory those it draws, and the id of every one it has seen.

    Args:
      spec: at most how many rows are wanted on each side.
      train: the source to train on.
      evaluation: the source to evaluate with; None holds `spec.eval_rows`, else `need_eval`, out of `train`.
      seed: of the draw.
      need_train: fewer to train on are an error.
      need_eval: fewer to evaluate with are an error.
    """
    if evaluation:
        held_out = _draw(evaluation.read(Counter()), spec.eval_rows, _by_text(seed), Counter())
    else:
        held_out = _draw(train.read(Counter()), spec.eval_rows or need_eval, _by_cluster(seed), Counter())
    ids, clusters = {q.id for q in held_out}, {q.cluster for q in held_out}
    dropped = Counter(unusable=0, duplicate=0, in_evaluation=0)

    def clean() -> Iterator[Question]:
        for q in train.read(dropped):
            if q.id in ids or q.cluster in clusters:
                dropped["in_evaluation"] += 1
            else:
                yield q

    chosen = Chosen(_draw(clean(), spec.train_rows, _by_text(seed), dropped), held_out, dropped)
    _refuse_too_few(chosen, train, evaluation or train, need_train, need_eval)
    return chosen


def _refuse_too_few(chosen: Chosen, train: Source, evaluation: Source, need_train: int, need_eval: int) -> None:
    lost = chosen.dropped["in_evaluation"]
    for source, empty in ((train, not chosen.train and not lost), (evaluation, not chosen.evaluation)):
        if empty:
            raise UserError(f"{source.uri} is empty, or no row has a question and an answer: give other questions.")
    if len(chosen.evaluation) < need_eval:
        there = f"{evaluation.uri} has {len(chosen.evaluation)} questions to evaluate with"
        raise UserError(f"{there}, and {need_eval} are needed: give more, or ask for fewer.")
    if len(chosen.train) < need_train:
        there = f"{train.uri} has {len(chosen.train)} questions to train on"
        kept = f" (and {lost} that are kept for the evaluation)" if lost else ""
        raise UserError(f"{there}{kept}, and {need_train} are needed: give more, or ask for fewer.")


def _draw(source: Iterable[Question], n: int | None, rank: _Rank, dropped: Counter[str]) -> list[Question]:
    """Returns each question once, the `n` of lowest rank if n is given, in the order of the source."""
    seen: set[str] = set()

    def once() -> Iterator[tuple[int, Question]]:
        for position, q in enumerate(source):
            if q.id in seen:
                dropped["duplicate"] += 1
            else:
                seen.add(q.id)
                yield position, q

    drawn = once() if n is None else heapq.nsmallest(n, once(), key=lambda entry: rank(entry[1]))
    return [q for _, q in sorted(drawn, key=lambda entry: entry[0])]


def _by_text(seed: int) -> _Rank:
    return lambda q: _hash(seed, q.id)


def _by_cluster(seed: int) -> _Rank:
    """Takes one cluster after the other, so that no more than one is cut in two."""
    return lambda q: _hash(seed, q.cluster) + _hash(seed, q.id)


def _hash(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed} {key}".encode()).digest()[:8]
