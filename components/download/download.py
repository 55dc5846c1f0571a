"""Download: the model and the questions, pinned.

In: a `Plan`. Out: a Hugging Face directory in the store (shared by all runs of the same revision) and the questions of
this run as parquet. A model that is there and complete is not fetched again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from components import champion, storage
from components.fetch import TOKENIZER_FILES, fetch
from components.plan import Plan
from components.progress import say
from components.record import ArtifactRecord
from components.sources import dataset, fit, model, sizes
from components.stage import StageResult


def download(plan: Plan) -> StageResult:
    """Fetches model and questions; returns the records `model` and `dataset`."""
    config = plan.config
    stamp = {"run_id": plan.run_id, "config_sha256": plan.config_sha256}
    say("download", f"{config.model.source} at {plan.model_revision[:12]}")
    fetched = model.fetch_model(config.model.source, plan.model_revision, plan.model_dir, **stamp)
    questions = dataset.fetch_dataset(
        config.data,
        storage.join(plan.stage_dir("download"), "dataset"),
        config.seed,
        need_train=config.train.batch_size,
        need_eval=config.evaluate.questions,
        **stamp,
    )
    if plan.champion:
        champion.refuse_seen(plan.champion, config, questions.data_uri)
    if config.train.reward_file and plan.reward_file and plan.reward_file != config.train.reward_file:
        storage.copy_file(config.train.reward_file, plan.reward_file)
    sizes.check(plan.model_dir, config.model.name, config.model.sizes)
    if fit.tokenizer_at_hand(config.model.source) is None:  # else it was checked before the run began
        check_fit(plan, questions)
    return StageResult(
        records={"model": fetched, "dataset": questions},
        note=f"{questions.extra['train_rows']} questions to train on, {questions.extra['eval_rows']} held out",
    )


def check_fit(plan: Plan, questions: ArtifactRecord) -> None:
    """Raises UserError when the questions' prompts do not fit the context."""
    train, held_out = (dataset.read(questions.data_uri, side)["question"].tolist() for side in ("train", "eval"))
    with tempfile.TemporaryDirectory() as scratch:
        fit.check_prompts(
            fetch(plan.model_dir, Path(scratch), TOKENIZER_FILES),
            storage.read_text(storage.join(questions.data_uri, "template.json")),
            train,
            held_out[: plan.config.evaluate.questions],
            room=plan.config.train.max_prompt_tokens,
            need_train=plan.config.train.batch_size,
        )
