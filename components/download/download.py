"""Download: the model and the questions, pinned.

In: a `Plan`. Out: a Hugging Face directory in the store (shared by all runs of the same revision) and the questions of this run as parquet. A model
that is there and complete is not fetched again.
"""

from __future__ import annotations

from components import manifest, storage
from components.download import dataset, model
from components.plan import Plan
from components.progress import say
from components.stage import StageResult


def download(plan: Plan) -> StageResult:
    """Fetches model and questions; returns the records `model` and `dataset`."""
    config = plan.config
    if manifest.is_complete(plan.model_dir):
        say("download", f"model {config.model.source} is in the store")
    else:
        say("download", f"fetching {config.model.source} at {plan.model_revision[:12]}")
    fetched = model.fetch_model(config.model.source, plan.model_revision, plan.model_dir)
    questions = dataset.fetch_dataset(
        config.data,
        storage.join(plan.stage_dir("download"), "dataset"),
        config.seed,
        need_train=config.train.batch_size,
        need_eval=config.evaluate.questions,
    )
    stamp = {"run_id": plan.run_id, "code_version": plan.code_version, "config_sha256": plan.config_sha256}
    return StageResult(
        records={"model": fetched.model_copy(update=stamp), "dataset": questions.model_copy(update=stamp)},
        note=f"{questions.extra['train_rows']} questions to train on, {questions.extra['eval_rows']} held out",
    )
