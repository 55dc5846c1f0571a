from kfp.dsl import Input, Metrics, Output

from components.artifacts import HFModel, Instructions, RayCheckpoint, RunPlan
from components.component import stage_component


@stage_component()
def finetune(
    plan: Input[RunPlan],
    model: Input[HFModel],
    dataset: Input[Instructions],
    tuned: Output[RayCheckpoint],
    metrics: Output[Metrics],
) -> None:
    """Fine-tunes with FSDP2 under Ray Train; continues from the last checkpoint of the same run."""
    from components.finetune.finetune import finetune as work
    from components.stage import run_stage

    inputs = {"model": model, "dataset": dataset}
    run_stage(work, "finetune", plan, inputs=inputs, outputs={"tuned": tuned, "metrics": metrics})
