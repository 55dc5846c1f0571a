"""Train: GRPO with MaxText's `train_rl` and Tunix, from the base checkpoint or from the latest complete step of the
same run.

In: the base weights in MaxText's format, the model directory (tokenizer), the questions. Out: the last checkpoint with
its manifest, the rollouts, `training.json`. A run that was
killed continues with the same call: rollouts behind the latest complete checkpoint are dropped, the steps before it are
not trained again.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from components import maxtext_args, record, storage
from components.fetch import fetch
from components.manifest import write_manifest
from components.maxtext_runtime import checkpoints, substitutions
from components.plan import Plan
from components.progress import Countdown, say
from components.record import ArtifactRecord
from components.results import Training
from components.stage import StageResult
from components.train import curve, rollouts
from components.workloads import engine, machines
from components.workloads.workload import OnLine, Output, Workload

RUN_NAME = "grpo"
_STEP_LINE = re.compile(r"Train step (\d+) training loss")


def train(plan: Plan, checkpoint: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord) -> StageResult:
    """Returns the records `trained` (the last checkpoint) and `rollouts`."""
    record.expect(checkpoint, "maxtext-checkpoint")
    record.expect(dataset, "dataset")
    here = plan.stage_dir("train")
    actor = checkpoints.actor_dir(here, RUN_NAME)
    account = storage.join(here, "training.json")
    done = max(checkpoints.complete_steps(actor), default=0)
    if done < plan.config.train.steps or not storage.exists(account):
        training = _run(plan, checkpoint, model, dataset, done)
        storage.write_text(account, training.model_dump_json(indent=1))
    else:
        training = Training.model_validate_json(storage.read_text(account))
    last = max(checkpoints.complete_steps(actor), default=0)
    if last < plan.config.train.steps:
        raise RuntimeError(f"train_rl ended at step {last}, without a checkpoint of step {plan.config.train.steps}")
    return _result(plan, checkpoint, dataset, storage.join(actor, str(last)), training)


def workload(plan: Plan, checkpoint: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord) -> Workload:
    """The training, which goes on from the latest complete step that it finds."""
    train = plan.config.train
    here = plan.stage_dir("train")
    arguments = maxtext_args.train_rl(
        plan.config, run_name=RUN_NAME, output=here, parameters=maxtext_args.items(checkpoint)
    )
    return Workload(
        stage="train",
        run_id=plan.run_id,
        command=maxtext_args.command(maxtext_args.TRAIN_RL, arguments),
        env={
            "POSTTRAIN_REWARDS": json.dumps(train.rewards),
            "POSTTRAIN_REWARD_FILE": "@reward_file@" if plan.reward_file else "",
            "POSTTRAIN_ROLLOUTS": "@rollouts@",
            "POSTTRAIN_CALLS_PER_STEP": str(train.batch_size // (train.micro_batch_size or train.batch_size)),
            "POSTTRAIN_OPTIMIZER": train.optimizer,
        },
        inputs=maxtext_args.training_inputs(model, dataset, plan.reward_file),
        outputs=(Output(name="rollouts", uri=storage.join(here, "rollouts"), how="live"),),
        needs=machines.accelerator(plan.config),
        marker=maxtext_args.FINISHED,
        deadline_s=train.deadline_s,
    )


def _run(plan: Plan, checkpoint: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord, done: int) -> Training:
    """Trains what is left to train and returns the account of the whole training."""
    train = plan.config.train
    here = plan.stage_dir("train")
    kept = storage.join(here, "rollouts")
    seconds = 0.0
    if done < train.steps:
        if done:
            say("train", f"continuing from step {done} of {train.steps}")
        rollouts.drop_after(kept, done)
        seconds = engine.run(plan, workload(plan, checkpoint, model, dataset), _progress(plan, kept)).seconds
    with tempfile.TemporaryDirectory() as scratch:
        events = fetch(storage.join(here, RUN_NAME, "tensorboard"), Path(scratch))
        points = curve.read(events, train.rewards, kl_measured=train.kl_beta > 0)
    rows = list(rollouts.lines(kept))
    return Training(
        first_step=1,
        last_step=train.steps,
        resumed_from=done or None,
        seconds=round(seconds, 1),
        rollout_engine="vLLM" if plan.config.tpu else substitutions.ENGINE,
        rollouts=len(rows),
        curve=curve.completed(points, rows),
    )


def _progress(plan: Plan, kept: str) -> OnLine:
    """Says step, reward and time left as the trainer's lines come."""
    train = plan.config.train
    countdown = Countdown(train.steps)
    say(
        "train",
        f"{train.steps} GRPO steps of {train.batch_size} x {train.num_generations} completions; compiling first",
    )

    def on_line(line: str) -> None:
        if match := _STEP_LINE.search(line):
            step = int(match[1])
            mean = rollouts.mean_reward(kept, step)
            reward = f", reward {mean:.2f}" if mean is not None else ""
            left = countdown.left(step)
            say("train", f"step {step}/{train.steps}{reward}" + (f", {left} left" if left else ""))

    return on_line


def _result(
    plan: Plan, checkpoint: ArtifactRecord, dataset: ArtifactRecord, last: str, training: Training
) -> StageResult:
    points = training.curve
    parents = [checkpoint.data_uri, dataset.data_uri]
    step = training.last_step
    trained = plan.record(
        checkpoint,
        kind="rl-checkpoint",
        format="orbax",
        step=step,
        parent_uris=parents,
        data_uri=last,
        extra={"items": checkpoints.PARAMETERS},
    )
    record.write(trained, trained.data_uri)
    write_manifest(trained.data_uri)
    kept = storage.join(plan.stage_dir("train"), "rollouts")
    made = plan.record(checkpoint, kind="rollouts", format="jsonl", step=step, parent_uris=parents, data_uri=kept)
    record.write(made, made.data_uri)
    first, last_reward = _ends(training)
    metrics = {"reward_first": first, "reward_last": last_reward} if points else {}
    return StageResult(
        records={"trained": trained, "rollouts": made},
        metrics={**metrics, "steps": float(training.last_step)},
        note=f"{training.last_step} steps, {training.rollouts} rollouts kept"
        + (f", reward {first:.2f} -> {last_reward:.2f}" if points else ""),
    )


def _ends(training: Training) -> tuple[float, float]:
    """Mean reward of the first and of the last tenth of the steps: single batches are noisy."""
    rewards = [point.reward for point in training.curve]
    part = max(1, len(rewards) // 10)
    return (sum(rewards[:part]) / part, sum(rewards[-part:]) / part) if rewards else (0.0, 0.0)
