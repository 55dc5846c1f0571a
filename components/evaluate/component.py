from kfp.dsl import Input, Metrics, Output

from components.artifacts import EvaluationResult, HFModel, MaxTextCheckpoint, Questions, RunPlan
from components.component import stage_component


@stage_component()
def evaluate(
    plan: Input[RunPlan],
    checkpoint: Input[MaxTextCheckpoint],
    trained: Input[MaxTextCheckpoint],
    model: Input[HFModel],
    dataset: Input[Questions],
    evaluation: Output[EvaluationResult],
    metrics: Output[Metrics],
) -> str:
    """Asks base and trained model the same held-out questions and decides: PROMOTE, HOLD, REJECT or INVALID."""
    from components.evaluate.evaluate import evaluate as work
    from components.stage import run_stage

    inputs = {"checkpoint": checkpoint, "trained": trained, "model": model, "dataset": dataset}
    run_stage(work, "evaluate", plan, inputs=inputs, outputs={"evaluation": evaluation, "metrics": metrics})
    return evaluation.metadata["verdict"]
