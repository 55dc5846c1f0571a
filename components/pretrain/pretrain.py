"""Pretrain: MaxText under Ray Train's JaxTrainer, from random weights or from the latest complete checkpoint of the run.

In: a `PretrainPlan`. Out: the last checkpoint with its manifest, and in `loss.json` the loss of the steps and which worker
groups trained. A number of workers that varies is for Spot slices: a lost one costs the steps since the last checkpoint,
and no more.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

from components import ray_args, record, storage
from components.errors import WorkloadError
from components.fetch import fetch
from components.manifest import write_manifest
from components.pretrain import checkpoints, curve
from components.progress import Countdown, say
from components.ray_plan import PretrainPlan
from components.record import ArtifactRecord
from components.results import LossCurve, LossPoint, WorkerGroup
from components.stage import StageResult
from components.workloads import engine
from components.workloads.workload import OnLine, Output, Workload

RUN_NAME = "maxtext"
_PROGRAM = "components.ray_runtime.pretrain"
_STEP_LINE = re.compile(r"completed step: (\d+),.*? loss: ([\d.]+)")
_GROUP_LINE = re.compile(r"a group of \d+ begins with step \d+|drill: .*$")
_SAY_EVERY = 20  # of so many steps, one is told

# MaxText's settings that name weights to begin with, in place of random ones
_BEGINNINGS = ("load_parameters_path", "load_full_state_path")
# What a machine without TPU needs of MaxText.
_CPU = {"hardware": "cpu", "attention": "dot_product"}


def pretrain(plan: PretrainPlan) -> StageResult:
    """Returns the record `trained` (the last checkpoint) and the figures as scalars."""
    how = plan.config.pretrain
    here = plan.stage_dir("pretrain")
    say("pretrain", f"{how.steps} steps of {plan.config.model.name}; starting Ray and MaxText first")
    outcome = engine.run(plan, workload(plan), _progress(how.steps))
    measured = json.loads(storage.read_text(storage.join(here, "measured", "pretrain.json")))
    folder = storage.join(here, RUN_NAME, "checkpoints")
    renamed = storage.is_local(folder) or plan.config.ray.gcs_fuse
    last = max(checkpoints.complete_steps(folder, renamed=renamed), default=-1)
    if last != how.steps - 1:
        raise WorkloadError(
            "pretrain",
            f"Training ended, but the last complete checkpoint is of step {last} and not of {how.steps - 1}: see log.txt, "
            "then `posttrain run --resume` continues from there.",
        )
    return _result(plan, storage.join(folder, str(last)), measured["groups"], outcome.seconds)


def workload(plan: PretrainPlan) -> Workload:
    """The steps that are left."""
    config, how, elastic = plan.config, plan.config.pretrain, plan.config.elastic
    here = plan.stage_dir("pretrain")
    output = ray_args.written_at(config, here)
    options = []
    if elastic:
        hosts = slice_.hosts if (slice_ := ray_args.slice_of(config)) else 1
        options = [f"--least={elastic.least * hosts}", f"--look={elastic.look_s}"]
        if elastic.drill:
            options.append(f"--drill={storage.join(output, RUN_NAME, 'checkpoints')}")
    return Workload(
        stage="pretrain",
        run_id=plan.run_id,
        command=(
            *("python", "-m", _PROGRAM),
            *ray_args.per_host(config),
            f"--storage={storage.join(output, 'ray')}",
            "--report=@measured@/pretrain.json",
            f"--max-failures={how.max_failures}",
            *options,
            "--",
            *(f"{name}={_text(value)}" for name, value in settings(plan, output).items()),
        ),
        env=ray_args.ENV,
        outputs=(Output(name="measured", uri=storage.join(here, "measured")),),
        needs=ray_args.machines(config, plan.store, least=elastic.least if elastic else None),
        image="ray-maxtext",
        deadline_s=how.deadline_s,
    )


def settings(plan: PretrainPlan, output: str) -> dict[str, Any]:
    """MaxText's settings, beyond its base.yml; it writes to `<output>/maxtext`."""
    config, how = plan.config, plan.config.pretrain
    return {
        "base_output_directory": output,
        "run_name": RUN_NAME,
        "model_name": config.model.name,
        **({"override_model_config": True, **config.model.sizes} if config.model.sizes else {}),
        "dataset_type": how.dataset,
        "data_shuffle_seed": config.seed,
        "init_weights_seed": config.seed,
        "steps": how.steps,
        "per_device_batch_size": how.batch_size_per_device,
        "max_target_length": how.max_tokens,
        # without them a lost worker would begin at step 0 again
        "enable_checkpointing": True,
        "checkpoint_period": how.checkpoint_period,
        "max_num_checkpoints_to_keep": how.checkpoints_kept,
        "log_config": False,
        **({} if config.tpu else _CPU),
        **config.maxtext,
    }


def _progress(steps: int) -> OnLine:
    """Says step, loss and time left as MaxText's lines come, and every change of the workers."""
    countdown = Countdown(steps)
    told = -_SAY_EVERY
    changes: set[str] = set()  # where one machine has several nodes, each hands over what all have written

    def on_line(line: str) -> None:
        nonlocal told, countdown
        if match := _GROUP_LINE.search(line):
            if match[0] not in changes:
                say("pretrain", match[0])
                countdown = Countdown(steps)  # the pace is another one
            changes.add(match[0])
        elif match := _STEP_LINE.search(line):
            step = int(match[1])
            left = countdown.left(step + 1)
            if not told <= step < told + _SAY_EVERY or step + 1 == steps:
                told = step
                say("pretrain", f"step {step + 1}/{steps}, loss {match[2]}" + (f", {left} left" if left else ""))

    return on_line


def _result(plan: PretrainPlan, last: str, groups: list[dict[str, Any]], seconds: float) -> StageResult:
    how, here = plan.config.pretrain, plan.stage_dir("pretrain")
    with tempfile.TemporaryDirectory() as scratch:
        points = curve.read(fetch(storage.join(here, RUN_NAME, "tensorboard"), Path(scratch)))
    losses = LossCurve.thinned(
        [LossPoint(step=point.step, loss=point.loss) for point in points],
        [WorkerGroup.model_validate(group) for group in groups],
    )
    storage.write_text(storage.join(here, "loss.json"), losses.model_dump_json(indent=1))
    sizes = [group["workers"] for group in groups]
    trained = ArtifactRecord(
        kind="maxtext-checkpoint",
        format="orbax",
        data_uri=last,
        step=how.steps,
        run_id=plan.run_id,
        code_version=plan.code_version,
        config_sha256=plan.config_sha256,
        parent_uris=[str(plan.config.maxtext[name]) for name in _BEGINNINGS if plan.config.maxtext.get(name)],
        extra={"items": checkpoints.ITEMS, "architecture": plan.config.model.name},
    )
    record.write(trained, last)
    write_manifest(last)
    worked = " -> ".join(f"{group['workers']} (from step {group['from_step']})" for group in groups)
    metrics = {"steps": float(how.steps), "worker_groups": float(len(groups)), "workers_least": float(min(sizes))}
    if points:
        speed = statistics.median(point.tokens_per_s for point in points)
        metrics |= {"loss_first": points[0].loss, "loss_last": points[-1].loss, "tokens_per_second_per_device": speed}
    return StageResult(
        records={"trained": trained},
        metrics={**metrics, "seconds": round(seconds, 1)},
        note=f"{how.steps} steps; workers {worked}"
        + (f"; loss {points[0].loss:.3f} -> {points[-1].loss:.3f}" if points else ""),
    )


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
