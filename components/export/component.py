from kfp.dsl import Input, Metrics, Output

from components.artifacts import EvaluationResult, HFModel, MaxTextCheckpoint, RunPlan
from components.component import stage_component


@stage_component()
def export(
    plan: Input[RunPlan],
    trained: Input[MaxTextCheckpoint],
    model: Input[HFModel],
    evaluation: Input[EvaluationResult],
    exported: Output[HFModel],
    metrics: Output[Metrics],
) -> None:
    """Writes the trained weights as a Hugging Face directory and shows that they are the trained ones."""
    from components.export.export import export as work
    from components.stage import run_stage

    inputs = {"trained": trained, "model": model, "evaluation": evaluation}
    run_stage(work, "export", plan, inputs=inputs, outputs={"exported": exported, "metrics": metrics})
