"""Report: the exit task. It ends what the run has left in the cluster, then writes the page and `run.json` from what the
stages left, and tells the webhook of a run that got to its end (a stage that fails tells it itself).

In: the parameters of the pipeline, for a run that failed has no more. Out: `report.html` and `run.json` in the run's
directory, and the page as artifact. The run succeeded when every stage says so.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components import notify, secrets
from components.plan import AnyPlan
from components.report.assemble import assemble, write
from components.stage import StageResult, keep
from components.workloads import leftovers

_NO_PLAN = "<p>The run made no plan: the log of its task <b>prepare</b> says why.</p>\n"


def report_stage(*, config: str, overrides: str, job_id: str, run_id: str, output: str, store: str, page: Any) -> None:
    """The component's body; the parameters are those of `prepare`."""
    started = time.monotonic()
    plan = leftovers.clean_up(
        config=config, overrides=overrides, job_id=job_id, run_id=run_id, output=output, store=store
    )
    Path(page.path).parent.mkdir(parents=True, exist_ok=True)
    Path(page.path).write_text(_page(plan) if plan else _NO_PLAN)
    if plan:
        keep(plan.run_dir, "report", time.monotonic() - started, StageResult(note="report.html"))


def _page(plan: AnyPlan) -> str:
    secrets.use(plan.config)
    seconds = (datetime.now(UTC) - datetime.fromisoformat(plan.attempt_started)).total_seconds()
    run = assemble(plan, seconds=seconds)
    page = write(plan, run)
    if run.status == "succeeded":
        notify.finished(run)
    return page
