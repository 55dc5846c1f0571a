"""Fine-tuning with PyTorch under Ray: check the devices, fine-tune with FSDP2, export.

Reads as prose, top to bottom. `build` returns the pipeline with a preset's configuration as the default of its one
configuration value, as grpo.py does.
"""

from kfp import dsl

from components.collectives.component import collectives
from components.finetune.component import finetune
from components.finetune_download.component import download
from components.finetune_export.component import export
from components.prepare.component import prepare
from components.ray_config import RayFinetuneConfig
from components.report.component import report

NAME = "ray-finetuning"


def build(config: RayFinetuneConfig) -> dsl.base_component.BaseComponent:
    """Returns the fine-tuning pipeline of a preset."""
    defaults = config.model_dump_json()

    @dsl.pipeline(name=NAME, description=config.description)
    def ray_finetune(
        config: str = defaults, overrides: str = "", run_id: str = "", output: str = "", store: str = ""
    ) -> None:
        """Checks every device of the slice, fine-tunes a model on instructions, and exports it to Hugging Face format.

        Args:
            config: The complete configuration as JSON.
            overrides: Settings to change, as key=value, one per line, for example finetune.epochs=1.
            run_id: Name of the run; empty takes the pipeline run's own identity.
            output: Where the run writes; empty is runs/<run id> below the store.
            store: Root of what runs share: models and the list of runs.
        """
        place = {
            "config": config,
            "overrides": overrides,
            "job_id": dsl.PIPELINE_JOB_ID_PLACEHOLDER,
            "run_id": run_id,
            "output": output,
            "store": store,
        }
        page = report(**place)

        with dsl.ExitHandler(page, name="fine-tune"):
            planned = prepare(**place)
            plan = planned.outputs["plan"]

            source = download(plan=plan)
            model, instructions = source.outputs["model"], source.outputs["dataset"]

            checked = collectives(plan=plan).after(source)

            tuned = finetune(plan=plan, model=model, dataset=instructions).after(checked)

            exported = export(plan=plan, tuned=tuned.outputs["tuned"], model=model, dataset=instructions)

        for task in (planned, source, checked, tuned, exported, page):
            task.set_caching_options(False)

    return ray_finetune
