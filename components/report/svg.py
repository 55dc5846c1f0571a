"""Matplotlib figures as inline SVG that follows the page: its colours, its font, its width.

In: a function that draws into a `Figure`. Out: one `<svg>` element as text, the same bytes every time. Colours are
drawn with stand-ins (`INK`, `BEFORE`, ...) that become CSS variables, so one plot serves light, dark and print. Text
stays text. matplotlib is imported when the first plot is drawn: a page without plots does not pay for it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#010203"
MUTED = "#010204"
LINE = "#010205"
BEFORE = "#010206"
AFTER = "#010207"
CHAMPION = "#010208"
PAPER = "#01020f"
PARTS = ("#010209", "#01020a", "#01020b", "#01020c", "#01020d", "#01020e")

_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    BEFORE: "var(--before)",
    AFTER: "var(--after)",
    CHAMPION: "var(--champion)",
    PAPER: "var(--paper)",
    **{colour: f"var(--part-{i})" for i, colour in enumerate(PARTS, 1)},
}

WIDTH, HEIGHT = 400, 240  # user units; a font size of 12 is 12 px when the plot is 400 px wide

_RC = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # names of rewards are a user's text, a dollar sign is no formula
    "axes.unicode_minus": True,
    "font.family": "sans-serif",
    "font.size": 12,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "axes.labelsize": 12,
    "xtick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.color": LINE,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 11.5,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
    "axes.linewidth": 0.8,
    "path.simplify": True,
}


def draw(name: str, paint: Callable[[Figure], None], height: int = HEIGHT) -> str:
    """Returns what `paint` draws as an `<svg>` element; `name`, unique on the page, keeps ids of two plots apart."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**_RC, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure)
        buffer = io.BytesIO()
        no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    return _inline(buffer.getvalue().decode(), name)


def _inline(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", r"<svg \1 aria-hidden=\"true\">".replace('\\"', '"'), svg, count=1
    )
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    referenced = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", svg))
    # ids that nothing points to (figure_1, axes_1, ...) would be there once per plot
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in referenced else "", svg)
    svg = re.sub(r"(href=\"#|url\(#)", rf"\g<1>{name}-", svg)
    svg = re.sub(r"#01020[0-9a-f]", lambda m: _VARIABLES[m[0]], svg)
    svg = re.sub(r'd="[^"]*"', lambda m: _short_path(m[0]), svg)
    return re.sub(r">\s+<", "><", svg).strip()


def _short_path(path: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"(\d+\.\d)\d+", r"\1", path)).replace(' "', '"')
