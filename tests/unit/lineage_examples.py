"""A store with runs in it, as their stages leave them: plans, records, manifests, run records, and a byte for weights."""

from __future__ import annotations

import functools
import hashlib
from datetime import UTC, datetime, timedelta

import report_examples

from components import config, manifest, record, storage
from components.plan import PLAN, Plan
from components.record import ArtifactRecord, Kind
from components.report.assemble import RUN
from components.results import Evaluation, RunRecord, StageRecord, Verdict

QWEN = "hf://Qwen/Qwen3-30B-A3B@ad44e777bcd18fa416d9da3bd8f70d33ebb85d39"
GSM8K = "hf://datasets/openai/gsm8k@740312add88f781978c0658806c59bc2815b9866"
FORMATS = {"dataset": "parquet", "hf-model": "safetensors", "evaluation": "jsonl", "rollouts": "jsonl"}


@functools.cache
def evaluation() -> Evaluation:
    """An evaluation, for its verdict to be changed."""
    found = report_examples.hold()[0].evaluation
    assert found
    return found


def artifact(
    uri: str, kind: Kind, parents: list[str], *, run_id: str = "", step: int | None = None, verdict: str = ""
) -> str:
    """Writes an artifact of one byte, and returns its address."""
    storage.write_bytes(storage.join(uri, "data"), b"x")
    made = ArtifactRecord(
        kind=kind,
        format=FORMATS.get(kind, "orbax"),
        data_uri=uri,
        step=step,
        run_id=run_id,
        parent_uris=parents,
        base_model_id="Qwen/Qwen3-30B-A3B",
        base_model_revision="ad44e777bcd18fa416d9da3bd8f70d33ebb85d39",
        code_version="4c1d9e0b7f2a6835d4e9c1b0a7f6e5d4c3b2a190",
        config_sha256="9b1f0d5c2a7e4f63b8d1c0a95e72f4418d3b6a90c5e1f7284a6b3d9c0e8f1a52",
        extra={"verdict": verdict} if verdict else {},
    )
    record.write(made, uri)
    if kind != "rollouts":
        manifest.write_manifest(uri)
    return uri


def run(
    store: str,
    run_id: str,
    *,
    source: str = QWEN,
    questions: str = GSM8K,
    champion: str = "",
    verdict: str = "HOLD",
    day: int = 0,
    ended: bool = True,
    run_dir: str = "",
) -> dict[str, str]:
    """Writes a run of 40 steps that was started on that day; returns the address of each artifact by its name.

    It begins from the weights of the source, or from those of a `champion`. A run that has not `ended` has no run.json,
    and its last stage is the training.
    """
    started = (datetime(2026, 1, 5, 3, tzinfo=UTC) + timedelta(days=day)).isoformat()
    plan = Plan(
        run_id=run_id,
        run_dir=run_dir or storage.join(store, "runs", run_id),
        store=store,
        config=config.load("tiny-qwen3"),
        config_sha256="9b1f0d5c2a7e4f63b8d1c0a95e72f4418d3b6a90c5e1f7284a6b3d9c0e8f1a52",
        code_version="4c1d9e0b7f2a6835d4e9c1b0a7f6e5d4c3b2a190",
        model_revision="ad44e777bcd18fa416d9da3bd8f70d33ebb85d39",
        converted_id="",
        started=started,
        attempt_started=started,
    )
    plan.enlist()
    storage.write_text(storage.join(plan.run_dir, PLAN), plan.model_dump_json())
    made = _artifacts(plan, source, questions, champion, verdict, ended)
    for stage in made:
        storage.write_text(storage.join(plan.run_dir, stage.name, "stage.json"), stage.model_dump_json())
    if ended:
        ending = evaluation().model_copy(update={"verdict": Verdict(verdict)})
        found = RunRecord(
            **plan.model_dump(include={"run_id", "config_sha256", "code_version", "started"}),
            preset="tiny-qwen3",
            status="succeeded",
            seconds=60.0,
            where="pipeline",
            engine="jobset",
            stages=made,
            evaluation=ending,
        )
        storage.write_text(storage.join(plan.run_dir, RUN), found.model_dump_json())
    return {name: found["uri"] for stage in made for name, found in stage.artifacts.items()}


def _artifacts(plan: Plan, source: str, questions: str, champion: str, verdict: str, ended: bool) -> list[StageRecord]:
    """The artifacts of a run; what is shared and there already stays."""

    def make(name: str, kind: Kind, parents: list[str], **facts: object) -> str:
        uri = name if name.startswith(f"{plan.store}/") else storage.join(plan.run_dir, name)
        if not storage.exists(storage.join(uri, record.FILE_NAME)):
            artifact(uri, kind, parents, run_id=plan.run_id, **facts)  # type: ignore[arg-type]
        return uri

    identity = hashlib.sha256(source.encode()).hexdigest()
    model = make(storage.join(plan.store, "models", identity[:12]), "hf-model", [source])
    dataset = make("download/dataset", "dataset", [questions])
    converted = champion or make(
        storage.join(plan.store, "converted", identity[:24]), "maxtext-checkpoint", [model], step=0
    )
    trained = make("train/grpo/checkpoints/actor/40", "rl-checkpoint", [converted, dataset], step=40)
    rollouts = make("train/rollouts", "rollouts", [converted, dataset], step=40)
    stages = [
        _stage("prepare"),
        _stage("download", model=("hf-model", model), dataset=("dataset", dataset)),
        _stage("convert", checkpoint=("maxtext-checkpoint", converted)),
        _stage("train", trained=("rl-checkpoint", trained), rollouts=("rollouts", rollouts)),
    ]
    if not ended:
        return stages
    result = make("evaluate/result", "evaluation", [converted, trained, dataset], step=40, verdict=verdict)
    exported = make("export/model", "hf-model", [trained, model], step=40, verdict=verdict)
    return [
        *stages,
        _stage("evaluate", evaluation=("evaluation", result)),
        _stage("export", exported=("hf-model", exported)),
        _stage("report"),
    ]


def _stage(name: str, **artifacts: tuple[str, str]) -> StageRecord:
    made = {key: {"kind": kind, "uri": uri} for key, (kind, uri) in artifacts.items()}
    return StageRecord(name=name, status="succeeded", seconds=1.0, artifacts=made)
