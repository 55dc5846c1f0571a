from kfp.dsl import Input, Output

from components.artifacts import EvaluationResult, HFModel, MaxTextCheckpoint, Publication, Questions, RunPlan
from components.component import stage_component


@stage_component()
def publish(
    plan: Input[RunPlan],
    trained: Input[MaxTextCheckpoint],
    exported: Input[HFModel],
    evaluation: Input[EvaluationResult],
    dataset: Input[Questions],
    published: Output[Publication],
) -> None:
    """Publishes a model with the verdict PROMOTE and makes it the champion; leaves any other where it is."""
    from components.publish.publish import publish as work
    from components.stage import run_stage

    inputs = {"trained": trained, "exported": exported, "evaluation": evaluation, "dataset": dataset}
    run_stage(work, "publish", plan, inputs=inputs, outputs={"published": published})
