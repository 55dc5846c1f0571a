"""Renders the page.

In: a `RunRecord`, the configuration as YAML text, the lineage as dicts. Out: one HTML document with everything inside
it (styles, plots), that asks nothing of the network and says the same bytes for the same input. Texts of models and
of users are escaped. What a run did not get to is left out; only an unwritable path fails (OSError).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from components.report import facts, figures, flips, formats, headline, plots, table
from components.report.lineage import entries
from components.results import Evaluation, RunRecord

_FOLDER = Path(__file__).parent


def render(run: RunRecord, config_yaml: str, lineage: list[dict[str, Any]]) -> str:
    """Returns the report of a run as one self-contained HTML page.

    Args:
      run: the record of the run; every optional part may be missing.
      config_yaml: the resolved configuration, shown as it is.
      lineage: one dict per artifact: `kind`, `uri`, `parents` (or `data_uri`, `parent_uris`),
        `base_model_id`, `base_model_revision`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=formats.duration, label=formats.label, quantity=formats.quantity, percent=formats.percent
    )
    e = run.evaluation
    config = facts.read_config(config_yaml)
    page = environment.get_template("page.html.jinja").render(
        run=run,
        head=headline.headline(run),
        failure=headline.failure(run),
        hero=_hero(e) if e else None,
        certainty=headline.certainty(e) if e else [],
        date=facts.date(run.started),
        cost=facts.cost(run),
        model=facts.model_place(run),
        origin=facts.origin(run, config, lineage),
        shipped=facts.shipped(run),
        notes=facts.notes(run),
        plots=[_safe(p) for p in plots.of_evaluation(e)] if e else [],
        training_plots=[_safe(p) for p in plots.of_training(run.training)] if run.training else [],
        loss_plot=_safe(loss) if run.loss and (loss := plots.loss(run.loss)) else None,
        figures=figures.groups(run.metrics),
        parity_share=formats.fine_percent(run.parity.max_abs_diff / run.parity.range)
        if run.parity and run.parity.range
        else "",
        parity_allowed=formats.fine_percent(run.parity.tolerance) if run.parity else "",
        groups=table.groups(e) if e else [],
        flips=_flips(e) if e else [],
        longest=max((s.seconds for s in run.stages), default=0.0),
        config_yaml=config_yaml.strip(),
        lineage=entries(lineage),
    )
    # a model can emit half a surrogate pair, which no file in UTF-8 can hold
    return page.encode("utf-8", errors="replace").decode()


def write_report(run: RunRecord, config_yaml: str, lineage: list[dict[str, Any]], path: str | Path) -> Path:
    """Writes the page to `path` (its folder is made) and returns it. Raises OSError when the path cannot be written."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(run, config_yaml, lineage), encoding="utf-8")
    return target


def _hero(e: Evaluation) -> dict[str, str]:
    return {
        "before": formats.percent(e.before.accuracy),
        "after": formats.percent(e.after.accuracy),
        "delta": formats.points(e.delta.value),
        "low": formats.bare_points(e.delta.ci_low),
        "high": formats.bare_points(e.delta.ci_high),
    }


def _flips(e: Evaluation) -> list[dict[str, Any]]:
    sides = (
        ("improved", "Wrong before, right after", e.improved),
        ("regressed", "Right before, wrong after", e.regressed),
    )
    return [
        {"key": key, "title": title, "total": len(side), "shown": flips.shown(side, e.samples_per_question)}
        for key, title, side in sides
    ]


def _safe(plot: plots.Plot) -> dict[str, Any]:
    # the SVG is ours: matplotlib escapes the texts in it
    return {"title": plot.title, "svg": Markup(plot.svg), "label": plot.label, "note": plot.note, "legend": plot.legend}
