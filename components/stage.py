"""The frame around every stage: plan and records in, work, records and metrics out, a failure in one line.

`run_stage` is what a KFP component's body calls. It reads the plan and the metadata of the input artifacts, calls the
work, writes the records into the output artifacts and `stage.json` beside the stage's data. A `WorkloadError` or
`UserError` becomes the evidence, the reason, and as the last line `posttrain-failure: <stage>: <reason>`, with exit
code 1. Anything else keeps its traceback, then the same last line. The webhook, if there is one, is told of it: the first
failure ends a run.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel

from components import notify, secrets, storage
from components.errors import UserError, WorkloadError
from components.plan import Plan
from components.progress import FAILURE, duration, say
from components.record import ArtifactRecord
from components.results import StageRecord

# the stages of each pipeline, in their order
PIPELINES = {
    "grpo": ("prepare", "download", "convert", "train", "evaluate", "export", "publish", "serve", "report"),
    "ray-finetune": ("prepare", "download", "collectives", "finetune", "export", "report"),
    "ray-pretrain": ("prepare", "pretrain", "report"),
}
STAGES = tuple(dict.fromkeys(stage for stages in PIPELINES.values() for stage in stages))


@dataclass(frozen=True)
class StageResult:
    """What a stage made: a record per output artifact, scalars for the UI, a sentence for the report, files for
    other outputs.
    """

    records: Mapping[str, ArtifactRecord] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class Failure(BaseModel):
    """Why a stage failed; kept as `failure.json` in the run's directory."""

    stage: str
    reason: str
    seconds: float = 0.0
    evidence: list[str] = []
    users_mistake: bool = False


def run_stage(
    work: Callable[..., StageResult], stage: str, plan: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> None:
    """Runs the work of a stage between KFP artifacts: `plan` and `inputs` are read, `outputs` are filled."""
    the_plan = Plan.read(plan.path)
    secrets.use(the_plan.config)
    started = time.monotonic()
    say(stage, "starting")
    try:
        result = work(
            the_plan, **{name: ArtifactRecord.from_flat(artifact.metadata) for name, artifact in inputs.items()}
        )
    except (UserError, WorkloadError) as error:
        fail(the_plan.run_dir, stage, error, time.monotonic() - started, run_id=the_plan.run_id)
    except (KeyboardInterrupt, SystemExit):
        interrupted = WorkloadError(stage, "It was interrupted.")
        fail(the_plan.run_dir, stage, interrupted, time.monotonic() - started, run_id=the_plan.run_id)
    except Exception as error:  # a fault of ours: its traceback, then the line that `posttrain status` looks for
        traceback.print_exc()
        fail(the_plan.run_dir, stage, error, time.monotonic() - started, run_id=the_plan.run_id)
    seconds = time.monotonic() - started
    fill(outputs, result)
    keep(the_plan.run_dir, stage, seconds, result)
    say(stage, f"done in {duration(seconds)}" + (f": {result.note}" if result.note else ""))


def fill(outputs: Mapping[str, Any], result: StageResult) -> None:
    """Writes records, metrics and files into KFP's output artifacts. Bytes of weights never go there: only their
    record does.
    """
    for name, artifact in outputs.items():
        path = Path(artifact.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in result.records:
            record = result.records[name]
            artifact.metadata.update(record.flat())
            path.write_text(record.model_dump_json(indent=1))
        elif name in result.files:
            path.write_text(result.files[name])
        elif name == "metrics":
            artifact.metadata.update({key: float(value) for key, value in result.metrics.items()})
            path.write_text("{}")
        else:
            raise AssertionError(f"the work made nothing for the output '{name}'")


def fail(run_dir: str | None, stage: str, error: Exception, seconds: float = 0.0, *, run_id: str) -> NoReturn:
    """Prints the evidence and the reason of a failure, tells the webhook, and ends the process with exit code 1.

    They are kept in the run's directory, unless there is none that is this run's own.
    """
    said = " ".join(str(error).split())
    failure = Failure(
        stage=stage,
        seconds=round(seconds, 1),
        reason=said if isinstance(error, UserError | WorkloadError) else f"{type(error).__name__}: {said}",
        evidence=list(error.evidence) if isinstance(error, WorkloadError) else [],
        users_mistake=isinstance(error, UserError),
    )
    if run_dir is not None:
        with contextlib.suppress(UserError):  # a full disk must not hide why the stage failed
            storage.write_text(storage.join(run_dir, "failure.json"), failure.model_dump_json(indent=1))
    notify.failed(run_id, stage, failure.reason)
    for line in failure.evidence:
        print(f"  {line}")
    print(f"{FAILURE}{stage}: {failure.reason}", flush=True)
    sys.exit(1)


def keep(run_dir: str, stage: str, seconds: float, result: StageResult) -> None:
    """Writes `stage.json` beside the stage's data: that it succeeded, how long it took, what it made."""
    record = StageRecord(
        name=stage,
        status="succeeded",
        seconds=round(seconds, 1),
        note=result.note,
        artifacts={name: {"kind": r.kind, "uri": r.data_uri} for name, r in result.records.items()},
        metrics=dict(result.metrics),
    )
    storage.write_text(storage.join(run_dir, stage, "stage.json"), record.model_dump_json(indent=1))
