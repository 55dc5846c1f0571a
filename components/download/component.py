from kfp.dsl import Input, Output

from components.artifacts import HFModel, Questions, RunPlan
from components.component import stage_component


@stage_component()
def download(plan: Input[RunPlan], model: Output[HFModel], dataset: Output[Questions]) -> None:
    """Fetches the model and the questions, pinned by revision; what is there already is not fetched again."""
    from components.download.download import download as work
    from components.stage import run_stage

    run_stage(work, "download", plan, inputs={}, outputs={"model": model, "dataset": dataset})
