"""Questions whose answers changed between two scored tables, with a text from before and one from after."""

from __future__ import annotations

import pandas as pd

from components.evaluate.measures import question_accuracy
from components.evaluate.score import acceptable
from components.results import Flip


def flips(
    questions: pd.DataFrame, before: pd.DataFrame, after: pd.DataFrame, shown: int
) -> tuple[list[Flip], list[Flip]]:
    """The questions that went from mostly wrong to mostly right, and the other way, the largest change first.

    Mostly right is at least half of the samples. The texts are a wrong and a right sample, whichever was sampled first.

    Args:
      questions: columns id, question, answer.
      before, after: scored rows (score.py) of the same kind of sample.
      shown: at most this many of each.
    """
    was, now = question_accuracy(before), question_accuracy(after)
    common = was.index.intersection(now.index)
    was, now = was.loc[common], now.loc[common]
    change = (now - was).sort_values(key=lambda values: -values.abs(), kind="stable")
    improved = [question for question in change.index if was[question] < 0.5 <= now[question]][:shown]
    regressed = [question for question in change.index if now[question] < 0.5 <= was[question]][:shown]
    asked = questions.set_index("id")

    def flip(question: str, right_after: int) -> Flip:
        return Flip(
            id=question,
            question=asked.at[question, "question"],
            answer=acceptable(asked.at[question, "answer"])[0],
            before=texts[1 - right_after][0][question],
            after=texts[right_after][1][question],
            accuracy_before=float(was[question]),
            accuracy_after=float(now[question]),
        )

    texts = [(_first(before, correct), _first(after, correct)) for correct in (0, 1)]
    return [flip(question, 1) for question in improved], [flip(question, 0) for question in regressed]


def _first(rows: pd.DataFrame, correct: int) -> dict[str, str]:
    """For each question its first sample that is right (1) or wrong (0)."""
    chosen = rows[rows["correct"] == correct].sort_values("sample").drop_duplicates("id")
    return dict(zip(chosen["id"], chosen["completion"], strict=True))
