"""A lineage as a page: one HTML document with everything in it, that asks nothing of the network and needs no script.

In: a `Lineage`. Out: a file. It has the styles of a run's report. Names and addresses are escaped. A place that cannot
be written is a UserError.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from components.errors import UserError
from components.report import facts, formats
from components.report.facts import Fact
from components.report.lineage import details
from components.results import Verdict
from pipelines.lineage import words
from pipelines.lineage.graph import Lineage
from pipelines.lineage.lanes import rows
from pipelines.lineage.records import SOURCE
from pipelines.summary import verdict_line

_REPORT = Path(facts.__file__).parent
_WIDEST = 150  # pixels for all columns: what a phone can spare
_COLUMN = 20
_TONES = {Verdict.PROMOTE: "good", Verdict.HOLD: "wait", Verdict.REJECT: "bad", Verdict.INVALID: "void"}


def write(lineage: Lineage, file: Path) -> None:
    """Writes the page of a lineage."""
    try:
        file.write_text(render(lineage), encoding="utf-8")
    except OSError as error:
        raise UserError(f"Nothing can be written to {file} ({error.strerror}): choose another --html.") from error


def render(lineage: Lineage) -> str:
    """Returns the page of a lineage."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, _REPORT]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        label=formats.label,
        count=formats.count,
        details=details,
        short=words.short,
        title=words.title,
        trouble=words.trouble,
    )
    drawn = rows(lineage)
    columns = 1 + max(row.column for row in drawn)
    return environment.get_template("lineage.html.jinja").render(
        lineage=lineage,
        lede=_lede(lineage),
        facts=_facts(lineage),
        rows=drawn,
        columns=columns,
        step=min(_COLUMN, _WIDEST // columns),
        tones=_TONES,
        troubled=[row for row in drawn if row.node.problem],
    )


def _lede(lineage: Lineage) -> str:
    sources = sum(lineage.nodes[uri].kind == SOURCE for uri in lineage.above)
    steps = {"source": sources, "artifact": len(lineage.above) - sources}
    above = " by way of ".join(formats.count(n, noun) for noun, n in steps.items() if n)
    below = formats.count(len(lineage.below), "artifact") if lineage.below else "nothing"
    return f"Made from {above or 'nothing'}, above it; {below} made from it, below."


def _facts(lineage: Lineage) -> list[Fact]:
    root, run = lineage.root, lineage.run
    found = [Fact("Address", root.uri, code=True)]
    if run:
        found += [Fact("Run", run.run_id, code=True), Fact("Started", facts.date(run.started))]
        if run.record and root.verdict:
            found.append(Fact("Verdict", verdict_line(run.record)))
    if made := root.record:
        if made.base_model_id:
            found.append(Fact("Base model", f"{made.base_model_id} at {made.base_model_revision}"))
        found += [Fact("Code", made.code_version, code=True), Fact("Configuration", made.config_sha256, code=True)]
    return [*found, Fact("Searched", f"{formats.count(lineage.runs, 'run')} in {lineage.store}")]
