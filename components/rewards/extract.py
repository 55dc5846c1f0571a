"""Finds the final answer in a completion, and decides what can be decided without a computer algebra system.

In: the text of a completion. Out: the text of its final answer, a normal form of it, or the plain number that it is.
Nothing here
raises on any text, and every function is linear in its length: completions are written by a model and may be
degenerate.

An answer is looked for in this order: the last `<answer>...</answer>` (and the `\\boxed{...}` inside it, if any), the
last `\\boxed{...}`, the rest of the line after the last `####` (GSM8K). A completion without any of them has no answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class Tags:
    """The marks around reasoning and answer. An empty `reasoning_start` means that the prompt already ends with it."""

    reasoning_start: str = "<reasoning>"
    reasoning_end: str = "</reasoning>"
    answer_start: str = "<answer>"
    answer_end: str = "</answer>"

    @classmethod
    def from_maxtext(cls, config: Any) -> Tags:
        """The tags that a MaxText configuration sets, so that prompt, training reward and evaluation agree."""
        if config is None or not hasattr(config, "solution_start_token"):
            return cls()
        in_prompt = bool(getattr(config, "reasoning_start_token_in_prompt", False))
        return cls(
            reasoning_start="" if in_prompt else str(config.reasoning_start_token),
            reasoning_end=str(config.reasoning_end_token),
            answer_start=str(config.solution_start_token),
            answer_end=str(config.solution_end_token),
        )


DEFAULT_TAGS = Tags()

_BOXED = "\\boxed"
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{...}` whose braces balance (`\\{` and `\\}` do not count), or None."""
    if _BOXED not in text:
        return None
    opened: list[int] = []
    boxes: list[tuple[int, int]] = []
    for brace in _BRACES.finditer(text):
        if brace.group() == "{":
            opened.append(brace.end())
        elif brace.group() == "}" and opened:
            start = opened.pop()
            if text[max(0, start - len(_BOXED) - 2) : start - 1].rstrip().endswith(_BOXED):
                boxes.append((start, brace.start()))
    if not boxes:
        return None
    start, end = max(boxes)
    return text[start:end].strip() or None


def between(text: str, start: str, end: str) -> str | None:
    """What lies between the last `end` and the nearest `start` before it, or None."""
    stop = text.rfind(end)
    begin = text.rfind(start, 0, stop) if stop >= 0 else -1
    return text[begin + len(start) : stop] if begin >= 0 else None


def extract_answer(completion: str, tags: Tags = DEFAULT_TAGS) -> str | None:
    """The final answer of a completion as written there, without surrounding white space. None when it gives none."""
    tagged = between(completion, tags.answer_start, tags.answer_end)
    if tagged is not None:
        return last_boxed(tagged) or tagged.strip() or None
    boxed = last_boxed(completion)
    if boxed is not None:
        return boxed
    _, mark, rest = completion.rpartition("####")
    return (rest.strip().split("\n", 1)[0].strip() or None) if mark else None


_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_SAME_GLYPH = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " "})


def normalise(answer: str) -> str:
    """A form in which two answers that differ only in typesetting are the same string.

    Takes away maths delimiters around the whole, a full stop at the end, thin spaces, repeated white space; writes the
    minus sign and `\\dfrac`/`\\tfrac` the usual way. Letters, digits and their order are never touched.
    """
    text = answer.translate(_SAME_GLYPH).strip()
    text = text.removesuffix(".").rstrip()
    for opening, closing in _DELIMITERS:
        inner = text[len(opening) : len(text) - len(closing)]
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            if opening not in inner and closing not in inner:
                text = inner.strip()
            break
    text = text.replace("{,}", ",").replace("\\!", "").replace("\\,", "")
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    return " ".join(text.split())


# Up to six decimals and fifteen digits: math-verify rounds to six decimals and floats carry fifteen digits, so within
# these bounds an exact comparison and math-verify's agree. Anything else is left to math-verify.
_PLAIN = re.compile(r"(?:\\?\$)?(-?)((?:\d+|[1-9]\d{0,2}(?:,\d{3})+))(?:\.(\d{1,6}))?", re.ASCII)


def plain_number(answer: str) -> Decimal | None:
    """The value of an answer that is nothing but a number (`-3`, `1,234`, `3.50`, `$18`), else None.

    Fractions, percentages, powers of ten, units and decimal commas are not plain.
    """
    match = _PLAIN.fullmatch(normalise(answer))
    if not match:
        return None
    sign, whole, decimals = match.groups()
    digits = whole.replace(",", "")
    if decimals and len(digits) + len(decimals) > 15:
        return None
    return Decimal(f"{sign}{digits}.{decimals or 0}")


def canonical(answer: str) -> str:
    """One text for all spellings of the same plain number, else the normal form: what majority voting counts."""
    number = plain_number(answer)
    if number is None:
        return normalise(answer)
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if number == 0 else text


def has_format(completion: str, tags: Tags = DEFAULT_TAGS) -> bool:
    """Whether reasoning in its tags is followed by a non-empty answer in its tags (the rule of MaxText's
    match_format_exactly).
    """
    position = 0
    for tag in (tags.reasoning_start, tags.reasoning_end, tags.answer_start):
        found = completion.find(tag, position)
        if found < 0:
            return False
        position = found + len(tag)
    return completion.find(tags.answer_end, position + 1) >= 0
