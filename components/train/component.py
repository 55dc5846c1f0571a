from kfp.dsl import Input, Metrics, Output

from components.artifacts import HFModel, MaxTextCheckpoint, Questions, Rollouts, RunPlan
from components.component import stage_component


@stage_component()
def train(
    plan: Input[RunPlan],
    checkpoint: Input[MaxTextCheckpoint],
    model: Input[HFModel],
    dataset: Input[Questions],
    trained: Output[MaxTextCheckpoint],
    rollouts: Output[Rollouts],
    metrics: Output[Metrics],
) -> None:
    """Trains with GRPO on verifiable rewards; continues from the latest complete checkpoint of the same run."""
    from components.stage import run_stage
    from components.train.train import train as work

    inputs = {"checkpoint": checkpoint, "model": model, "dataset": dataset}
    run_stage(
        work, "train", plan, inputs=inputs, outputs={"trained": trained, "rollouts": rollouts, "metrics": metrics}
    )
