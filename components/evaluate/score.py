"""Scores completions into the table that everything else of an evaluation is computed from.

One row per completion, columns: id, cluster              the question, and the key it is resampled by sample, greedy
  which sample it is, and how it was drawn completion, n_tokens     its text and its length truncated
  whether it was cut at the limit answer, vote             the extracted answer (None when there is none), and the form
  of it that majority voting counts correct                  1.0 or 0.0 from the verifier; NaN when the question has no
  gold answer verifier                 ok, timeout, error or unscorable format                   1.0 or 0.0, the rule of
  `has_format` reward, reward_<name>    the sum, and the weighted value of each reward function (NaN where it cannot be
  scored)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from components.rewards import extract
from components.rewards.extract import DEFAULT_TAGS, Tags
from components.rewards.functions import available, score
from components.rewards.verifier import Verifier

REWARD = "reward_"


def score_table(
    questions: pd.DataFrame,
    completions: pd.DataFrame,
    rewards: Mapping[str, float],
    *,
    reward_file: str | None = None,
    verifier: Verifier | None = None,
    tags: Tags = DEFAULT_TAGS,
) -> pd.DataFrame:
    """The scored table, rows in the order of `completions`.

    Args:
      questions: columns id, question, answer (a text, or a list of acceptable texts, or None), cluster.
      completions: columns id, sample, greedy, completion, n_tokens, truncated.
      rewards: reward function -> weight.
      reward_file: where the user's own reward functions are.
      verifier: decides what is correct; None for one that lives as long as this call.
      tags: the marks of the format.

    Raises:
      ValueError: a question occurs twice, or a completion belongs to none.
    """
    if verifier is None:
        with Verifier() as own:
            return score_table(questions, completions, rewards, reward_file=reward_file, verifier=own, tags=tags)
    if questions["id"].duplicated().any():
        raise ValueError(f"questions occur twice: {list(questions.loc[questions['id'].duplicated(), 'id'][:3])}")
    unknown = set(completions["id"]) - set(questions["id"])
    if unknown:
        raise ValueError(f"{len(unknown)} completions belong to no question, such as {sorted(unknown)[:3]}")
    table = completions.merge(questions[["id", "question", "answer", "cluster"]], on="id", how="left", validate="m:1")
    golds = [acceptable(answer) for answer in table.pop("answer")]
    texts, asked = table["completion"].tolist(), table.pop("question").tolist()
    scores = verifier.verify_many(golds, texts, tags)
    values = score(texts, golds, rewards, questions=asked, tags=tags, verifier=verifier, rewards=available(reward_file))
    parts = pd.DataFrame(values, index=table.index, columns=list(rewards), dtype=float)
    votes = [None if one.answer is None else extract.canonical(one.answer) for one in scores]
    return table.assign(
        answer=pd.Series([one.answer for one in scores], index=table.index, dtype=object),
        vote=pd.Series(votes, index=table.index, dtype=object),
        correct=[float("nan") if one.correct is None else float(one.correct) for one in scores],
        verifier=[one.status.value for one in scores],
        format=[float(extract.has_format(text, tags)) for text in texts],
        reward=parts.sum(axis=1),
        **parts.add_prefix(REWARD),
    )


def acceptable(answer: Any) -> list[str]:
    """The acceptable answers in one cell: a text, several, or nothing (None, NaN, blank)."""
    if answer is None or isinstance(answer, float):
        return []
    texts = [answer] if isinstance(answer, str) else [str(one) for one in answer]
    return list(dict.fromkeys(text for text in texts if text.strip()))
