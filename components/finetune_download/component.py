from kfp.dsl import Input, Output

from components.artifacts import HFModel, Instructions, RunPlan
from components.component import stage_component


@stage_component()
def download(plan: Input[RunPlan], model: Output[HFModel], dataset: Output[Instructions]) -> None:
    """Fetches the model and the instructions, pinned by revision; what is there already is not fetched again."""
    from components.finetune_download.download import download as work
    from components.stage import run_stage

    run_stage(work, "download", plan, inputs={}, outputs={"model": model, "dataset": dataset})
