"""Prepare: everything that can be decided, checked and refused before money or time is spent.

In: a configuration and where the run shall live. Out: a `Plan`, with the champion that the run has to beat. Mistakes are
`UserError`s and leave nothing behind. The command line calls `make_plan` too, so that a person sees a mistake at once and
not in the log of the first task.
"""

from __future__ import annotations

import importlib.metadata
import json
import secrets
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components import champion as champions
from components import maxtext_args, ray_prepare, rl_slice, storage, tpu
from components import secrets as known_secrets
from components.config import AnyConfig, Config, parse
from components.errors import UserError
from components.manifest import content_id
from components.plan import PLAN, AnyPlan, Plan, run_directory
from components.progress import say
from components.record import code_version
from components.rewards.functions import check_rewards
from components.sources import check, dataset, fit, hub, model, sizes
from components.stage import StageResult, fail, keep


def new_run_id(preset: str) -> str:
    """A name for a run: preset, UTC time, and four characters against a tie."""
    return f"{preset}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def make_plan(config: AnyConfig, *, run_id: str, run_dir: str, store: str, where: str) -> AnyPlan:
    """Returns the plan of a fresh run.

    Raises:
      UserError: the output is occupied, the source or the data is not usable, a reward function does not exist, the
        champion cannot be compared with, or what is better could not be published.
    """
    known_secrets.use(config)
    refuse_out_of_reach(config, store)
    refuse_occupied(run_dir)
    refuse_unwritable(store, "--store")
    check_inputs(config)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    common = {
        "run_id": run_id,
        "run_dir": run_dir,
        "store": store,
        "config_sha256": config.sha256(),
        "code_version": code_version(),
        "started": now,
        "attempt_started": now,
        "where": where,
    }
    if not isinstance(config, Config):
        return ray_prepare.plan(config, **common)
    check_fit(config)
    check_publishing(config, store)
    slot = config.publish.slot
    champion, champion_version = champions.read(store, slot) if slot else (None, champions.NONE)
    if champion:
        champions.check(champion, config, store)
    revision = model.resolve_revision(config.model.source, config.model.revision)
    return Plan(
        config=config,
        model_revision=revision,
        converted_id=converted_id(config, revision),
        champion=champion,
        champion_version=champion_version,
        **common,
    )


def converted_id(config: Config, revision: str) -> str:
    """Identity of the converted weights: source, converter version, and the settings that change the bytes."""
    return content_id(
        repo_commit=f"{config.model.source}@{revision}",
        converter_version=f"maxtext {importlib.metadata.version('maxtext')}",
        flags={
            "model_name": config.model.name,
            "scan_layers": config.model.scan_layers,
            "dtype": config.model.dtype,
            **config.model.sizes,
        },
    )


def refuse_out_of_reach(config: AnyConfig, store: str) -> None:
    """Raises UserError when pods are to work on what lies on one machine's disk."""
    if config.engine != "process" and storage.is_local(store):
        raise UserError(
            f"engine={config.engine} runs pods, which cannot reach {store}: give --store gs://BUCKET/FOLDER, or set "
            "store: in the preset."
        )


def refuse_occupied(run_dir: str) -> None:
    """Raises UserError when something lies where the run would write, or where nothing can be written."""
    if storage.list_files(run_dir):
        raise UserError(
            f"The output {run_dir} is not empty: choose another --output, or continue that run with --resume."
        )
    refuse_unwritable(run_dir, "--output")


def check_inputs(config: AnyConfig) -> None:
    """Raises UserError when what a run begins with, as far as it is here, is not usable, or does not fit the slices."""
    if isinstance(config, Config):
        check_slice(config)
    check_sources(config)


def check_sources(config: AnyConfig) -> None:
    """Raises UserErrors of `check_inputs` but those of the slices of GRPO, of which doctor has more to say."""
    if not isinstance(config, Config):
        ray_prepare.check_inputs(config)
        return
    check_source(config)
    dataset.check(config.data, need_train=config.train.batch_size, need_eval=config.evaluate.questions)
    check_rewards(config.train.rewards, config.train.reward_file)


def check_slice(config: Config) -> None:
    """Raises UserError when batch, model and devices cannot be divided as the settings say."""
    if config.tpu:
        rl_slice.devices(maxtext_args.settings(config), tpu.parse(config.tpu.slice), config.tpu.slices)


