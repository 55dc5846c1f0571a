"""Scored tables for the tests of measures and gate, made from a seed or from rows of right and wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from components.evaluate.score import score_table
from components.rewards.verifier import Verifier

REWARDS = {"exact_answer": 1.0, "has_format": 0.1}


def questions(n: int) -> pd.DataFrame:
    """n questions, each its own cluster; question i has the answer 1000 + i."""
    return pd.DataFrame(
        {
            "id": [f"q{i:04d}" for i in range(n)],
            "question": [f"What is {i} more than 1000?" for i in range(n)],
            "answer": [str(1000 + i) for i in range(n)],
            "cluster": [f"c{i:04d}" for i in range(n)],
        }
    )


def completions(right: Sequence[Sequence[bool]], greedy: Sequence[bool] | None = None) -> pd.DataFrame:
    """Completions of `questions(len(right))`: one for every entry, right or wrong, and one greedy each if given."""
    rows = []
    for i, samples in enumerate(right):
        drawn = [(sample, False, is_right) for sample, is_right in enumerate(samples)]
        if greedy is not None:
            drawn.append((0, True, greedy[i]))
        for sample, is_greedy, is_right in drawn:
            said = 1000 + i if is_right else sample
            text = f"<reasoning>sample {sample}</reasoning><answer>{said}</answer>"
            rows.append((f"q{i:04d}", sample, is_greedy, text, 20 + sample, False))
    return pd.DataFrame(rows, columns=["id", "sample", "greedy", "completion", "n_tokens", "truncated"])


def scored(right: Sequence[Sequence[bool]], greedy: Sequence[bool] | None = None) -> pd.DataFrame:
    """The scored table of these completions."""
    with Verifier(workers=1) as verifier:
        return score_table(questions(len(right)), completions(right, greedy), REWARDS, verifier=verifier)


def drawn(n: int, accuracy: float, k: int, seed: int) -> pd.DataFrame:
    """The scored table of n questions with k samples, each right with the same probability."""
    rng = np.random.default_rng(seed)
    return scored((rng.random((n, k)) < accuracy).tolist())
