"""How the report writes numbers: percent with one decimal, differences in points, times in hours and minutes.

Every function takes a plain number and returns text; a value that is missing, NaN or infinite is written as an en dash.
A number and its unit are held together by a no-break space; a minus is the typographic one.
"""

from __future__ import annotations

import math

NBSP = "\u00a0"
MINUS = "\u2212"
MISSING = "\u2013"

_SPELLED = {
    "hf": "Hugging Face",
    "maxtext": "MaxText",
    "rl": "RL",
    "kl": "KL",
    "tpu": "TPU",
    "gpu": "GPU",
    "id": "ID",
    "uri": "URI",
}


def is_finite(value: float | None) -> bool:
    """True for a number that can be shown."""
    return value is not None and math.isfinite(value)


def decimal(value: float | None, digits: int = 1) -> str:
    """A number with fixed digits and thousands separators: 1234.56 -> `1,234.6`."""
    if value is None or not math.isfinite(value):
        return MISSING
    rounded = round(value, digits) or 0.0  # `or` turns -0.0 into 0.0
    return f"{rounded:,.{digits}f}".replace("-", MINUS)


def signed(value: float | None, digits: int = 1) -> str:
    """As `decimal`, with a plus sign for gains; what rounds to zero has no sign."""
    text = decimal(value, digits)
    return f"+{text}" if value is not None and is_finite(value) and round(value, digits) > 0 else text


def bare_percent(fraction: float | None) -> str:
    """A fraction as percent without the unit, for the inside of an interval: 0.549 -> `54.9`."""
    return decimal(None if fraction is None else 100 * fraction)


def percent(fraction: float | None) -> str:
    """A fraction as percent: 0.549 -> `54.9 %`."""
    return f"{bare_percent(fraction)}{NBSP}%" if is_finite(fraction) else MISSING


def fine_percent(fraction: float | None) -> str:
    """A small fraction as percent with two significant digits: 0.000123 -> `0.012 %`."""
    return (
        f"{quantity(float(f'{100 * fraction:.2g}'))}{NBSP}%"
        if fraction is not None and is_finite(fraction)
        else MISSING
    )


def bare_points(difference: float | None) -> str:
    """A difference of two fractions in percentage points, without the unit: 0.389 -> `+38.9`."""
    return signed(None if difference is None else 100 * difference)


def points(difference: float | None) -> str:
    """A difference of two fractions: 0.389 -> `+38.9 points`."""
    return f"{bare_points(difference)}{NBSP}points" if is_finite(difference) else MISSING


def count(value: int | float, noun: str) -> str:
    """A count with its noun: (1, 'question') -> `1 question`, (1319, 'question') -> `1,319 questions`."""
    return f"{value:,}{NBSP}{noun}{'' if value == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: `0.4 s`, `12 s`, `1 min 47 s`, `3 h 05 min`, `2 d 04 h`."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 9.95:
        return f"{seconds:.1f}{NBSP}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{NBSP}s"
    if whole < 3600:
        return f"{whole // 60}{NBSP}min {whole % 60:02d}{NBSP}s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60}{NBSP}h {minutes % 60:02d}{NBSP}min"
    hours = round(seconds / 3600)
    return f"{hours // 24}{NBSP}d {hours % 24:02d}{NBSP}h"


def quantity(value: float) -> str:
    """A number of unknown scale: whole numbers whole, large ones with separators, small ones to four digits."""
    if not math.isfinite(value):
        return MISSING
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", MINUS)
    if abs(value) >= 1000:
        return decimal(value, 0 if abs(value) >= 10_000 else 1)
    text = f"{value:.4g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}\u00d710{int(exponent)}".replace(f"10{int(exponent)}", "10" + _superscript(int(exponent)))
    return text.replace("-", MINUS)


def label(key: str) -> str:
    """A key as words: `tokens_per_second` -> `Tokens per second`."""
    words = " ".join(
        _SPELLED.get(word.lower(), word) for word in key.replace("_", " ").replace("-", " ").replace("/", " / ").split()
    )
    return words[:1].upper() + words[1:]


def _superscript(exponent: int) -> str:
    return str(exponent).translate(
        str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
    )
