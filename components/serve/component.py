from kfp.dsl import Input, Metrics, Output

from components.artifacts import EvaluationResult, HFModel, Questions, RunPlan, ServingResult
from components.component import stage_component


@stage_component()
def serve(
    plan: Input[RunPlan],
    exported: Input[HFModel],
    model: Input[HFModel],
    evaluation: Input[EvaluationResult],
    dataset: Input[Questions],
    serving: Output[ServingResult],
    metrics: Output[Metrics],
) -> None:
    """Serves the exported model with vLLM and shows that it is the trained one: passed, or not run for lack of vLLM."""
    from components.serve.serve import serve as work
    from components.stage import run_stage

    inputs = {"exported": exported, "model": model, "evaluation": evaluation, "dataset": dataset}
    run_stage(work, "serve", plan, inputs=inputs, outputs={"serving": serving, "metrics": metrics})
