"""What is decided without math-verify: exactly as it decides numbers and fractions, and better than it decides words."""

from __future__ import annotations

import random

import pytest

from components.rewards import worker
from components.rewards.at_once import decide_at_once


def numeral(rng: random.Random) -> str:
    """A plain number in one of the spellings that are decided at once."""
    value = rng.choice([rng.randint(-30, 30), rng.randint(-10_000, 10_000_000), rng.randint(-(10**16), 10**16)])
    text = f"{value:,}" if rng.random() < 0.3 else str(value)
    if len(text.replace(",", "")) <= 9 and rng.random() < 0.5:
        text += "." + rng.choice(["0", "00", "5", "50", "25", "000001", "1", "100000", "999999"])
    return ("\\$" if rng.random() < 0.1 else "") + text


def ratio(rng: random.Random) -> str:
    """A whole number or a fraction of whole numbers."""
    upper, lower = rng.randint(-12, 12), rng.randint(1, 12)
    return rng.choice(
        [str(upper), f"{upper}/{lower}", f"\\frac{{{upper}}}{{{lower}}}", f"-\\dfrac{{{abs(upper)}}}{{{lower}}}"]
    )


def pairs(spelled: list[str], count: int, rng: random.Random) -> list[tuple[str, str]]:
    """Pairs of these spellings, half of them with the same beginning."""
    near = {text: [other for other in spelled if other[:2] == text[:2]] for text in spelled}
    anyhow = [(rng.choice(spelled), rng.choice(spelled)) for _ in range(count // 2)]
    return anyhow + [(text, rng.choice(near[text])) for text in rng.choices(spelled, k=count - count // 2)]


@pytest.mark.parametrize(("make", "kinds", "count"), [(numeral, 400, 10_000), (ratio, 200, 3000)])
def test_numbers_are_decided_as_by_math_verify(make, kinds: int, count: int) -> None:
    rng = random.Random(0)
    drawn = pairs([make(rng) for _ in range(kinds)], count, rng)
    ours = [decide_at_once([gold], answer) for gold, answer in drawn]
    theirs = [worker.verify([gold], answer) for gold, answer in drawn]
    assert [(*pair, a) for pair, a, b in zip(drawn, ours, theirs, strict=True) if a is not b] == []
    assert 0.05 * count < sum(theirs) < 0.95 * count


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("18", "18 dollars", True),
        ("18", "17 dollars", False),
        ("18", "$18 per hour", True),
        ("18", "18.00 \\text{ dollars}", True),
        ("1,000", "1000 eggs.", True),
        ("7", "7 years old", True),
        ("5 apples", "5", True),
        ("5 apples", "5 Apples", True),
        ("5 apples", "6 oranges", False),
        ("Monday", "\\text{monday}", True),
        ("Monday", "Tuesday", False),
        ("east", "seat", False),
        ("\\sqrt{2}", "\\sqrt{2}.", True),
    ],
)
def test_words_are_read_as_words(gold: str, answer: str, right: bool) -> None:
    assert decide_at_once([gold], answer) is right


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5", "5 million"),
        ("5", "5 squared"),
        ("5", "5 or 6"),
        ("5", "5 and a half"),
        ("18", "18 dollars and 50 cents"),
        ("5", "5 percent"),
        ("5", "5x"),
        ("5", "5 xyz"),
        ("5", "5 m"),
        ("5 apples", "5 oranges"),
        ("0.5", "1/2"),
        ("1/3", "0.333333"),
        ("5", "1/0"),
        ("5", "x = 5"),
        ("50", "50\\%"),
        ("ab", "ba"),
        ("sin x", "x sin"),
        ("\\frac{x}{2}", "x/2"),
        ("(1, 2)", "(2, 1)"),
        ("12345678901234.25", "12345678901234.5"),
    ],
)
def test_the_rest_is_left_to_math_verify(gold: str, answer: str) -> None:
    assert decide_at_once([gold], answer) is None


def test_one_right_gold_is_enough_and_one_undecided_leaves_it_open() -> None:
    assert decide_at_once(["x", "5"], "5.0") is True
    assert decide_at_once(["6", "7"], "5") is False
    assert decide_at_once(["6", "x"], "5") is None
