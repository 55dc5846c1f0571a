from kfp.dsl import Input, Metrics, Output

from components.artifacts import RunPlan
from components.component import stage_component


@stage_component()
def collectives(plan: Input[RunPlan], metrics: Output[Metrics]) -> None:
    """Checks every device before anything is trained: sharded computation and all-reduce against a CPU."""
    from components.collectives.collectives import collectives as work
    from components.stage import run_stage

    run_stage(work, "collectives", plan, inputs={}, outputs={"metrics": metrics})
