from kfp.dsl import Input, Metrics, Output

from components.artifacts import MaxTextCheckpoint, RunPlan
from components.component import stage_component


@stage_component()
def pretrain(plan: Input[RunPlan], trained: Output[MaxTextCheckpoint], metrics: Output[Metrics]) -> None:
    """Trains with MaxText under Ray Train; continues from the latest complete checkpoint of the same run."""
    from components.pretrain.pretrain import pretrain as work
    from components.stage import run_stage

    run_stage(work, "pretrain", plan, inputs={}, outputs={"trained": trained, "metrics": metrics})
