"""Finetune: supervised fine-tuning with FSDP2 under Ray Train, from the source model or from the last checkpoint of the
same run.

In: the model directory, the instructions. Out: the last checkpoint with its manifest, the figures of every epoch, and in
`loss.json` the loss of the steps. A run that was killed continues with the same call: epochs that a checkpoint has are not
trained again.
"""

from __future__ import annotations

import json
import re
from typing import Any

from components import ray_args, record, storage
from components.manifest import write_manifest
from components.progress import say
from components.ray_plan import FinetunePlan
from components.record import ArtifactRecord
from components.results import LossCurve, LossPoint
from components.stage import StageResult
from components.workloads import engine
from components.workloads.workload import Output, Workload

_PROGRAM = "components.ray_runtime.finetune"
_EPOCH_LINE = re.compile(r"epoch \d+/\d+ \| .*$")


def finetune(plan: FinetunePlan, model: ArtifactRecord, dataset: ArtifactRecord) -> StageResult:
    """Returns the record `tuned` (the last checkpoint) and the figures as scalars."""
    record.expect(model, "hf-model")
    record.expect(dataset, "dataset")
    how = plan.config.finetune
    say("finetune", f"{how.epochs} epochs on {dataset.extra['rows']:.0f} instructions; starting Ray first")
    engine.run(plan, workload(plan, model, dataset), _progress)
    measured = json.loads(storage.read_text(storage.join(plan.stage_dir("finetune"), "measured", "finetune.json")))
    history = measured["history"]
    storage.write_text(storage.join(plan.stage_dir("finetune"), "loss.json"), _curve(history).model_dump_json(indent=1))
    first, last = history[0], history[-1]
    tuned = plan.record(
        model,
        kind="ray-checkpoint",
        format="torch",
        step=sum(epoch["steps"] for epoch in history),
        parent_uris=[model.data_uri, dataset.data_uri],
        data_uri=ray_args.address_of(measured["checkpoint"]),
        extra={"epochs": len(history)},
    )
    record.write(tuned, tuned.data_uri)
    write_manifest(tuned.data_uri)
    return StageResult(
        records={"tuned": tuned},
        metrics={
            "loss_first": first["loss"],
            "loss_last": last["loss"],
            "tokens_per_second": last["tokens_per_s"],
            "epochs": float(len(history)),
            "steps": float(tuned.step or 0),
        },
        note=f"{len(history)} epochs, loss {first['loss']:.3f} -> {last['loss']:.3f}, {last['tokens_per_s']:,.0f} tokens/s",
    )


def workload(plan: FinetunePlan, model: ArtifactRecord, dataset: ArtifactRecord) -> Workload:
    """The epochs that are left."""
    config, how = plan.config, plan.config.finetune
    here = plan.stage_dir("finetune")
    frozen = ("--freeze", *config.model.frozen) if config.model.frozen else ()
    return Workload(
        stage="finetune",
        run_id=plan.run_id,
        command=(
            *("python", "-m", _PROGRAM),
            *ray_args.per_device(config),
            # plain addresses: the workers, which are on machines of their own, read and write there
            f"--model={model.data_uri}",
            f"--data={dataset.data_uri}",
            f"--storage={ray_args.written_at(config, storage.join(here, 'ray'))}",
            "--report=@measured@/finetune.json",
            f"--template={ray_args.quoted(config.data.text)}",
            f"--dtype={config.model.dtype}",
            f"--epochs={how.epochs}",
            f"--batch-size={how.batch_size_per_device}",
            f"--learning-rate={how.learning_rate}",
            f"--weight-decay={how.weight_decay}",
            f"--max-tokens={how.max_tokens}",
            f"--max-failures={how.max_failures}",
            f"--seed={config.seed}",
            *frozen,
        ),
        env=ray_args.ENV,
        outputs=(Output(name="measured", uri=storage.join(here, "measured")),),
        needs=ray_args.machines(config, plan.store),
        image="ray-torchtpu",
        deadline_s=how.deadline_s,
    )


def _curve(history: list[dict[str, Any]]) -> LossCurve:
    """The loss of every step, counted from 1 over all epochs."""
    points, done = [], 0
    for epoch in history:
        # an image that was built from an earlier version hands over none
        losses = epoch.get("losses", ())
        points += [LossPoint(step=step, loss=loss) for step, loss in enumerate(losses, done + 1)]
        done += epoch["steps"]
    return LossCurve.thinned(points)


def _progress(line: str) -> None:
    """Says the figures of an epoch as they come."""
    if match := _EPOCH_LINE.search(line):
        say("finetune", match[0])