def check_source(config: Config) -> None:
    """Raises UserError when a local source is not a usable model; a hub source is checked after its download."""
    if "://" not in config.model.source:
        check.check_model_directory(config.model.source)
    sizes.check(config.model.source, config.model.name, config.model.sizes)


def check_publishing(config: Config, store: str) -> None:
    """Raises UserError when a better model could not be published where the configuration says."""
    if config.publish.vertex.model and storage.is_local(store):
        raise UserError(
            f"publish.vertex.model={config.publish.vertex.model} needs the model in Cloud Storage, not in {store}: give "
            "--store gs://BUCKET/FOLDER."
        )
    if config.publish.hub:
        hub.check_writable(config.publish.hub, private=config.publish.private)


def check_fit(config: Config) -> None:
    """Raises UserError when the questions, as far as they are on this machine, do not fit the context."""
    chosen = dataset.check(config.data, need_train=config.train.batch_size, need_eval=config.evaluate.questions)
    tokenizer = fit.tokenizer_at_hand(config.model.source)
    if chosen is None or tokenizer is None:
        return
    fit.check_prompts(
        tokenizer,
        dataset.read_template(config.data.template),
        [question.text for question in chosen.train],
        [question.text for question in chosen.evaluation][: config.evaluate.questions],
        room=config.train.max_prompt_tokens,
        need_train=config.train.batch_size,
    )


def refuse_unwritable(directory: str, option: str) -> None:
    """Raises UserError when a local directory cannot be made or written; `option` is what the user can change."""
    if not storage.is_local(directory):
        return
    existing = next(p for p in (Path(directory), *Path(directory).parents) if p.exists())
    if not existing.is_dir():
        raise UserError(f"{existing} is a file, so {directory} cannot be a directory: choose another {option}.")
    probe = existing / f".posttrain-{secrets.token_hex(4)}"
    try:
        try:
            probe.write_bytes(b"x")
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"Nothing can be written to {existing} ({error.strerror}): choose another {option}.") from error


def prepare_stage(*, config: str, overrides: str, job_id: str, run_id: str, output: str, store: str, plan: Any) -> bool:
    """The component's body: makes the plan of a run, or takes the one that the command line has made for it already.

    Returns whether the exported model is to be served and checked.
    """
    started = time.monotonic()
    name = run_id or job_id
    try:
        chosen = parse(json.loads(config), overrides.split("\n") if overrides.strip() else [])
        known_secrets.use(chosen)
        root = store or chosen.store
        if not root:
            raise UserError(
                "The parameter store is empty: give the root of models and runs, such as gs://BUCKET/FOLDER."
            )
        run_dir = run_directory(output, root, name)
        the_plan = _existing(run_dir, name)
        if the_plan is None:
            the_plan = make_plan(chosen, run_id=name, run_dir=run_dir, store=root, where="pipeline")
            the_plan.enlist()
    except UserError as error:
        fail(None, "prepare", error, run_id=name)
    except Exception as error:  # a fault of ours, said in the line that every stage ends with
        traceback.print_exc()
        fail(None, "prepare", error, run_id=name)
    storage.write_text(storage.join(run_dir, PLAN), the_plan.model_dump_json(indent=1))
    Path(plan.path).parent.mkdir(parents=True, exist_ok=True)
    Path(plan.path).write_text(the_plan.model_dump_json(indent=1))
    plan.metadata.update(
        {"run_id": name, "config_sha256": the_plan.config_sha256, "data_uri": storage.join(run_dir, PLAN)}
    )
    keep(run_dir, "prepare", time.monotonic() - started, StageResult(note=_said(the_plan)))
    say("prepare", _said(the_plan))
    return isinstance(the_plan.config, Config) and the_plan.config.serve.enabled


def _existing(run_dir: str, run_id: str) -> AnyPlan | None:
    """The plan that lies in the output already, when it is this run's own."""
    if not storage.exists(storage.join(run_dir, PLAN)):
        return None
    found = AnyPlan.parse(storage.read_text(storage.join(run_dir, PLAN)))
    if found.run_id != run_id:
        raise UserError(f"The output {run_dir} belongs to the run {found.run_id}: choose another output.")
    return found


def _said(plan: AnyPlan) -> str:
    if not isinstance(plan, Plan):
        return f"{plan.config.preset}, seed {plan.config.seed}"
    said = f"{plan.config.preset}: {plan.config.model.source} at {plan.model_revision[:12]}, seed {plan.config.seed}"
    if plan.champion:
        said += f"; champion {plan.champion.run_id}, {plan.champion.accuracy:.1%} right"
    return said
