"""Runs a stage's workload on the engine that the configuration names."""

from __future__ import annotations

from components import storage
from components.plan import AnyPlan
from components.workloads import environment, process
from components.workloads.workload import OnLine, Outcome, Workload


def run(plan: AnyPlan, workload: Workload, on_line: OnLine | None = None) -> Outcome:
    """Runs `workload` to its end; its lines are printed after the stage's name, and given to `on_line`.

    Raises:
      WorkloadError: it failed; the reason says why and what to do.
    """

    def heard(line: str) -> None:
        print(f"{workload.stage} | {line}", flush=True)
        if on_line:
            on_line(line)

    if plan.config.engine == "process":
        log = storage.join(plan.stage_dir(workload.stage), f"log-{plan.attempt}.txt")
        return process.run(workload, log, heard, env=environment.compile_cache(plan))
    from components.workloads.launch import run as launch

    return launch(plan, workload, heard)
