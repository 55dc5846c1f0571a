"""The measures of one checkpoint, against counting by hand and against enumeration of all subsets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from evaluation_tables import REWARDS, completions, questions, scored

from components.evaluate.measures import majority_share, measure, pass_at_k, pass_hat_k
from components.evaluate.score import acceptable, score_table


@pytest.mark.parametrize("n", range(1, 7))
def test_pass_at_k_and_pass_hat_k_equal_enumeration(n: int) -> None:
    for c in range(n + 1):
        samples = [True] * c + [False] * (n - c)
        for k in range(1, n + 1):
            subsets = list(combinations(samples, k))
            assert pass_at_k(n, c, k) == pytest.approx(np.mean([any(subset) for subset in subsets]), abs=1e-12)
            assert pass_hat_k(n, c, k) == pytest.approx(np.mean([all(subset) for subset in subsets]), abs=1e-12)


@pytest.mark.parametrize(
    ("votes", "correct", "share"),
    [
        (["4", "4", "5"], [1, 1, 0], 1.0),
        (["4", "5", "5"], [1, 0, 0], 0.0),
        (["4", "5"], [1, 0], 0.5),
        (["4", "5", "6", None], [1, 0, 0, 0], 1 / 3),
        (["4", None, None], [1, 0, 0], 1.0),
        ([None, None], [0, 0], 0.0),
    ],
)
def test_majority(votes: list[str | None], correct: list[float], share: float) -> None:
    assert majority_share(votes, correct) == pytest.approx(share)


def test_measures_of_a_table_counted_by_hand() -> None:
    table = scored(
        [[True, True, True, True], [True, True, True, False], [False, True, False, False], [False] * 4],
        greedy=[True, True, False, False],
    )
    found = measure(table)
    assert (found.n_questions, found.samples_per_question) == (4, 4)
    assert found.accuracy == pytest.approx((1 + 0.75 + 0.25 + 0) / 4)
    assert 0 < found.accuracy_ci_low < found.accuracy < found.accuracy_ci_high < 1
    assert found.greedy_accuracy == 0.5
    assert found.mean_reward == pytest.approx(0.5 + 0.1)
    assert found.reward_parts == {"exact_answer": pytest.approx(0.5), "has_format": pytest.approx(0.1)}
    assert (found.format_accuracy, found.truncation_rate) == (1.0, 0.0)
    assert found.pass_at_k == {"1": pytest.approx(0.5), "2": pytest.approx((1 + 1 + 0.5) / 4), "4": pytest.approx(0.75)}
    assert found.pass_hat_k == {"1": pytest.approx(0.5), "2": pytest.approx((1 + 0.5) / 4), "4": pytest.approx(0.25)}
    assert (found.solved_all, found.solved_none) == (0.25, 0.25)
    assert found.maj_at_k["1"] == pytest.approx(0.5)
    # groups of two: (1, 1), (1, a tie of one right with one wrong), (a tie, two different wrong ones), nothing
    assert found.maj_at_k["2"] == pytest.approx((1 + 0.75 + 0.25 + 0) / 4)
    # groups of four: the third question has one right vote and three different wrong ones
    assert found.maj_at_k["4"] == pytest.approx((1 + 1 + 0.25 + 0) / 4)
    assert (found.mean_tokens, found.p95_tokens) == (pytest.approx(21.5), 23.0)
    assert (found.verifier_timeouts, found.verifier_errors, found.unscorable) == (0, 0, 0)


def test_questions_count_equally_however_many_samples_they_have() -> None:
    table = scored([[True] * 4, [False] * 4])
    assert measure(table.iloc[:5]).accuracy == 0.5


def test_greedy_rows_are_measured_where_nothing_was_sampled() -> None:
    found = measure(scored([[], [], []], greedy=[True, True, False]))
    assert (found.accuracy, found.greedy_accuracy) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_questions_without_gold_are_counted_and_left_out_of_accuracy() -> None:
    asked = questions(3).assign(answer=["1000", None, ""])
    table = score_table(asked, completions([[True, False]] * 3), REWARDS)
    found = measure(table)
    assert (found.accuracy, found.n_questions, found.unscorable) == (0.5, 1, 2)
    assert found.format_accuracy == 1.0
    assert found.reward_parts == {"exact_answer": 0.5, "has_format": pytest.approx(0.1)}


def test_an_empty_table_is_no_knowledge_rather_than_an_error() -> None:
    found = measure(scored([[True]]).iloc[:0])
    assert (found.n_questions, found.accuracy_ci_low, found.accuracy_ci_high) == (0, 0.0, 1.0)


def test_the_table_keeps_the_order_and_says_what_was_extracted() -> None:
    asked = pd.DataFrame(
        {"id": ["a", "b"], "question": ["?", "?"], "answer": [["0.5", "B"], "x+1"], "cluster": ["c", "c"]}
    )
    texts = ["<answer>\\frac{1}{2}</answer>", "\\boxed{1+x}", "none", "<reasoning>.</reasoning><answer>B</answer>"]
    said = pd.DataFrame(
        {
            "id": ["a", "b", "a", "a"],
            "sample": range(4),
            "greedy": False,
            "completion": texts,
            "n_tokens": 9,
            "truncated": False,
        }
    )
    table = score_table(asked, said, {"numbers": 2.0, "has_format": 0.5})
    assert table["completion"].tolist() == texts
    assert table["correct"].tolist() == [1, 1, 0, 1]
    assert table["answer"].tolist() == ["\\frac{1}{2}", "1+x", None, "B"]
    assert table["reward"].tolist() == [2.0, 2.0, 0.0, 2.5]
    assert table["verifier"].unique().tolist() == ["ok"]


def test_completions_that_belong_to_no_question_are_refused() -> None:
    with pytest.raises(ValueError, match="belong to no question"):
        score_table(questions(1), completions([[True], [True]]), REWARDS)
    with pytest.raises(ValueError, match="occur twice"):
        score_table(pd.concat([questions(1)] * 2), completions([[True]]), REWARDS)


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("4", ["4"]),
        (["4", "four", "4"], ["4", "four"]),
        (np.array(["4"]), ["4"]),
        (None, []),
        (float("nan"), []),
        ("  ", []),
        ([], []),
    ],
)
def test_the_answers_in_a_cell(cell: object, texts: list[str]) -> None:
    assert acceptable(cell) == texts
