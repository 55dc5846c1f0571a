"""Whether scored tables are a measurement at all. Every function returns what is wrong, in sentences."""

from __future__ import annotations

import pandas as pd

from components.evaluate.measures import sampled
from components.evaluate.score import REWARD
from components.gate_policy import GatePolicy
from components.rewards.verifier import Status

MIN_CLUSTERS = 30
"""Below this many independent groups of questions no interval can be trusted."""


def table_problems(name: str, table: pd.DataFrame, questions: pd.DataFrame, policy: GatePolicy) -> list[str]:
    """One scored table against the questions that were asked."""
    return [*_completeness(name, table, questions), *_numbers(name, table), *_verifier(name, table, policy)]


def pair_problems(name: str, table: pd.DataFrame, after: pd.DataFrame) -> list[str]:
    """Two tables that must be comparable question by question."""
    found = []
    theirs, ours = set(table["id"]), set(after["id"])
    if theirs != ours:
        found.append(f"{len(theirs - ours)} questions are only in {name}, {len(ours - theirs)} only in after.")
    counts = [int(sampled(one).groupby("id").size().max()) if len(one) else 0 for one in (table, after)]
    if counts[0] != counts[1]:
        found.append(f"{name} has {counts[0]} samples per question, after has {counts[1]}.")
    return found


def size_problems(questions: int, clusters: int, policy: GatePolicy) -> list[str]:
    """The number of questions that could be compared, and of the independent groups they fall into."""
    if questions < policy.min_questions:
        return [f"Only {questions} questions could be compared; the policy asks for {policy.min_questions}."]
    if clusters < MIN_CLUSTERS:
        return [f"The {questions} questions fall into only {clusters} independent groups; {MIN_CLUSTERS} are needed."]
    return []


def _completeness(name: str, table: pd.DataFrame, questions: pd.DataFrame) -> list[str]:
    found = []
    missing = len(set(questions["id"]) - set(table["id"]))
    if missing:
        found.append(f"{name}: {missing} of {len(questions)} questions have no completion.")
    foreign = len(set(table["id"]) - set(questions["id"]))
    if foreign:
        found.append(f"{name}: {foreign} questions were not among those asked.")
    twice = int(table.duplicated(["id", "sample", "greedy"]).sum())
    if twice:
        found.append(f"{name}: {twice} completions are there twice.")
    sizes = sampled(table).groupby("id").size()
    if sizes.nunique() > 1:
        short = int((sizes < sizes.max()).sum())
        found.append(f"{name}: {short} of {len(sizes)} questions have fewer than {sizes.max()} samples.")
    return found


def _numbers(name: str, table: pd.DataFrame) -> list[str]:
    scorable = table["verifier"] != Status.UNSCORABLE
    parts = [column for column in map(str, table.columns) if column.startswith(REWARD)]
    always = table[["format", "n_tokens", "truncated", "reward"]].isna().any(axis=1)
    broken = int((always | (scorable & table[["correct", *parts]].isna().any(axis=1))).sum())
    return [f"{name}: {broken} completions have a score or a length that is not a number."] if broken else []


def _verifier(name: str, table: pd.DataFrame, policy: GatePolicy) -> list[str]:
    failed = int(table["verifier"].isin([Status.TIMEOUT, Status.ERROR]).sum())
    if failed <= policy.max_verifier_failure_rate * len(table):
        return []
    return [
        f"{name}: the verifier could not decide {failed} of {len(table)} completions, "
        f"more than the {policy.max_verifier_failure_rate:.1%} allowed."
    ]
