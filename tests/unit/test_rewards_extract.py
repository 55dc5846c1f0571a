"""Where the answer of a completion is found, and which answers count as the same."""

from __future__ import annotations

import random
import re

import pytest

from components.rewards.extract import Tags, canonical, extract_answer, has_format, normalise, plain_number


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<reasoning>37+5=42</reasoning><answer>42</answer>", "42"),
        ("<answer>1</answer> no, <answer> 2 </answer>", "2"),
        ("<answer>1</answer> and then <answer>2", "1"),
        ("<answer>the <answer>7</answer>", "7"),
        ("<answer>so \\boxed{3}</answer>", "3"),
        ("\\boxed{9} <answer>8</answer>", "8"),
        ("<answer></answer>", None),
        ("<answer> \n </answer> \\boxed{4}", None),
        ("so \\boxed{1} or rather \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{\\left\\{1, 2\\right.}", "\\left\\{1, 2\\right."),
        ("\\boxed {5}", "5"),
        ("\\boxed{\\boxed{5}}", "5"),
        ("\\boxed{1} \\boxed{2", "1"),
        ("\\boxed{{2}", None),
        ("4 + 4 = 8\n#### 8\n", "8"),
        ("#### 7\n#### 8 apples\nthat is all", "8 apples"),
        ("#### ", None),
        ("42", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_one_given(completion: str, answer: str | None) -> None:
    assert extract_answer(completion) == answer


def test_other_tags_can_be_named() -> None:
    tags = Tags("<think>", "</think>", "<solution>", "</solution>")
    assert extract_answer("<think>x</think><solution>5</solution><answer>6</answer>", tags) == "5"
    assert has_format("<think>x</think><solution>5</solution>", tags)
    assert not has_format("<reasoning>x</reasoning><answer>5</answer>", tags)


def test_reasoning_that_the_prompt_has_opened_needs_no_opening_tag() -> None:
    assert has_format("x</reasoning><answer>5</answer>", Tags(reasoning_start=""))
    assert not has_format("x</reasoning><answer>5</answer>")


def test_tags_come_from_the_maxtext_configuration() -> None:
    class Config:
        reasoning_start_token, reasoning_end_token = "<think>", "</think>"
        solution_start_token, solution_end_token = "<a>", "</a>"
        reasoning_start_token_in_prompt = True

    assert Tags.from_maxtext(Config()) == Tags("", "</think>", "<a>", "</a>")
    assert Tags.from_maxtext(None) == Tags()


def test_has_format_is_the_rule_of_maxtext() -> None:
    rule = re.compile(r"<reasoning>.*?</reasoning>.*?<answer>(.+?)</answer>", re.DOTALL)
    random.seed(0)
    pieces = ["<reasoning>", "</reasoning>", "<answer>", "</answer>", "4", "\n"]
    texts = ["".join(random.choices(pieces, k=random.randint(0, 16))) for _ in range(5000)]
    assert [has_format(text) for text in texts] == [rule.search(text) is not None for text in texts]
    assert 100 < sum(map(has_format, texts)) < 4900


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        (" $42$. ", "42"),
        ("\\( x + 1 \\)", "x + 1"),
        ("$5 and $6", "$5 and $6"),
        ("$1$ or $2$", "$1$ or $2$"),
        ("\u22123", "-3"),
        ("1{,}234", "1,234"),
        ("\\dfrac{1}{2}", "\\frac{1}{2}"),
        ("two   words", "two words"),
        ("1 2", "1 2"),
        ("Blue", "Blue"),
        ("$", "$"),
        (".", ""),
    ],
)
def test_only_typesetting_is_normalised(answer: str, normal: str) -> None:
    assert normalise(answer) == normal


@pytest.mark.parametrize("text", ["3", "3.0", "3.", " $3$ ", "03", "\\$3", "3.000000"])
def test_spellings_of_three(text: str) -> None:
    assert plain_number(text) == 3
    assert canonical(text) == "3"


@pytest.mark.parametrize(
    "text",
    [
        "1/2",
        "5%",
        "1e3",
        "1,23",
        "12,34,567",
        "0,123",
        "3 apples",
        "",
        "-",
        ".5",
        "1 000",
        "--3",
        "\u0663",
        "1.2345678",
    ],
)
def test_what_is_not_a_plain_number_is_left_to_the_verifier(text: str) -> None:
    assert plain_number(text) is None


@pytest.mark.parametrize(
    ("text", "form"),
    [("-0", "0"), ("-0.50", "-0.5"), ("1,234", "1234"), ("1200", "1200"), ("9" * 40, "9" * 40), ("b.", "b")],
)
def test_canonical_form(text: str, form: str) -> None:
    assert canonical(text) == form


@pytest.mark.parametrize("unit", ["<answer>", "</answer>", "\\boxed{", "{", "}", "<reasoning>", "\\", "$", "1,"])
def test_a_degenerate_completion_has_no_answer(unit: str) -> None:
    """Two megabytes: code that is quadratic in the length would not come back."""
    text = unit * (2_000_000 // len(unit))
    assert extract_answer(text) is None
    assert not has_format(text)
    assert plain_number(text) is None
