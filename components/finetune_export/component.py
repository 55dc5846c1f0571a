from kfp.dsl import Input, Metrics, Output

from components.artifacts import HFModel, Instructions, RayCheckpoint, RunPlan
from components.component import stage_component


@stage_component()
def export(
    plan: Input[RunPlan],
    tuned: Input[RayCheckpoint],
    model: Input[HFModel],
    dataset: Input[Instructions],
    exported: Output[HFModel],
    metrics: Output[Metrics],
) -> None:
    """Writes the fine-tuned weights as a Hugging Face directory and shows that they are the fine-tuned ones."""
    from components.finetune_export.export import export as work
    from components.stage import run_stage

    inputs = {"tuned": tuned, "model": model, "dataset": dataset}
    run_stage(work, "export", plan, inputs=inputs, outputs={"exported": exported, "metrics": metrics})
