"""The before/after table: every measure of the evaluation, one row each, in four groups.

In: an `Evaluation`. Out: groups of rows of cells (main text, small print below it). A measure that no checkpoint has
is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from components.report.formats import bare_percent, bare_points, decimal, is_finite, label, percent, quantity, signed
from components.results import Evaluation, Interval, Measures


@dataclass(frozen=True)
class Cell:
    """A figure, and its interval or other small print."""

    text: str
    small: str = ""


@dataclass(frozen=True)
class Row:
    """A measure: its name, what it means in a few words, and its cells (before, after, change and perhaps champion)."""

    name: str
    meaning: str
    cells: list[Cell]


@dataclass(frozen=True)
class Group:
    """Rows that belong together."""

    name: str
    rows: list[Row]


Value = Callable[[Measures], float | None]
Values = Callable[[Measures], dict[str, float]]


def groups(e: Evaluation) -> list[Group]:
    """Returns the table, group by group."""
    k = e.samples_per_question
    drawn = f"mean over {k} samples" if k > 1 else "one sample each"
    answers = [
        _row(e, "Accuracy", drawn, lambda m: m.accuracy, delta=e.delta, interval=True),
        _row(
            e,
            "Greedy accuracy",
            "one answer, always the most likely token",
            lambda m: m.greedy_accuracy,
            delta=e.greedy_delta,
        ),
        *_by_k(e, "pass", "one of {k} is right", lambda m: m.pass_at_k, "@"),
        *_by_k(e, "maj", "the most frequent of {k} is right", lambda m: m.maj_at_k, "@"),
        *_by_k(e, "pass", "all {k} are right", lambda m: m.pass_hat_k, "^"),
        # pass^k with all samples is the same number
        None
        if str(k) in e.after.pass_hat_k
        else _row(e, "Always solved", "every one is right", lambda m: m.solved_all),
        _row(e, "Never solved", "no sample is right", lambda m: m.solved_none),
    ]
    parts = _keys(e, lambda m: m.reward_parts)
    rewards = [
        _row(e, "Mean reward", "sum of the parts", lambda m: m.mean_reward, style=_reward),
        *(_row(e, label(p), "", _at(lambda m: m.reward_parts, p), style=_reward) for p in parts),
    ]
    form = [
        _row(e, "Right format", "answer where it was asked for", lambda m: m.format_accuracy),
        _row(e, "Cut off", "reached the token limit", lambda m: m.truncation_rate),
        _row(e, "Mean length", "tokens", lambda m: m.mean_tokens, style=_tokens),
        _row(e, "p95 length", "tokens, 95th percentile", lambda m: m.p95_tokens, style=_tokens),
    ]
    verifier = [
        _row(e, "Time-outs", "completions", lambda m: m.verifier_timeouts, style=_whole),
        _row(e, "Errors", "completions", lambda m: m.verifier_errors, style=_whole),
        _row(e, "Not scorable", "completions", lambda m: m.unscorable, style=_whole),
    ]
    named = [
        ("Right answers", answers),
        ("Reward", rewards),
        ("Form and length", form),
        ("Verifier failures", verifier),
    ]
    return [Group(name, [r for r in rows if r is not None]) for name, rows in named]


Style = tuple[Callable[[float | None], str], Callable[[float | None], str]]  # of a value, of a change
_percent: Style = (percent, bare_points)
_reward: Style = (lambda v: decimal(v, 3), lambda v: signed(v, 3))
_tokens: Style = (lambda v: decimal(v, 1), lambda v: signed(v, 1))
_whole: Style = (lambda v: quantity(v) if v is not None else decimal(v), lambda v: signed(v, 0))


def _row(
    e: Evaluation,
    name: str,
    meaning: str,
    value: Value,
    *,
    delta: Interval | None = None,
    interval: bool = False,
    style: Style = _percent,
) -> Row | None:
    before, after = value(e.before), value(e.after)
    if before is None and after is None:
        return None
    change = delta.value if delta is not None else (None if before is None or after is None else after - before)
    cells = [_cell(e.before, before, interval, style), _cell(e.after, after, interval, style)]
    small = (
        f"{bare_points(delta.ci_low)} to {bare_points(delta.ci_high)}"
        if delta is not None and is_finite(delta.value)
        else ""
    )
    cells.append(Cell(style[1](change), small))
    if e.champion is not None:
        cells.append(_cell(e.champion, value(e.champion), interval, style))
    return Row(name, meaning, cells)


def _cell(m: Measures, value: float | None, interval: bool, style: Style) -> Cell:
    shown = interval and is_finite(m.accuracy_ci_low) and is_finite(m.accuracy_ci_high)
    small = f"{bare_percent(m.accuracy_ci_low)} to {bare_percent(m.accuracy_ci_high)}" if shown else ""
    return Cell(style[0](value), small)


def _by_k(e: Evaluation, name: str, meaning: str, values: Values, mark: str) -> list[Row | None]:
    keys = sorted(_keys(e, values), key=lambda k: (int(k) if k.isdigit() else 0, k))
    # one draw is the accuracy itself, whatever is counted
    return [_row(e, f"{name}{mark}{k}", meaning.format(k=k), _at(values, k)) for k in keys if k != "1"]


def _at(values: Values, key: str) -> Value:
    return lambda m: values(m).get(key)


def _keys(e: Evaluation, values: Values) -> list[str]:
    return list(dict.fromkeys(k for m in (e.before, e.after, e.champion) if m is not None for k in values(m)))
