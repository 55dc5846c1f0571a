"""Decides from two scored tables whether the model got better: PROMOTE, HOLD, REJECT or INVALID, and why.

INVALID   not a measurement (checks.py): too few questions, tables that do not hold the same questions and samples,
          values that are not numbers, too many comparisons that the verifier could not make
REJECT    shown to be worse: the whole interval of the difference in accuracy lies below 0
PROMOTE   shown to be better: the whole interval lies above `min_delta`, and neither format nor truncation got worse
HOLD      neither; also better in accuracy, but worse in format or truncation

The difference is taken against the base, the champion, or both, as the policy says: REJECT if worse than any, PROMOTE
if better than each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from components.evaluate.checks import pair_problems, size_problems, table_problems
from components.evaluate.flips import flips
from components.evaluate.measures import measure, question_accuracy, sampled
from components.evaluate.statistics import paired_difference
from components.gate_policy import GatePolicy
from components.results import Evaluation, Interval, Measures, Verdict

LENGTH_BINS = 20

UNKNOWN = Interval(value=0.0, ci_low=-1.0, ci_high=1.0)
"""The difference between two accuracies when there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The model against one other: `name` in words, its measures, the difference in accuracy."""

    name: str
    measures: Measures
    delta: Interval


def evaluate_pair(
    questions: pd.DataFrame,
    before: pd.DataFrame,
    after: pd.DataFrame,
    champion: pd.DataFrame | None = None,
    *,
    policy: GatePolicy,
    settings: Mapping[str, str | int | float | bool] | None = None,
    seed: int = 0,
    flips_shown: int = 50,
) -> Evaluation:
    """The evaluation of a model, from the scored tables (score.py) of the base, of itself and of the champion, if any.

    Args:
      questions: what was asked: columns id, question, answer, cluster.
      before, after, champion: one scored row per completion.
      policy: the rule of the verdict.
      settings: how the completions were drawn, for the record.
      seed: of the bootstrap.
      flips_shown: at most this many changed questions of each kind come with their texts.
    """
    tables = {"before": before, "after": after} | ({"champion": champion} if champion is not None else {})
    others = {name: table for name, table in tables.items() if name != "after"}
    problems = [found for name, table in tables.items() for found in table_problems(name, table, questions, policy)]
    problems += [found for name, table in others.items() for found in pair_problems(name, table, after)]
    measured = {name: measure(table, policy.confidence) for name, table in tables.items()}
    differences = {name: _difference(sampled(table), sampled(after), policy, seed) for name, table in others.items()}
    delta, n_questions, n_clusters = differences["before"]
    problems += size_problems(n_questions, n_clusters, policy)
    base = Comparison("the base", measured["before"], delta)
    best = (
        Comparison("the champion", measured["champion"], differences["champion"][0]) if champion is not None else None
    )
    verdict, reasons = decide(measured["after"], base, best, policy, problems)
    bins, histogram = _lengths({name: sampled(table) for name, table in tables.items()})
    improved, regressed = flips(questions, sampled(before), sampled(after), flips_shown)
    return Evaluation(
        n_questions=n_questions,
        n_clusters=n_clusters,
        samples_per_question=measured["after"].samples_per_question,
        before=measured["before"],
        after=measured["after"],
        champion=measured.get("champion"),
        delta=delta,
        greedy_delta=_greedy_difference(before, after, policy, seed),
        delta_vs_champion=best.delta if best else None,
        verdict=verdict,
        reasons=reasons,
        min_delta=policy.min_delta,
        improved=improved,
        regressed=regressed,
        length_histogram=histogram,
        length_bins=bins,
        settings=dict(settings or {}),
    )


def decide(
    after: Measures,
    base: Comparison,
    champion: Comparison | None,
    policy: GatePolicy,
    problems: Sequence[str] = (),
) -> tuple[Verdict, list[str]]:
    """The verdict and its reasons in sentences, the deciding one first. Any problem makes the evaluation INVALID."""
    if problems:
        return Verdict.INVALID, list(problems)
    against = _against(base, champion, policy)
    costs = [sentence for one in against for sentence in _costs(after, one, policy)]
    if any(one.delta.ci_high < 0 for one in against):
        worst_first = sorted(against, key=lambda one: one.delta.ci_high)
        return Verdict.REJECT, [*map(_tell, worst_first), *costs]
    least_first = [_tell(one) for one in sorted(against, key=lambda one: one.delta.ci_low)]
    if any(one.delta.ci_low <= policy.min_delta for one in against):
        asked = f"a gain of more than {_points(policy.min_delta)} points" if policy.min_delta else "a gain"
        return Verdict.HOLD, [f"{least_first[0]} That does not show {asked}.", *least_first[1:], *costs]
    if costs:
        return Verdict.HOLD, [*costs, *least_first]
    return Verdict.PROMOTE, least_first


def _against(base: Comparison, champion: Comparison | None, policy: GatePolicy) -> list[Comparison]:
    if champion is None or policy.compare_with == "base":
        return [base]
    return [champion] if policy.compare_with == "champion" else [base, champion]


def _costs(after: Measures, other: Comparison, policy: GatePolicy) -> list[str]:
    """What got worse beyond what the policy allows, in sentences."""
    found = []
    was = other.measures
    if was.format_accuracy - after.format_accuracy > policy.max_format_drop:
        found.append(
            f"Format accuracy fell from {was.format_accuracy:.1%} of {other.name} to {after.format_accuracy:.1%}, "
            f"more than the {_points(policy.max_format_drop)} points allowed."
        )
    if after.truncation_rate - was.truncation_rate > policy.max_truncation_rise:
        found.append(
            f"Truncation rose from {was.truncation_rate:.1%} of {other.name} to {after.truncation_rate:.1%}, "
            f"more than the {_points(policy.max_truncation_rise)} points allowed."
        )
    return found


def _tell(one: Comparison) -> str:
    delta = one.delta
    return (
        f"Accuracy against {one.name}: {100 * delta.value:+.1f} points, "
        f"interval {100 * delta.ci_low:+.1f} to {100 * delta.ci_high:+.1f}."
    )


def _points(fraction: float) -> str:
    return f"{100 * fraction:g}"


def _difference(before: pd.DataFrame, after: pd.DataFrame, policy: GatePolicy, seed: int) -> tuple[Interval, int, int]:
    """The paired difference on the questions that both have, how many they are, and in how many clusters."""
    was, now = question_accuracy(before), question_accuracy(after)
    common = was.index.intersection(now.index)
    if not len(common):
        return UNKNOWN, 0, 0
    clusters = after.groupby("id")["cluster"].first().loc[common].to_numpy()
    samples = int(after.groupby("id").size().max())
    interval = paired_difference(
        was.loc[common].to_numpy(),
        now.loc[common].to_numpy(),
        clusters,
        samples=samples,
        confidence=policy.confidence,
        seed=seed,
    )
    return interval, len(common), int(pd.Series(clusters).nunique())


def _greedy_difference(before: pd.DataFrame, after: pd.DataFrame, policy: GatePolicy, seed: int) -> Interval | None:
    greedy = before[before["greedy"]], after[after["greedy"]]
    if not len(greedy[0]) or not len(greedy[1]):
        return None
    return _difference(*greedy, policy, seed)[0]


def _lengths(tables: Mapping[str, pd.DataFrame]) -> tuple[list[float], dict[str, list[int]]]:
    """Bin edges in tokens, and for each table how many completions fall into each bin."""
    lengths = {name: table["n_tokens"].dropna() for name, table in tables.items()}
    longest = max((int(values.max()) for values in lengths.values() if len(values)), default=0)
    edges = np.unique(np.linspace(0, longest + 1, LENGTH_BINS + 1).round())
    counts = {name: np.histogram(values, bins=edges)[0].tolist() for name, values in lengths.items()}
    return edges.tolist(), counts
