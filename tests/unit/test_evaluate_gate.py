"""The gate as a table of behaviours: what happened to the model, and the verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from evaluation_tables import drawn, questions, scored

from components.evaluate.gate import evaluate_pair
from components.gate_policy import GatePolicy
from components.results import Evaluation, Verdict

N, K = 200, 4
BASE = drawn(N, 0.5, K, seed=1)
BETTER = drawn(N, 0.7, K, seed=2)
WORSE = drawn(N, 0.3, K, seed=3)
LIKE_BASE = drawn(N, 0.5, K, seed=4)


def judge(
    before: pd.DataFrame, after: pd.DataFrame, champion: pd.DataFrame | None = None, n: int = N, **policy: object
) -> Evaluation:
    return evaluate_pair(questions(n), before, after, champion, policy=GatePolicy.model_validate(policy))


def changed(table: pd.DataFrame, rows: int, **columns: object) -> pd.DataFrame:
    """The table with these values in its first rows."""
    table = table.copy()
    for column, value in columns.items():
        table.loc[table.index[:rows], column] = value
    return table


def lost_format(table: pd.DataFrame) -> pd.DataFrame:
    """Right answers as before, but a tenth of the completions leave out the tags."""
    return changed(table, N * K // 10, format=0.0)


def hacked(table: pd.DataFrame) -> pd.DataFrame:
    """More reward without more right answers: every completion is paid for its form."""
    return table.assign(reward=table["reward"] + 1.0, format=1.0)


@pytest.mark.parametrize(
    ("what", "before", "after", "verdict", "reason"),
    [
        ("better", BASE, BETTER, Verdict.PROMOTE, "Accuracy against the base: +"),
        ("worse", BASE, WORSE, Verdict.REJECT, "Accuracy against the base: -"),
        ("as good, other samples", BASE, LIKE_BASE, Verdict.HOLD, "does not show a gain"),
        ("the same completions", BASE, BASE, Verdict.HOLD, "+0.0 points"),
        ("reward without accuracy", BASE, hacked(LIKE_BASE), Verdict.HOLD, "does not show a gain"),
        ("better, format lost", BASE, lost_format(BETTER), Verdict.HOLD, "Format accuracy fell from 100.0%"),
        ("better, but cut off", BASE, changed(BETTER, 80, truncated=True), Verdict.HOLD, "Truncation rose from 0.0%"),
        ("worse, and format lost", BASE, lost_format(WORSE), Verdict.REJECT, "Accuracy against the base: -"),
        ("nan in a score", BASE, changed(BETTER, 1, correct=np.nan), Verdict.INVALID, "not a number"),
        ("nan in a reward", BASE, changed(BETTER, 1, reward_has_format=np.nan), Verdict.INVALID, "not a number"),
        ("nan in a length", BASE, changed(BETTER, 1, n_tokens=np.nan), Verdict.INVALID, "not a number"),
        ("a question is missing", BASE, BETTER.iloc[K:], Verdict.INVALID, "1 of 200 questions have no completion"),
        ("a sample is missing", BASE, BETTER.iloc[1:], Verdict.INVALID, "1 of 200 questions have fewer than 4"),
        ("a completion twice", BASE, pd.concat([BETTER, BETTER.iloc[:1]]), Verdict.INVALID, "there twice"),
        ("other questions", BASE, changed(BETTER, K, id="q9999"), Verdict.INVALID, "not among those asked"),
        ("fewer samples after", BASE, BETTER[BETTER["sample"] < 2], Verdict.INVALID, "before has 4 samples"),
        ("nothing after", BASE, BETTER.iloc[:0], Verdict.INVALID, "200 of 200 questions have no completion"),
        ("nothing at all", BASE.iloc[:0], BETTER.iloc[:0], Verdict.INVALID, "have no completion"),
        ("verifier timed out", BASE, changed(BETTER, 9, verifier="timeout"), Verdict.INVALID, "could not decide 9"),
        ("verifier failed", changed(BASE, 9, verifier="error"), BETTER, Verdict.INVALID, "could not decide 9"),
        ("few verifier failures", BASE, changed(BETTER, 8, verifier="timeout"), Verdict.PROMOTE, "+"),
    ],
)
def test_verdict(what: str, before: pd.DataFrame, after: pd.DataFrame, verdict: Verdict, reason: str) -> None:
    found = judge(before, after)
    assert found.verdict == verdict, found.reasons
    assert reason in " ".join(found.reasons)
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


def test_too_few_questions() -> None:
    before, after = BASE[BASE["id"] < "q0040"], BETTER[BETTER["id"] < "q0040"]
    found = judge(before, after, n=40)
    assert (found.verdict, found.n_questions) == (Verdict.INVALID, 40)
    assert found.reasons == ["Only 40 questions could be compared; the policy asks for 100."]
    assert judge(before, after, n=40, min_questions=40).verdict == Verdict.PROMOTE


def test_too_few_independent_questions() -> None:
    together = {"cluster": [f"c{i // K % 10}" for i in range(N * K)]}
    found = judge(BASE.assign(**together), BETTER.assign(**together))
    assert (found.verdict, found.n_clusters) == (Verdict.INVALID, 10)


def test_questions_without_gold_answer_do_not_count() -> None:
    def without_gold(table: pd.DataFrame, n: int) -> pd.DataFrame:
        return changed(table, n * K, correct=np.nan, verifier="unscorable", reward_exact_answer=np.nan)

    found = judge(without_gold(BASE, 50), without_gold(BETTER, 50))
    assert (found.verdict, found.n_questions, found.after.unscorable) == (Verdict.PROMOTE, 150, 50)
    assert judge(without_gold(BASE, 150), without_gold(BETTER, 150)).verdict == Verdict.INVALID


def test_a_gain_below_the_one_asked_for_is_held() -> None:
    found = judge(BASE, BETTER, min_delta=0.18)
    assert found.verdict == Verdict.HOLD
    assert "a gain of more than 18 points" in found.reasons[0]
    assert judge(BASE, BETTER, min_delta=0.1).verdict == Verdict.PROMOTE


@pytest.mark.parametrize(
    ("champion", "compare_with", "verdict", "first"),
    [
        (LIKE_BASE, "both", Verdict.PROMOTE, "Accuracy against"),
        (BETTER, "both", Verdict.HOLD, "Accuracy against the champion"),
        (BETTER, "base", Verdict.PROMOTE, "Accuracy against the base"),
        (BETTER, "champion", Verdict.HOLD, "Accuracy against the champion"),
        (drawn(N, 0.9, K, seed=6), "both", Verdict.REJECT, "Accuracy against the champion: -"),
        (WORSE, "champion", Verdict.PROMOTE, "Accuracy against the champion"),
        (None, "champion", Verdict.PROMOTE, "Accuracy against the base"),
        (BETTER.iloc[K:], "both", Verdict.INVALID, "champion: 1 of 200"),
    ],
)
def test_the_champion(champion: pd.DataFrame | None, compare_with: str, verdict: Verdict, first: str) -> None:
    found = judge(BASE, drawn(N, 0.7, K, seed=5), champion, compare_with=compare_with)
    assert found.verdict == verdict, found.reasons
    assert found.reasons[0].startswith(first)
    assert (found.delta_vs_champion is None) == (champion is None)


def test_being_worse_than_the_base_rejects_even_when_the_champion_is_worse_still() -> None:
    assert judge(BASE, WORSE, drawn(N, 0.1, K, seed=7)).verdict == Verdict.REJECT


@pytest.mark.parametrize(
    ("up", "down", "verdict"), [(5, 0, "HOLD"), (7, 0, "PROMOTE"), (7, 1, "HOLD"), (0, 7, "REJECT")]
)
def test_a_handful_of_changed_answers_counts_as_in_a_sign_test(up: int, down: int, verdict: str) -> None:
    """One sample each, 200 questions: 5 of 5 in favour happen by chance in 3.1 % of runs, 7 of 7 in 0.8 %."""
    before = [[i % 2 == 0] for i in range(N)]
    after = [row[:] for row in before]
    wrong, right = [i for i in range(N) if i % 2], [i for i in range(N) if i % 2 == 0]
    for i in wrong[:up] + right[:down]:
        after[i] = [not after[i][0]]
    assert judge(scored(before), scored(after)).verdict == verdict


def test_flips_carry_the_texts_that_changed() -> None:
    before = scored([[False, False], [True, True], [True, True], [False, True]] + [[True, False]] * 40)
    after = scored([[True, True], [False, False], [True, True], [True, True]] + [[True, False]] * 40)
    found = judge(before, after, n=44, min_questions=1)
    (improved,), (regressed,) = found.improved, found.regressed
    assert (improved.id, improved.question, improved.answer) == ("q0000", "What is 0 more than 1000?", "1000")
    assert "<answer>0</answer>" in improved.before
    assert "<answer>1000</answer>" in improved.after
    assert (improved.accuracy_before, improved.accuracy_after) == (0.0, 1.0)
    assert regressed.id == "q0001"
    assert "<answer>1001</answer>" in regressed.before
    assert "<answer>0</answer>" in regressed.after


def test_flips_are_sorted_by_change_and_limited() -> None:
    half = [[i % 2 == 0, False, False] for i in range(40)]
    found = evaluate_pair(
        questions(40),
        scored(half),
        scored([[True, True, i % 2 == 1] for i in range(40)]),
        policy=GatePolicy(min_questions=1),
        flips_shown=25,
    )
    changes = [flip.accuracy_after - flip.accuracy_before for flip in found.improved]
    assert len(changes) == 25
    assert changes == sorted(changes, reverse=True)
    assert changes[0] == 1.0


def test_greedy_answers_are_compared_by_themselves() -> None:
    before = scored([[False]] * 40, greedy=[False] * 40)
    after = scored([[False]] * 40, greedy=[True] * 40)
    found = judge(before, after, n=40, min_questions=1)
    assert found.delta.value == 0
    assert found.greedy_delta is not None
    assert found.greedy_delta.value == 1
    assert judge(BASE, BETTER).greedy_delta is None


def test_lengths_are_counted_in_common_bins() -> None:
    found = judge(BASE, BETTER.assign(n_tokens=500))
    assert {name: sum(counts) for name, counts in found.length_histogram.items()} == {"before": N * K, "after": N * K}
    assert all(len(counts) == len(found.length_bins) - 1 for counts in found.length_histogram.values())
    assert found.length_histogram["after"][-1] == N * K
    assert found.length_bins[-1] > 500


def test_the_order_of_rows_changes_nothing() -> None:
    def shuffle(table: pd.DataFrame) -> pd.DataFrame:
        return table.sample(frac=1, random_state=0)

    assert judge(shuffle(BASE), shuffle(BETTER)) == judge(BASE, BETTER)
