"""Judges what was measured: is what is served what was trained?

In: the questions, the answers, the comparison with transformers, the evaluation's greedy answers. Out: findings, sentences
with what is wrong and what to look at, the most telling first; none is a pass. Numerics of float32 agree exactly between
two implementations, those of bfloat16 do not, so only float32 must choose the same tokens and answer the same at once as
alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from components.serve.spec import Answer, Answers, Compared, Question

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Judged:
    """A greedy answer to a question: its text, whether it is right, and whether it ended before the limit."""

    text: str
    correct: bool
    ended: bool


@dataclass(frozen=True)
class Accuracies:
    """Accuracy over HTTP and in the evaluation, greedy, over the same `n` questions, with the latter's interval."""

    n: int
    served: float
    evaluated: float
    ci_low: float
    ci_high: float


def findings(
    name: str,
    questions: Sequence[Question],
    answers: Answers,
    compared: Sequence[Compared],
    served: Sequence[Judged],
    evaluated: Sequence[Judged],
    *,
    exact: bool,
    tolerance: float,
) -> list[str]:
    """Returns what speaks against the served model.

    Args:
      name: under which the server was to offer it.
      questions: what was asked.
      answers, compared: what was measured.
      served, evaluated: the greedy answer to each question, over HTTP and in the evaluation.
      exact: whether numerics must agree exactly.
      tolerance: largest |difference| of a log probability.
    """
    checks = (
        _offered(name, answers.models),
        _prompts(questions, answers.at_once),
        _ends(served, evaluated),
        _greedy(compared) if exact else (),
        _logprobs(compared, tolerance),
        _stop(answers),
        _at_once(answers) if exact else (),
        _accuracy(accuracies(served, evaluated)),
    )
    return [finding for check in checks for finding in check]


def accuracies(served: Sequence[Judged], evaluated: Sequence[Judged]) -> Accuracies:
    """Both accuracies over the same questions, with Wilson's interval of the evaluated one.

    Questions, prompts and greedy sampling are the same on both sides, so what makes an accuracy vary from sample to sample
    of questions cancels; the interval allows for all of it and leaves room for differences in numerics.
    """
    n = len(served)
    here, there = (sum(answer.correct for answer in answers) / n for answers in (served, evaluated))
    low, high = wilson(there, n)
    return Accuracies(n, here, there, low, high)


def wilson(rate: float, trials: int) -> tuple[float, float]:
    """Wilson's two-sided 95 % score interval of a rate (Wilson 1927)."""
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


def _offered(name: str, models: Sequence[str]) -> Iterator[str]:
    if name not in models:
        yield f"The server offers {', '.join(models) or 'no model'} and not {name}: another server answered."


def _prompts(questions: Sequence[Question], chats: Sequence[Answer]) -> Iterator[str]:
    other = [q for q, chat in zip(questions, chats, strict=True) if chat.prompt_ids != q.prompt_ids]
    if other:
        yield (
            f"The chat template of the exported model makes another prompt than training saw for {len(other)} of "
            f"{len(questions)} questions, such as '{other[0].message[:60]}': chat_template.jinja and the tokenizer's files "
            "must be those of the source model."
        )


def _ends(served: Sequence[Judged], evaluated: Sequence[Judged]) -> Iterator[str]:
    on = sum(there.ended and not here.ended for here, there in zip(served, evaluated, strict=True))
    if on > max(1, 0.05 * len(served)):
        yield (
            f"{on} of {len(served)} served answers run on to the limit where the evaluated ones ended: the end token is "
            "missing; see eos_token in tokenizer_config.json and eos_token_id in config.json and generation_config.json."
        )


def _greedy(compared: Sequence[Compared]) -> Iterator[str]:
    other = [one for one in compared if one.greedy != one.tokens]
    if other:
        yield (
            f"{len(other)} of {len(compared)} greedy answers differ from what transformers chooses on the same directory: "
            "vLLM computes this model differently; see server.log for what it replaced."
        )


def _logprobs(compared: Sequence[Compared], tolerance: float) -> Iterator[str]:
    largest = max_logprob_diff(compared)
    if not largest <= tolerance:  # not a number fails too
        yield (
            f"Log probabilities differ from those of transformers by up to {largest:.2g}, more than {tolerance:g}: vLLM "
            "computes this model differently; see server.log, or set serve.logprob_tolerance if that is known and accepted."
        )


def max_logprob_diff(compared: Sequence[Compared]) -> float:
    """The largest |difference| of a log probability; not a number where one is not."""
    values = [one.max_logprob_diff for one in compared]
    return math.nan if any(math.isnan(value) for value in values) else max(values)


def _stop(answers: Answers) -> Iterator[str]:
    wanted = answers.stop.whole.partition(answers.stop.stop)[0]
    if answers.stop.text != wanted:
        yield (
            f"An answer that was to stop before '{answers.stop.stop}' is '{answers.stop.text[:80]}' and not "
            f"'{wanted[:80]}': the server does not keep to stop sequences."
        )


def _at_once(answers: Answers) -> Iterator[str]:
    alone = {answer.id: answer.text for answer in answers.chats}
    other = [answer for answer in answers.at_once if alone.get(answer.id, answer.text) != answer.text]
    if other:
        yield (
            f"{len(other)} of {len(alone)} questions get another answer among concurrent requests than alone: requests "
            "disturb each other."
        )


def _accuracy(found: Accuracies) -> Iterator[str]:
    if not found.ci_low <= found.served <= found.ci_high:
        yield (
            f"The served model answers {found.served:.1%} of {found.n} questions rightly; the evaluated one "
            f"{found.evaluated:.1%}, interval {found.ci_low:.1%} to {found.ci_high:.1%}: it is not the model that was "
            "evaluated."
        )
