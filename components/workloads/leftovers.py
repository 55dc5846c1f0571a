"""Ends what a run has left in the cluster because a launcher was lost before it could.

In: the parameters of the pipeline, for at exit there may be nothing else: no plan where `prepare` refused, no outputs
of tasks that failed. Out: the plan, if the run made one. It never fails a run. What it cannot reach ends by itself once
it has heard nothing of its launcher for `cluster.silence_s`; that bound also serves where no exit task runs, as on a KFP
run that was cancelled.
"""

from __future__ import annotations

import json
from functools import partial

from pydantic import ValidationError

from components import storage
from components.config import parse
from components.errors import UserError
from components.plan import PLAN, AnyPlan, run_directory
from components.progress import say
from components.stage import STAGES
from components.workloads import ledger

_say = partial(say, "clean-up")


def clean_up(*, config: str, overrides: str, job_id: str, run_id: str, output: str, store: str) -> AnyPlan | None:
    """Ends what is left of the run with these parameters of the pipeline; returns its plan, if it made one."""
    plan = None
    try:
        root = store or ("" if output else _store(config, overrides))
        directory = run_directory(output, root, run_id or job_id)
        plan = _plan(directory, run_id or job_id)
        for line in _ended(plan) if plan else ["the run made no plan"]:
            _say(line)
    except UserError as error:
        _say(f"what the run may have in the cluster ends itself: {error}")
    return plan


def _store(config: str, overrides: str) -> str:
    try:
        store = parse(json.loads(config), overrides.split("\n") if overrides.strip() else []).store
    except ValueError as error:
        raise UserError(f"The configuration is no JSON ({error}).") from error
    if not store:
        raise UserError("The run has no store.")
    return store


def _plan(directory: str, run_id: str) -> AnyPlan | None:
    """The plan of this very run, if `prepare` made one; in a directory that was occupied lies that of another."""
    place = storage.join(directory, PLAN)
    if not storage.exists(place):
        return None
    try:
        plan = AnyPlan.parse(storage.read_bytes(place))
    except ValidationError:  # of another version, so of another run
        return None
    return plan if plan.run_id == run_id else None


def _ended(plan: AnyPlan) -> list[str]:
    """Ends what is under way; returns what there is to say. A failed workload has ended, and stays to be looked at."""
    if plan.config.engine == "process":
        return []
    if plan.config.cluster.detached:
        return ["detached: what it has in the cluster goes on"]
    if not any(ledger.opened(plan.stage_dir(stage)) for stage in STAGES):
        return ["nothing is left"]
    from components.workloads import launch

    return launch.cancel(plan)
