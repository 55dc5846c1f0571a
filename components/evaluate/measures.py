"""What one checkpoint achieved, from its scored table (score.py).

Every figure is a mean over questions of a mean over the samples of a question, over the sampled completions; over the
greedy ones where nothing was sampled. Questions without a gold answer are left out of the accuracies and counted.
Sources of the estimators: pass@k is the unbiased one of Chen et al. 2021 ("Evaluating Large Language Models Trained on
Code"), pass^k its counterpart for "all k right" (Yao et al. 2024, "tau-bench"); maj@k is the mean over disjoint groups
of k samples, a tie counting as the share of the tied answers that are right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from components.evaluate.score import REWARD
from components.evaluate.statistics import rate_interval
from components.results import Measures
from components.rewards.verifier import Status


def measure(table: pd.DataFrame, confidence: float = 0.95) -> Measures:
    """The measures of a scored table. Without any scorable question the accuracy is 0 and its interval is 0 to 1."""
    rows = sampled(table)
    per_question = rows.groupby("id", sort=True)
    scorable = rows[rows["correct"].notna()]
    accuracies = question_accuracy(rows)
    clusters = scorable.groupby("id", sort=True)["cluster"].first()
    low, high = rate_interval(accuracies.to_numpy(), clusters.to_numpy(), confidence) if len(accuracies) else (0.0, 1.0)
    greedy = table[table["greedy"] & table["correct"].notna()]
    sizes = per_question.size()
    parts = [column for column in rows.columns if column.startswith(REWARD)]
    counts = scorable.groupby("id", sort=True)["correct"].agg(["size", "sum"]).to_numpy(dtype=int)
    ks = _ks(int(sizes.max())) if len(sizes) else []
    return Measures(
        n_questions=len(accuracies),
        samples_per_question=int(sizes.mode().iloc[0]) if len(sizes) else 0,
        accuracy=_mean(accuracies),
        accuracy_ci_low=low,
        accuracy_ci_high=high,
        greedy_accuracy=_mean(question_accuracy(greedy)) if len(greedy) else None,
        mean_reward=_mean(per_question["reward"].mean()),
        reward_parts={part.removeprefix(REWARD): _mean(per_question[part].mean()) for part in parts},
        format_accuracy=_mean(per_question["format"].mean()),
        truncation_rate=_mean(per_question["truncated"].mean()),
        pass_at_k={str(k): _over_questions(pass_at_k, counts, k) for k in ks},
        maj_at_k=_majority(scorable, ks),
        pass_hat_k={str(k): _over_questions(pass_hat_k, counts, k) for k in ks},
        solved_all=_mean(accuracies == 1),
        solved_none=_mean(accuracies == 0),
        mean_tokens=_mean(per_question["n_tokens"].mean()),
        p95_tokens=float(np.percentile(rows["n_tokens"].dropna(), 95)) if rows["n_tokens"].notna().any() else 0.0,
        verifier_timeouts=int((table["verifier"] == Status.TIMEOUT).sum()),
        verifier_errors=int((table["verifier"] == Status.ERROR).sum()),
        unscorable=int(table.loc[table["verifier"] == Status.UNSCORABLE, "id"].nunique()),
    )


def sampled(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that accuracy is computed from: the sampled ones, or the greedy ones where nothing was sampled."""
    rows = table[~table["greedy"]]
    return rows if len(rows) else table


def question_accuracy(rows: pd.DataFrame) -> pd.Series[float]:
    """Share of right samples of each scorable question, indexed by id in sorted order."""
    return rows[rows["correct"].notna()].groupby("id", sort=True)["correct"].mean()


def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that at least one of k samples, drawn without replacement from n of which c are right, is right."""
    return 1 - comb(n - c, k) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Probability that all of k samples, drawn without replacement from n of which c are right, are right."""
    return comb(c, k) / comb(n, k)


def majority_share(votes: Sequence[str | None], correct: Sequence[float]) -> float:
    """1 when the most frequent answer is right, 0 when not; of tied answers the share that is. No answer is no vote."""
    right: dict[str, float] = {
        vote: is_right for vote, is_right in zip(votes, correct, strict=True) if vote is not None
    }
    if not right:
        return 0.0
    counted = Counter(vote for vote in votes if vote is not None)
    most = max(counted.values())
    winners = [vote for vote, count in counted.items() if count == most]
    return sum(right[vote] for vote in winners) / len(winners)


def _majority(scorable: pd.DataFrame, ks: Sequence[int]) -> dict[str, float]:
    of_question: dict[str, list[tuple[str | None, float]]] = defaultdict(list)
    ordered = scorable.sort_values(["id", "sample"])
    for question, vote, correct in zip(ordered["id"], ordered["vote"], ordered["correct"], strict=True):
        of_question[question].append((vote if isinstance(vote, str) else None, correct))
    found: dict[str, float] = {}
    for k in ks:
        shares = [
            np.mean([majority_share(*zip(*ballots[i : i + k], strict=True)) for i in range(0, len(ballots) - k + 1, k)])
            for ballots in of_question.values()
            if len(ballots) >= k
        ]
        found[str(k)] = float(np.mean(shares)) if shares else 0.0
    return found


def _over_questions(estimator: Callable[[int, int, int], float], counts: npt.NDArray[np.int_], k: int) -> float:
    """Mean of an estimator over the questions that have at least k samples; counts has (samples, right) per
    question.
    """
    values = [estimator(int(n), int(c), k) for n, c in counts if n >= k]
    return float(np.mean(values)) if values else 0.0


def _ks(samples: int) -> list[int]:
    """1, 2, 4, ... up to the number of samples, and that number."""
    powers = [2**i for i in range(samples.bit_length()) if 2**i <= samples]
    return sorted({*powers, samples})


def _mean(values: pd.Series[Any]) -> float:
    """Mean of what is known, 0 where nothing is."""
    known = values.dropna()
    return float(known.mean()) if len(known) else 0.0
