"""Assembles what the stages of a run left behind into its `run.json` and its page.

In: a plan; below its directory each finished stage has `stage.json`, and the stages that measured something have
`training.json`, `loss.json`, `evaluation.json`, `parity.json`; a failed run has `failure.json`. Out: a `RunRecord`, `run.json`,
`report.html`. Called by the stage `report`, and once more at the end of a local run, which knows how it ended. A
missing file means that the stage did not get there.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from components import cost, record, storage, tpu
from components.config import Config
from components.errors import UserError
from components.plan import AnyPlan
from components.report.page import render
from components.results import Evaluation, LossCurve, Parity, Published, RunRecord, ServingCheck, StageRecord, Training
from components.stage import PIPELINES, Failure

_ON_SLICES = ("train", "evaluate", "collectives", "finetune", "pretrain")
PAGE = "report.html"
RUN = "run.json"


def assemble(plan: AnyPlan, *, seconds: float, status: str | None = None, error: str | None = None) -> RunRecord:
    """Returns the record of the run as far as it got.

    Args:
      plan: the run.
      seconds: how long it took.
      status: how it is doing, where the caller knows better; else it succeeded when every stage has.
      error: what is known of its end beyond what its stages say.
    """
    done = [s for name in PIPELINES[plan.config.pipeline] if (s := _read(plan, f"{name}/stage.json", StageRecord))]
    failure = _read(plan, "failure.json", Failure)
    if failure:
        error = f"{failure.stage}: {failure.reason}{_evidence(failure)}"
        done.append(StageRecord(name=failure.stage, status="failed", seconds=failure.seconds, note=failure.reason))
    elif status is None and error is None and (missing := _missing(plan, done)):
        error = f"{missing}: it ended without saying why; it was killed, evicted or cancelled. Its log says more."
    made = {name: artifact["uri"] for stage in done for name, artifact in stage.artifacts.items()}
    # where nothing is exported, the trained checkpoint is the model
    model = "trained" if plan.config.pipeline == "ray-pretrain" else "exported"
    metrics = {name: value for stage in done for name, value in stage.metrics.items()}
    return RunRecord(
        run_id=plan.run_id,
        preset=plan.config.preset,
        config_sha256=plan.config_sha256,
        code_version=plan.code_version,
        status=status or ("failed" if error else "succeeded"),
        started=plan.started,
        attempt=plan.attempt,
        seconds=round(seconds, 1),
        where=plan.where,
        engine=plan.config.engine,
        stages=done,
        evaluation=_read(plan, "evaluate/result/evaluation.json", Evaluation),
        training=_read(plan, "train/training.json", Training),
        loss=_read(plan, "finetune/loss.json", LossCurve) or _read(plan, "pretrain/loss.json", LossCurve),
        parity=_read(plan, "export/parity.json", Parity),
        published=_read(plan, "publish/result/published.json", Published),
        serving=_read(plan, "serve/result/serving.json", ServingCheck),
        metrics={} if plan.config.pipeline == "grpo" else metrics,
        cost=_cost(plan, done),
        model_uri=made.get(model),
        report_uri=storage.join(plan.run_dir, PAGE),
        error=error,
    )


def _evidence(failure: Failure) -> str:
    """The last line of the evidence, unless the reason quotes it after its colon."""
    last = failure.evidence[-1].strip() if failure.evidence else ""
    quoted = failure.reason.partition(": ")[2]
    return f" Evidence: {last[:300]}" if last and not (quoted and quoted in last) else ""


def _cost(plan: AnyPlan, done: Sequence[StageRecord]) -> dict[str, float | str]:
    """What the slices cost while stages held them; empty where there are none."""
    config = plan.config.tpu
    if config is None:
        return {}
    slice_ = tpu.parse(config.slice)
    held = [cost.Stage(s.name, 1, "stage", s.seconds, "") for s in done if s.name in _ON_SLICES]
    found = cost.estimate(slice_, config.slices, config.capacity, held, config.usd_per_chip_hour)
    hours = sum(s.seconds for s in done if s.name in _ON_SLICES) / 3600
    known: dict[str, float | str] = {"chip_hours": round(hours * slice_.chips * config.slices, 2)}
    if found.usd is not None:
        known |= {"estimated_usd": round(found.usd, 2), "price": found.assumptions[0]}
    return known


def _missing(plan: AnyPlan, done: Sequence[StageRecord]) -> str | None:
    """The first stage that should have come to its end and has not."""
    names = {stage.name for stage in done}
    serves = isinstance(plan.config, Config) and plan.config.serve.enabled
    optional = {"report"} | (set() if serves else {"serve"})
    return next((name for name in PIPELINES[plan.config.pipeline] if name not in names | optional), None)


def write(plan: AnyPlan, run: RunRecord) -> str:
    """Writes page and record, the record last; returns the page."""
    page = render(run, plan.config.to_yaml(), lineage(run.stages))
    storage.write_text(storage.join(plan.run_dir, PAGE), page)
    storage.write_text(storage.join(plan.run_dir, RUN), run.model_dump_json(indent=1))
    return page


def lineage(stages: Sequence[StageRecord]) -> list[dict[str, object]]:
    """The records beside the data of every artifact that the stages made, in their order, each once."""
    found: dict[str, dict[str, object]] = {}
    for stage in stages:
        for artifact in stage.artifacts.values():
            try:
                found.setdefault(artifact["uri"], record.read(artifact["uri"]).model_dump(mode="json"))
            except UserError:  # the data has been removed since
                found.setdefault(artifact["uri"], {"kind": artifact["kind"], "data_uri": artifact["uri"]})
    return list(found.values())


def _read[M: BaseModel](plan: AnyPlan, name: str, model: type[M]) -> M | None:
    uri = storage.join(plan.run_dir, name)
    return model.model_validate_json(storage.read_text(uri)) if storage.exists(uri) else None
