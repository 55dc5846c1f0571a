"""Questions whose answers changed, with their texts made fit to print.

In: `Flip` records, with untrusted text that a model wrote. Out: safe markup. At most `SHOWN` flips a side are
printed, and of a long text its beginning and end (that is where the answer stands), so that a page stays small
whatever a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from components.report.formats import NBSP, percent
from components.results import Flip

SHOWN = 12
OPEN = 2
LONGEST = 1800  # characters of one text
_TAIL = 700

_ANSWER = re.compile(r"<answer>.*?</answer>|\\boxed\{[^{}]*\}|####[^\n]*", re.DOTALL)


@dataclass(frozen=True)
class ShownFlip:
    """A flip as the page prints it. `before` and `after` have the final answer marked."""

    id: str
    question: str
    answer: str
    before: Markup
    after: Markup
    score_before: str
    score_after: str
    open: bool


def shown(flips: Sequence[Flip], samples: int) -> list[ShownFlip]:
    """Returns the flips to print, the first ones open; `samples` is the number of samples per question."""
    return [
        ShownFlip(
            id=f.id,
            question=shorten(f.question),
            answer=shorten(f.answer),
            before=mark_answer(shorten(f.before)),
            after=mark_answer(shorten(f.after)),
            score_before=_score(f.accuracy_before, samples),
            score_after=_score(f.accuracy_after, samples),
            open=i < OPEN,
        )
        for i, f in enumerate(flips[:SHOWN])
    ]


def shorten(text: str) -> str:
    """Returns the text, or its beginning and end with the number of characters left out in between."""
    text = text.strip()
    if len(text) <= LONGEST:
        return text
    left_out = len(text) - LONGEST
    return f"{text[: LONGEST - _TAIL]}\n[\u2026 {left_out:,} characters left out \u2026]\n{text[-_TAIL:]}"


def mark_answer(text: str) -> Markup:
    """Returns the escaped text with its last `<answer>`, `\\boxed` or `####` answer in a <mark>."""
    last = None
    for last in _ANSWER.finditer(text):  # noqa: B007  the last match is what we want
        pass
    if last is None:
        return escape(text)
    return escape(text[: last.start()]) + Markup("<mark>{}</mark>").format(last.group()) + escape(text[last.end() :])


def _score(fraction: float, samples: int) -> str:
    right = fraction * samples
    # with samples that could not be scored the share is not a whole number of samples
    return f"{round(right)} of {samples}".replace(" ", NBSP) if abs(right - round(right)) < 1e-6 else percent(fraction)
