"""Report: the page and `run.json`, from what the stages before it left. In: a `Plan`. Out: the page as HTML artifact."""

from __future__ import annotations

from datetime import UTC, datetime

from components.plan import Plan
from components.record import ArtifactRecord
from components.report.assemble import assemble, write
from components.stage import StageResult


def report(plan: Plan, evaluation: ArtifactRecord, exported: ArtifactRecord) -> StageResult:
    """Writes the report; its inputs are there so that it comes after them."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(plan.attempt_started)).total_seconds()
    page = write(plan, assemble(plan, status="succeeded", seconds=seconds))
    return StageResult(files={"page": page}, note="report.html")
