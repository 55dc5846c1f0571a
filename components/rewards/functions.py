"""The reward functions by name.

A reward function takes a `Batch` and returns one value per completion. The weights of a preset scale the values; their
sum is the reward of a completion. A user's own functions (user_functions.py) stand beside these.

Both GRPO tutorials use MaxText's own set: `numbers` 1.0 and `has_format` 0.1 (its `check_numbers` and
`match_format_exactly`), with `format_tags` (its `match_format_approximately`) at weight 0.
"""

from __future__ import annotations

import atexit
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from components.errors import UserError, did_you_mean
from components.rewards import extract
from components.rewards.at_once import decide_at_once
from components.rewards.batch import Batch, RewardFunction, Values
from components.rewards.extract import DEFAULT_TAGS, Tags, extract_answer, plain_number
from components.rewards.user_functions import check_on_sample, load_user_functions
from components.rewards.verifier import DEFAULT_TIMEOUT_S, Verifier, report_failures


def exact_answer(batch: Batch) -> Values:
    """1 when the answer is a gold answer but for spelling: the same number, fraction or text. `1/2` is not `0.5` here."""
    return _by_answer(batch, lambda golds, answer: bool(decide_at_once(golds, answer)))


def numbers(batch: Batch) -> Values:
    """1 when the verifier finds the answer equal to a gold answer. An undecided comparison gives 0 and is reported."""
    verifier = batch.verifier or shared_verifier()
    scores = verifier.verify_many(batch.golds, batch.completions, batch.tags)
    report_failures(scores)
    return [None if score.correct is None else float(score.correct) for score in scores]


def close_number(batch: Batch) -> Values:
    """1 when the answer is a plain number within 10 % of a gold answer: credit for nearly right arithmetic."""
    return _by_answer(batch, _is_close)


def has_format(batch: Batch) -> Values:
    """1 when reasoning in its tags is followed by an answer in its tags."""
    return [float(extract.has_format(completion, batch.tags)) for completion in batch.completions]


def format_tags(batch: Batch) -> Values:
    """Between -1 and 1: each tag adds its share when it occurs exactly once, and takes it away otherwise."""
    every = (batch.tags.reasoning_start, batch.tags.reasoning_end, batch.tags.answer_start, batch.tags.answer_end)
    tags = [tag for tag in every if tag]
    return [sum(1 if text.count(tag) == 1 else -1 for tag in tags) / len(tags) for text in batch.completions]


def digits(batch: Batch) -> Values:
    """Share of characters that are digits, 0..1: what a model with random weights can be rewarded for from the start."""
    return [sum(map(str.isdigit, text)) / max(len(text), 1) for text in batch.completions]


REWARDS: dict[str, RewardFunction] = {
    function.__name__: function for function in (exact_answer, numbers, close_number, has_format, format_tags, digits)
}


def available(path: str | None = None) -> dict[str, RewardFunction]:
    """The functions of this module and those of the user's file, if any, which win over ours of the same name."""
    return {**REWARDS, **(load_user_functions(path) if path else {})}


def check_rewards(weights: Mapping[str, float], path: str | None = None) -> None:
    """Checks names and weights, and calls the user's functions on a sample, before a run spends anything.

    Raises:
      UserError: a name that does not exist, a weight that is not finite, a function of the user's that does not work.
    """
    known = available(path)
    for name, weight in weights.items():
        if name not in known:
            where = f" nor in {path}" if path else ""
            names = ", ".join(sorted(known))
            raise UserError(
                f"There is no reward function '{name}' here{where}.{did_you_mean(name, known)} There are: {names}."
            )
        if not math.isfinite(weight):
            raise UserError(f"The weight of '{name}' in train.rewards is {weight}: give a finite number.")
        if known[name] is not REWARDS.get(name):
            check_on_sample(name, known[name])


def score(
    completions: Sequence[str],
    golds: Sequence[Sequence[str]],
    weights: Mapping[str, float],
    *,
    questions: Sequence[str] = (),
    tags: Tags = DEFAULT_TAGS,
    verifier: Verifier | None = None,
    rewards: Mapping[str, RewardFunction] = REWARDS,
) -> list[dict[str, float | None]]:
    """For every completion the weighted value of each function in `weights`; None where it cannot be scored.

    Raises:
      KeyError: a name in `weights` is not in `rewards`; `check_rewards` says so in the user's words beforehand.
    """
    batch = Batch(completions, golds, prompts=questions, questions=questions, tags=tags, verifier=verifier)
    columns = {name: weighted(rewards[name](batch), weight) for name, weight in weights.items()}
    return [{name: values[i] for name, values in columns.items()} for i in range(len(completions))]


def weighted(values: Values, weight: float) -> Values:
    """The values times their weight; None stays None."""
    return [None if value is None else value * weight for value in values]


@functools.cache
def shared_verifier() -> Verifier:
    """The verifier of this process, closed when it exits.

    Environment: POSTTRAIN_VERIFIER_WORKERS (processes), POSTTRAIN_VERIFIER_TIMEOUT_S (seconds for one comparison).
    """
    workers = os.environ.get("POSTTRAIN_VERIFIER_WORKERS")
    timeout_s = float(os.environ.get("POSTTRAIN_VERIFIER_TIMEOUT_S", DEFAULT_TIMEOUT_S))
    verifier = Verifier(workers=int(workers) if workers else None, timeout_s=timeout_s)
    atexit.register(verifier.close)
    return verifier


def _by_answer(batch: Batch, right: Callable[[Sequence[str], str], bool]) -> Values:
    values: Values = []
    for golds, completion in zip(batch.golds, batch.completions, strict=True):
        answer = extract_answer(completion, batch.tags)
        values.append(float(answer is not None and right(golds, answer)) if golds else None)
    return values


def _is_close(golds: Sequence[str], answer: str) -> bool:
    number = plain_number(answer)
    targets = [target for gold in golds if (target := plain_number(gold)) is not None]
    return number is not None and any(abs(number - target) <= abs(target) * Decimal("0.1") for target in targets)
