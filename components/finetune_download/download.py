"""Download: the model and the instructions, pinned.

In: a `FinetunePlan`. Out: a Hugging Face directory in the store (shared by all runs of the same revision), and the
instructions of this run as parquet. A model that is there and complete is not fetched again.
"""

from __future__ import annotations

from components import storage
from components.progress import say
from components.ray_plan import FinetunePlan
from components.sources import instructions, model
from components.stage import StageResult


def download(plan: FinetunePlan) -> StageResult:
    """Returns the records `model` and `dataset`."""
    config = plan.config
    stamp = {"run_id": plan.run_id, "config_sha256": plan.config_sha256}
    say("download", f"{config.model.source} at {plan.model_revision[:12]}")
    fetched = model.fetch_model(config.model.source, plan.model_revision, plan.model_dir, **stamp)
    dataset = instructions.fetch(
        config.data,
        storage.join(plan.stage_dir("download"), "dataset"),
        config.seed,
        need=config.examples_per_step,
        **stamp,
    )
    return StageResult(
        records={"model": fetched, "dataset": dataset}, note=f"{dataset.extra['rows']} instructions with responses"
    )
