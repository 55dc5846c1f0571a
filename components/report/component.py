from kfp.dsl import HTML, Input, Output

from components.artifacts import EvaluationResult, HFModel, RunPlan
from components.component import stage_component


@stage_component()
def report(
    plan: Input[RunPlan], evaluation: Input[EvaluationResult], exported: Input[HFModel], page: Output[HTML]
) -> None:
    """Writes the page that says whether the model got better, how sure that is, what it cost and where the model is."""
    from components.report.report import report as work
    from components.stage import run_stage

    run_stage(work, "report", plan, inputs={"evaluation": evaluation, "exported": exported}, outputs={"page": page})
