"""Download: the model and the instructions, pinned.

In: a `FinetunePlan`. Out: a Hugging Face directory in the store (shared by all runs of the same revision), and the
instructions of this run as parquet. A model that is there and complete is not fetched again. Modules that are to be frozen
and that the model does not have are a UserError.
"""

from __future__ import annotations

from components import storage
from components.progress import say
from components.ray_plan import FinetunePlan
from components.sources import frozen, instructions, model
from components.stage import StageResult


def download(plan: FinetunePlan) -> StageResult:
    """Returns the records `model` and `dataset`."""
    config = plan.config
    stamp = {"run_id": plan.run_id, "config_sha256": plan.config_sha256}
    say("download", f"{config.model.source} at {plan.model_revision[:12]}")
    fetched = model.fetch_model(config.model.source, plan.model_revision, plan.model_dir, **stamp)
    frozen.check(config.model.frozen, fetched.data_uri)
    dataset = instructions.fetch(
        config.data,
        storage.join(plan.stage_dir("download"), "dataset"),
        config.seed,
        need=config.examples_per_step,
        **stamp,
    )
    return StageResult(
        records={"model": fetched, "dataset": dataset}, note=_said(dataset.extra["rows"], dataset.extra.get("left_out"))
    )


def _said(rows: str | float, left_out: str | float | None) -> str:
    if not left_out:
        return f"{rows} instructions with responses"
    return (
        f"{rows} instructions of {float(rows) + float(left_out):.0f} rows, {left_out} without instruction or response"
    )
