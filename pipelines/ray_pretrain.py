"""Pre-training with MaxText under Ray Train: fixed slices, or elastic on Spot.

Reads as prose, top to bottom. `build` returns the pipeline with a preset's configuration as the default of its one
configuration value, as grpo.py does.
"""

from kfp import dsl

from components.prepare.component import prepare
from components.pretrain.component import pretrain
from components.ray_config import RayPretrainConfig
from components.report.component import report

NAME = "ray-pretraining"


def build(config: RayPretrainConfig) -> dsl.base_component.BaseComponent:
    """Returns the pre-training pipeline of a preset."""
    defaults = config.model_dump_json()

    @dsl.pipeline(name=NAME, description=config.description)
    def ray_pretrain(
        config: str = defaults, overrides: str = "", run_id: str = "", output: str = "", store: str = ""
    ) -> None:
        """Trains a model with MaxText on slices that Ray holds, and keeps its checkpoint.

        Args:
            config: The complete configuration as JSON.
            overrides: Settings to change, as key=value, one per line, for example pretrain.steps=40.
            run_id: Name of the run; empty takes the pipeline run's own identity.
            output: Where the run writes; empty is runs/<run id> below the store.
            store: Root of what runs share: the list of runs.
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

        with dsl.ExitHandler(page, name="pre-train"):
            planned = prepare(**place)

            trained = pretrain(plan=planned.outputs["plan"])

        for task in (planned, trained, page):
            task.set_caching_options(False)

    return ray_pretrain
