from kfp.dsl import Input, Output

from components.artifacts import HFModel, MaxTextCheckpoint, RunPlan
from components.component import stage_component


@stage_component()
def convert(plan: Input[RunPlan], model: Input[HFModel], checkpoint: Output[MaxTextCheckpoint]) -> None:
    """Converts the weights to MaxText's format, once per identity of source, converter and settings."""
    from components.convert.convert import convert as work
    from components.stage import run_stage

    run_stage(work, "convert", plan, inputs={"model": model}, outputs={"checkpoint": checkpoint})
