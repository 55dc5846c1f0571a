"""Compares two answers without a computer algebra system, where that is certain: right, wrong, or not decided.

Decided are, in this order: equal normal forms; two plain numbers; a number with words behind it, such as `18 dollars`,
and a number; two fractions of whole numbers; two texts. Numbers and fractions are decided exactly as math-verify
decides them (tested on thousands of pairs).
With words it is otherwise on purpose: math-verify reads a word as a product of letters, so that to it `18 dollars` is
not 18, `7 years old` is not 7, and `east` equals `seat`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from components.rewards.extract import normalise, plain_number

_WORDS = r"(?=[A-Za-z]*[aeiouAEIOU])[A-Za-z]{3,}(?:[ /-][A-Za-z]+){0,5}"
_WITH_UNIT = re.compile(rf"(?P<number>[^A-Za-z{{}}]*?\d)(?:\s+|\s*\\text\{{\s*)(?P<unit>{_WORDS})\s*\}}?", re.ASCII)
_CHANGES_THE_NUMBER = frozenset(
    {
        "and",
        "billion",
        "cubed",
        "divided",
        "dozen",
        "half",
        "hundred",
        "less",
        "million",
        "minus",
        "mod",
        "modulo",
        "or",
        "over",
    }
    | {"percent", "percentage", "plus", "squared", "than", "thousand", "times", "trillion"}
)
_FRACTION = re.compile(r"(-?)(?:\\frac\s*\{(-?\d+)\}\s*\{(\d+)\}|(\d+)\s*/\s*(\d+))", re.ASCII)
_TEXT = re.compile(r"[A-Za-z]+(?:[ '-][A-Za-z]+)*", re.ASCII)


def decide_at_once(golds: Sequence[str], answer: str) -> bool | None:
    """True when the answer equals one of the golds, false when it certainly equals none, else None."""
    decisions = [_equal(gold, answer) for gold in golds]
    if True in decisions:
        return True
    return None if None in decisions else False


def _equal(gold: str, answer: str) -> bool | None:
    if normalise(gold) == normalise(answer):
        return True
    return next(
        (d for rule in (_numbers, _quantities, _fractions, _texts) if (d := rule(gold, answer)) is not None), None
    )


def _numbers(gold: str, answer: str) -> bool | None:
    left, right = plain_number(gold), plain_number(answer)
    return None if left is None or right is None else left == right


def _quantities(gold: str, answer: str) -> bool | None:
    left, right = quantity(gold), quantity(answer)
    if left is None or right is None:
        return None
    same_unit = not left[1] or not right[1] or left[1] == right[1]
    return left[0] == right[0] if same_unit or left[0] != right[0] else None


def quantity(answer: str) -> tuple[Decimal, str] | None:
    """A plain number and the words behind it, which may be none; None for anything else, such as `5 million`."""
    number = plain_number(answer)
    if number is not None:
        return number, ""
    match = _WITH_UNIT.fullmatch(normalise(answer))
    number = plain_number(match["number"]) if match else None
    if match is None or number is None or not _CHANGES_THE_NUMBER.isdisjoint(re.split(r"[ /-]", match["unit"].lower())):
        return None
    return number, match["unit"].lower()


def _fractions(gold: str, answer: str) -> bool | None:
    left, right = fraction(gold), fraction(answer)
    return None if left is None or right is None else left == right


def fraction(answer: str) -> Fraction | None:
    """The value of `a/b`, `\\frac{a}{b}` or a whole number, else None: with decimals it is a matter of rounding."""
    match = _FRACTION.fullmatch(normalise(answer))
    if not match:
        number = plain_number(answer)
        return Fraction(number) if number is not None and "." not in answer else None
    sign, upper, lower, over, under = match.groups()
    denominator = int(lower or under)
    return Fraction(int(sign + "1") * int(upper or over), denominator) if denominator else None


def _texts(gold: str, answer: str) -> bool | None:
    left, right = _text(gold), _text(answer)
    return None if left is None or right is None else left == right


def _text(answer: str) -> str | None:
    """The words of an answer that is words and no formula: one of them has more than three letters."""
    words = normalise(answer)
    if words.startswith("\\text{") and words.endswith("}"):
        words = words[6:-1].strip()
    return words.casefold() if _TEXT.fullmatch(words) and re.search("[A-Za-z]{4}", words) else None
