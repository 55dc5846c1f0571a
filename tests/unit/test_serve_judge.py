"""What speaks against a served model, and what does not."""

import math

import pytest
from scipy.stats import binomtest
from serving_examples import ASKED, questions

from components.serve.judge import Judged, accuracies, findings, wilson
from components.serve.spec import Answer, Answers, Compared, Speed, Stop

N = len(ASKED)


def answer(question, text="<answer>1</answer>", **changes) -> Answer:
    fields = {"id": question.id, "prompt_ids": question.prompt_ids, "token_ids": [1, 2], "logprobs": [-0.1, -0.2]}
    return Answer.model_validate({**fields, "text": text, "ended": True, **changes})


def answers(**changes) -> Answers:
    every = [answer(question) for question in questions()]
    fields = {
        "vllm": "0",
        "models": ["m"],
        "completions": every[:6],
        "chats": every[:6],
        "stop": Stop(stop="er>1", text="<answ", whole="<answer>1</answer>"),
        "at_once": every,
        "speed": Speed(first_token_s=[0.1], tokens_per_s_alone=1, tokens_per_s_at_once=2),
    }
    return Answers.model_validate({**fields, **changes})


def compared(greedy=2, diff=1e-6) -> list[Compared]:
    return [Compared(id=f"q{n}", tokens=2, greedy=greedy, max_logprob_diff=diff) for n in range(12)]


def judged(right: int, n: int = N, ended: int | None = None) -> list[Judged]:
    ended = n if ended is None else ended
    return [Judged("t", at < right, at < ended) for at in range(n)]


def found(said=None, transformers=None, served=None, evaluated=None, *, exact=True) -> list[str]:
    return findings(
        "m",
        questions(),
        said or answers(),
        transformers or compared(),
        served or judged(N),
        evaluated or judged(N),
        exact=exact,
        tolerance=1e-4,
    )


def test_nothing_speaks_against_a_model_that_is_the_trained_one():
    assert found() == []


def test_one_other_token_counts_where_numerics_are_exact_and_only_there():
    other = [*compared()[:11], *compared(greedy=1)[:1]]
    assert "1 of 12 greedy answers differ" in found(transformers=other)[0]
    assert found(transformers=other, exact=False) == []


@pytest.mark.parametrize("diff", [1.1e-4, math.nan, math.inf])
def test_log_probabilities_beyond_the_tolerance_count_always(diff):
    other = [*compared()[:11], *compared(diff=diff)[:1]]
    for exact in (True, False):
        assert "more than 0.0001" in found(transformers=other, exact=exact)[0]
    assert found(transformers=compared(diff=1e-4)) == []


def test_answers_that_change_among_others_count_where_numerics_are_exact():
    every = [answer(question, "<answer>2</answer>") for question in questions()]
    assert "6 of 6 questions get another answer among concurrent requests" in found(answers(at_once=every))[0]
    assert found(answers(at_once=every), exact=False) == []


@pytest.mark.parametrize(("on", "counts"), [(1, False), (2, True), (N, True)])
def test_answers_that_run_on_where_the_evaluated_ones_ended_mean_a_missing_end_token(on, counts):
    assert bool(found(served=judged(N, ended=N - on))) is counts


def test_answers_that_ran_on_in_the_evaluation_too_say_nothing_of_the_end_token():
    assert found(served=judged(N, ended=0), evaluated=judged(N, ended=0)) == []


def test_accuracy_counts_outside_the_interval_of_the_evaluated_one_on_either_side():
    for served, evaluated, counts in ((64, 64, 0), (60, 64, 1), (64, 50, 1), (48, 50, 0)):
        pair = accuracies(judged(served, 64), judged(evaluated, 64))
        assert (pair.ci_low <= pair.served <= pair.ci_high) is not bool(counts)
    assert "answers 0.0% of 12 questions rightly; the evaluated one 100.0%" in found(served=judged(0))[0]


@pytest.mark.parametrize(("right", "n"), [(0, 50), (1, 50), (25, 50), (200, 256), (64, 64)])
def test_the_interval_is_wilson_s(right, n):
    expected = binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert wilson(right / n, n) == pytest.approx((expected.low, expected.high))
