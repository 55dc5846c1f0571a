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
import sys
import time
from pathlib import Path

from components import maxtext_args, record, storage
from components.manifest import write_manifest
from components.maxtext_runtime import substitutions
from components.plan import Plan
from components.progress import Countdown, say
from components.record import ArtifactRecord
from components.results import Training
from components.rewards import maxtext_rewards
from components.stage import StageResult
from components.train import checkpoints, curve, rollouts
from components.workloads import environment, process
from components.workloads.workload import Workload

RUN_NAME = "grpo"
_STEP_LINE = re.compile(r"Train step (\d+) training loss")


def train(plan: Plan, checkpoint: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord) -> StageResult:
    """Returns the records `trained` (the last checkpoint) and `rollouts`."""
    record.expect(checkpoint, "maxtext-checkpoint")
    record.expect(dataset, "dataset")
    here = Path(plan.stage_dir("train"))
    actor = here / RUN_NAME / "checkpoints" / "actor"
    kept = here / "rollouts"
    kept.mkdir(parents=True, exist_ok=True)
    resumed_from = max(checkpoints.complete_steps(str(actor)), default=0)
    if resumed_from:
        dropped = rollouts.drop_after(kept, resumed_from)
        say(
            "train",
            f"continuing from step {resumed_from} of {plan.config.train.steps} ({dropped} rollouts behind it dropped)",
        )
    elif any(kept.iterdir()):
        rollouts.drop_after(kept, 0)
    account = here / "training.json"
    if resumed_from < plan.config.train.steps or not account.exists():
        training = _run(plan, checkpoint, model, dataset, here, kept, resumed_from)
        storage.write_text(str(account), training.model_dump_json(indent=1))
    else:
        training = Training.model_validate_json(account.read_text())
    last = max(checkpoints.complete_steps(str(actor)), default=0)
    if last < plan.config.train.steps:
        raise RuntimeError(f"train_rl ended at step {last}, without a checkpoint of step {plan.config.train.steps}")
    return _result(plan, checkpoint, dataset, actor / str(last), kept, training)


def _run(
    plan: Plan,
    checkpoint: ArtifactRecord,
    model: ArtifactRecord,
    dataset: ArtifactRecord,
    here: Path,
    kept: Path,
    resumed_from: int,
) -> Training:
    """Trains what is left to train and returns the account of the whole training."""
    config = plan.config
    arguments = maxtext_args.train_rl(
        config,
        rl_yml=str(maxtext_args.rl_yml()),
        run_name=RUN_NAME,
        output=str(here),
        parameters=storage.join(checkpoint.data_uri, str(checkpoint.extra["items"])),
        model=model.data_uri,
        dataset=dataset.data_uri,
        reward_file=str(Path(maxtext_rewards.__file__)),
    )
    workload = Workload(
        stage="train",
        run_id=plan.run_id,
        command=maxtext_args.command(sys.executable, maxtext_args.TRAIN_RL, arguments),
        env={
            **environment.cpu(plan),
            "POSTTRAIN_REWARDS": json.dumps(config.train.rewards),
            "POSTTRAIN_REWARD_FILE": config.train.reward_file or "",
            "POSTTRAIN_ROLLOUTS": str(kept),
            "POSTTRAIN_START_STEP": str(resumed_from),
            "POSTTRAIN_CALLS_PER_STEP": str(
                config.train.batch_size // (config.train.micro_batch_size or config.train.batch_size)
            ),
        },
        deadline_s=config.train.deadline_s,
    )
    follower = rollouts.Follower(kept)
    countdown = Countdown(config.train.steps)
    say(
        "train",
        f"{config.train.steps} GRPO steps of {config.train.batch_size} x {config.train.num_generations} completions; "
        "compiling first",
    )

    def on_line(line: str) -> None:
        print(f"train | {line}", flush=True)
        if match := _STEP_LINE.search(line):
            step = int(match[1])
            mean = follower.reward(step)
            reward = f", reward {mean:.2f}" if mean is not None else ""
            left = countdown.left(step)
            say("train", f"step {step}/{config.train.steps}{reward}" + (f", {left} left" if left else ""))

    started = time.monotonic()
    if resumed_from < config.train.steps:
        process.run(workload, here / f"log-{plan.attempt}.txt", on_line)
    return Training(
        first_step=1,
        last_step=config.train.steps,
        resumed_from=resumed_from or None,
        seconds=round(time.monotonic() - started, 1),
        rollout_engine=substitutions.ENGINE,
        rollouts=sum(1 for _ in rollouts.lines(kept)),
        curve=curve.read(here / RUN_NAME / "tensorboard", config.train.rewards, kl_measured=config.train.kl_beta > 0),
    )


def _result(
    plan: Plan, checkpoint: ArtifactRecord, dataset: ArtifactRecord, last: Path, kept: Path, training: Training
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
        data_uri=str(last),
        extra={"items": checkpoints.PARAMETERS},
    )
    record.write(trained, trained.data_uri)
    write_manifest(trained.data_uri)
    made = plan.record(checkpoint, kind="rollouts", format="jsonl", step=step, parent_uris=parents, data_uri=str(kept))
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
