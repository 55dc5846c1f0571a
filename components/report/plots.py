"""The plots of the report: intervals, reward over steps, its parts, health of the training, lengths, loss.

In: the records of a run. Out: `Plot`s (title, SVG, what it shows in words for those who do not see it, legend). A
plot whose data are not there, or not finite, is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from components.report import svg
from components.report.formats import (
    NBSP,
    bare_percent,
    bare_points,
    count,
    decimal,
    is_finite,
    label,
    percent,
    points,
    quantity,
)
from components.results import Evaluation, Interval, LossCurve, Training, TrainPoint, WorkerGroup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {"before": "Before", "after": "After", "champion": "Champion"}
_COLOURS = {"before": svg.BEFORE, "after": svg.AFTER, "champion": svg.CHAMPION}
_LABELLED = 4  # as many changes of the workers have room for their words


@dataclass(frozen=True)
class Plot:
    """A picture: `label` says in words what it shows, `legend` names its colours as (CSS variable, name)."""

    title: str
    svg: str
    label: str
    note: str = ""
    legend: list[tuple[str, str]] = field(default_factory=list)


def of_evaluation(e: Evaluation) -> list[Plot]:
    """Returns the interval plot and the histogram of lengths."""
    return [p for p in (intervals(e), lengths(e)) if p is not None]


def of_training(t: Training) -> list[Plot]:
    """Returns the reward curve, its parts, and what shows whether the training was healthy."""
    found = [
        reward(t),
        reward_parts(t),
        _series(t, "completion_tokens", "Length of completions in training", "tokens"),
        _series(t, "kl", "Distance from the base model", "KL"),
    ]
    return [p for p in found if p is not None]


def intervals(e: Evaluation) -> Plot | None:
    """Accuracies with their intervals, and below them the differences with the zero line."""
    rows = [("before", e.before), ("after", e.after)]
    if e.champion is not None:
        rows.insert(1, ("champion", e.champion))
    rates = [
        (key, Interval(value=m.accuracy, ci_low=m.accuracy_ci_low, ci_high=m.accuracy_ci_high))
        for key, m in rows
        if _whole(m.accuracy, m.accuracy_ci_low, m.accuracy_ci_high)
    ]
    against = "to before" if e.champion is not None else "Difference"
    deltas = [(against, e.delta)]
    if e.delta_vs_champion is not None:
        deltas.append(("to champion", e.delta_vs_champion))
    deltas = [(name, d) for name, d in deltas if _whole(d.value, d.ci_low, d.ci_high)]
    if len(rates) < 2 or not deltas:
        return None

    def paint(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, height_ratios=[len(rates) + 0.4, len(deltas) + 0.4])
        names = [_NAMES[key] for key, _ in rates]
        _interval_rows(top, names, [i for _, i in rates], [_COLOURS[key] for key, _ in rates], bare_percent)
        top.set_xlabel("Right answers, %")
        _interval_rows(bottom, [n for n, _ in deltas], [d for _, d in deltas], [svg.AFTER] * len(deltas), bare_points)
        bottom.axvline(0, color=svg.INK, linewidth=1)
        left, right = bottom.get_xlim()
        bottom.set_xlim(min(left, -0.06 * (right - left)), max(right, 0.06 * (right - left)))
        if e.min_delta:
            bottom.axvline(100 * e.min_delta, color=svg.MUTED, linewidth=1, linestyle=(0, (3, 3)))
        bottom.set_xlabel("Difference, points")

    words = [f"{_NAMES[key]} {percent(i.value)} ({_ends(i, bare_percent)})" for key, i in rates]
    words += [
        f"difference {name.removeprefix('Difference')} {points(d.value)} ({_ends(d, bare_points)})"
        for name, d in deltas
    ]
    note = f"Bars are 95{NBSP}% intervals."
    if e.min_delta:
        note += f" The dashed line is the smallest gain asked for, {points(e.min_delta)}."
    height = 116 + 34 * (len(rates) + len(deltas))
    return Plot(
        "Accuracy and difference", svg.draw("intervals", paint, height), f"95 % intervals: {'; '.join(words)}.", note
    )


def _ends(interval: Interval, write: Callable[[float], str]) -> str:
    return f"{write(interval.ci_low)} to {write(interval.ci_high)}"


def _interval_rows(
    axes: Axes, names: Sequence[str], values: Sequence[Interval], colours: Sequence[str], write: Callable[[float], str]
) -> None:
    for y, (interval, colour) in enumerate(zip(values, colours, strict=True)):
        axes.plot([100 * interval.ci_low, 100 * interval.ci_high], [y, y], color=colour, linewidth=7, alpha=0.35)
        axes.plot([100 * interval.value], [y], "o", color=colour, markersize=8)
        axes.annotate(
            write(interval.value),
            (100 * interval.value, y),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontweight="bold",
        )
    axes.set_ylim(len(values) - 0.6, -0.95)  # the first row on top
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelcolor=svg.INK)
    axes.grid(False, axis="y")
    axes.grid(True, axis="x")
    axes.margins(x=0.14)
    axes.xaxis.set_major_formatter(lambda v, _: quantity(round(v, 6)))
    axes.locator_params(axis="x", nbins=6)


def reward(t: Training) -> Plot | None:
    """The mean reward of each step, and its smoothed course."""
    curve = [p for p in t.curve if is_finite(p.reward)]
    if len(curve) < 2:
        return None
    steps, values = [p.step for p in curve], [p.reward for p in curve]
    smooth, window = smoothed(values)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        single = window > 1
        axes.plot(steps, values, color=svg.AFTER, linewidth=1, alpha=0.4 if single else 1)
        if single:
            axes.plot(steps, smooth, color=svg.AFTER, linewidth=2.4)
        _step_axis(axes)
        if t.resumed_from is not None:
            axes.axvline(t.resumed_from, color=svg.MUTED, linewidth=1, linestyle=(0, (3, 3)))
        axes.set_xlabel("Step")

    note = (
        f"Mean over the batch. Thin: each step; thick: mean of {window} steps."
        if window > 1
        else "Mean over the batch, each step."
    )
    if t.resumed_from is not None:
        note += f" The dashed line is where training was resumed (step {t.resumed_from:,})."
    words = f"Mean reward over {len(steps)} steps, smoothed: from {decimal(smooth[0], 3)} to {decimal(smooth[-1], 3)}."
    return Plot("Reward in training", svg.draw("reward", paint), words, note)


def reward_parts(t: Training) -> Plot | None:
    """The smoothed course of each part of the reward."""
    names = list(dict.fromkeys(name for p in t.curve for name in p.reward_parts))[: len(svg.PARTS)]
    lines: list[tuple[str, list[int], list[float]]] = []
    for name in names:
        at = [(p.step, p.reward_parts[name]) for p in t.curve if is_finite(p.reward_parts.get(name))]
        if len(at) >= 2:
            lines.append((name, [s for s, _ in at], smoothed([v for _, v in at])[0]))
    if not lines:
        return None

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for (_, steps, values), colour in zip(lines, svg.PARTS, strict=False):
            axes.plot(steps, values, color=colour, linewidth=2.2)
        _step_axis(axes)
        axes.set_xlabel("Step")

    words = "; ".join(f"{label(n)} from {decimal(v[0], 3)} to {decimal(v[-1], 3)}" for n, _, v in lines)
    legend = [(f"--part-{i}", label(n)) for i, (n, _, _) in enumerate(lines, 1)]
    return Plot(
        "Parts of the reward",
        svg.draw("parts", paint),
        f"Parts of the reward over steps, smoothed: {words}.",
        "",
        legend,
    )


def _series(t: Training, name: str, title: str, unit: str) -> Plot | None:
    def value_of(p: TrainPoint) -> float | None:
        value: float | None = getattr(p, name)
        return value

    at = [(p.step, v) for p in t.curve if (v := value_of(p)) is not None and is_finite(v)]
    if len(at) < 2:
        return None
    values = [v for _, v in at]
    smooth, window = smoothed(values)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot([s for s, _ in at], values, color=svg.INK, linewidth=1, alpha=0.35)
        axes.plot([s for s, _ in at], smooth, color=svg.INK, linewidth=2)
        _step_axis(axes)
        axes.set_xlabel("Step")

    note = (
        f"{unit[:1].upper()}{unit[1:]}; thick: mean of {window} steps."
        if window > 1
        else f"{unit[:1].upper()}{unit[1:]}, each step."
    )
    words = f"{title} ({unit}) over {len(at)} steps, smoothed: from {quantity(smooth[0])} to {quantity(smooth[-1])}."
    return Plot(title, svg.draw(name.replace("_", "-"), paint, 200), words, note)


def loss(curve: LossCurve) -> Plot | None:
    """The loss over steps, and thin lines where the number of workers changed.

    It is not smoothed: a mean over steps would hide how steeply a loss begins, and how it jumps with the workers.
    """
    at = [p for p in curve.points if is_finite(p.loss)]
    if len(at) < 2:
        return None
    changes = _changes(curve.groups)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot([p.step for p in at], [p.loss for p in at], color=svg.AFTER, linewidth=1.8)
        _step_axis(axes)
        axes.set_xlabel("Step")
        for change in changes:
            axes.axvline(change.from_step, color=svg.MUTED, linewidth=0.8)
        if len(changes) <= _LABELLED:
            _name_changes(axes, changes)

    spread = curve.points[-1].step - curve.points[0].step + 1
    shown = "each step" if len(curve.points) == spread else f"{len(curve.points)} of {spread:,} steps"
    note = f"Mean over the batch, {shown}."
    if broken := len(curve.points) - len(at):
        note += f" In {count(broken, 'more step')} the loss was not a number."
    told = [_told(change) for change in changes]
    if len(changes) > _LABELLED:
        sizes = [group.workers for group in curve.groups]
        told = [f"the number of workers changed {len(changes)} times, between {min(sizes)} and {max(sizes)}"]
        note += f" Lines: {told[0]}."
    ends = f"Loss from {decimal(at[0].loss, 3)} in step {at[0].step:,} to {decimal(at[-1].loss, 3)} in step {at[-1].step:,}"
    return Plot("Loss in training", svg.draw("loss", paint, 300), f"{'; '.join([ends, *told])}.", note)


def _changes(groups: Sequence[WorkerGroup]) -> list[WorkerGroup]:
    """The groups that had another number of workers than those whose steps come before theirs.

    A group leaves no step behind when a later one begins no later than it did.
    """
    kept = [g for i, g in enumerate(groups) if all(g.from_step < later.from_step for later in groups[i + 1 :])]
    return [after for before, after in itertools.pairwise(kept) if after.workers != before.workers]


def _name_changes(axes: Axes, changes: Sequence[WorkerGroup]) -> None:
    """Writes beside each line how many workers went on: above the curve, each in a row of its own."""
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.07 * len(changes) * (high - low))
    for row, change in enumerate(changes):
        late = change.from_step > (left + right) / 2
        axes.annotate(
            _told(change),
            (change.from_step, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-4 if late else 4, -15 * row),
            textcoords="offset points",
            ha="right" if late else "left",
            va="top",
            fontsize=11.5,
            color=svg.MUTED,
            bbox={"facecolor": svg.PAPER, "edgecolor": "none", "pad": 1},  # the lines of others pass behind
        )


def _told(group: WorkerGroup) -> str:
    return f"{count(group.workers, 'worker')} from step {group.from_step:,}"


def lengths(e: Evaluation) -> Plot | None:
    """How long completions were, as the share of completions in each bin of tokens."""
    bins = e.length_bins
    series = [
        (key, counts)
        for key, counts in e.length_histogram.items()
        if key in _NAMES and len(counts) == len(bins) - 1 and sum(counts) > 0
    ]
    if not series:
        return None

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for key, counts in series:
            total = sum(counts)
            shares = [100 * c / total for c in counts]
            axes.stairs(shares, bins, fill=True, color=_COLOURS[key], alpha=0.22)
            axes.stairs(shares, bins, color=_COLOURS[key], linewidth=1.8)
        axes.margins(x=0)
        axes.set_xlabel("Tokens in a completion")
        axes.set_ylabel("Completions, %")
        axes.locator_params(axis="y", nbins=5, integer=True)

    means = {"before": e.before.mean_tokens, "after": e.after.mean_tokens}
    if e.champion is not None:
        means["champion"] = e.champion.mean_tokens
    words = "; ".join(f"{_NAMES[key]}: {decimal(means.get(key))} tokens on average" for key, _ in series)
    legend = [(f"--{key}", _NAMES[key]) for key, _ in series]
    height = 116 + 34 * (4 if e.delta_vs_champion is None else 5) - 30
    return Plot(
        "Length of completions", svg.draw("lengths", paint, height), f"Histogram of lengths. {words}.", "", legend
    )


def smoothed(values: Sequence[float]) -> tuple[list[float], int]:
    """Returns the centred moving mean and its window: a tenth of the points, odd, at least 3; 1 below 6 points.

    At both ends the window holds only the points that are there.
    """
    n = len(values)
    window = 1 if n < 6 else max(3, n // 10 | 1)
    half = window // 2
    parts = [values[max(0, i - half) : i + half + 1] for i in range(n)]
    return [sum(part) / len(part) for part in parts], window


def _step_axis(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(lambda v, _: quantity(round(v, 6)))
    axes.margins(x=0.01)


def _whole(*values: float) -> bool:
    return all(is_finite(v) for v in values)
