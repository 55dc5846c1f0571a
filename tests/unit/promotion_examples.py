"""Runs that have come as far as `publish`: plans made by `prepare`, and the artifacts of the stages before, in small."""

from __future__ import annotations

import functools

from evaluation_tables import drawn, questions

from components import config, record, storage
from components.evaluate.gate import evaluate_pair
from components.gate_policy import GatePolicy
from components.manifest import write_manifest
from components.plan import Plan
from components.prepare.prepare import make_plan
from components.publish.publish import publish
from components.record import ArtifactRecord
from components.results import Evaluation, Verdict
from components.stage import StageResult

_QUESTIONS = 120


def plan(place: str, run_id: str, *settings: str) -> Plan:
    """The plan of a fresh run whose store is shared with the other runs of `place`."""
    the_config = config.load("tiny-qwen3", ["publish.slot=tiny-qwen3", *settings])
    run_dir = storage.join(place, "store", "runs", run_id)
    return make_plan(the_config, run_id=run_id, run_dir=run_dir, store=storage.join(place, "store"), where="local")


@functools.cache
def evaluation(verdict: str) -> Evaluation:
    """An evaluation that ended so."""
    asked = 20 if verdict == "INVALID" else _QUESTIONS
    before = drawn(asked, 0.5, 4, seed=0)
    after = before if verdict == "HOLD" else drawn(asked, 0.2 if verdict == "REJECT" else 0.8, 4, seed=1)
    found = evaluate_pair(questions(asked), before, after, policy=GatePolicy())
    assert found.verdict is Verdict(verdict), found.reasons
    return found


def artifacts(the_plan: Plan, verdict: str) -> dict[str, ArtifactRecord]:
    """What the stages before `publish` left behind, complete."""
    base = ArtifactRecord(kind="hf-model", format="safetensors", data_uri="tiny://qwen3", base_model_id="tiny://qwen3")
    found = evaluation(verdict).model_dump_json()
    wanted = {
        "dataset": ("dataset", "download/dataset", {"train.parquet": "questions"}),
        "trained": ("rl-checkpoint", "train/grpo/checkpoints/actor/60", {"model_params/_METADATA": the_plan.run_id}),
        "exported": ("hf-model", "export/model", {"README.md": "---\n{}\n---\n", "model.safetensors": the_plan.run_id}),
        "evaluation": ("evaluation", "evaluate/result", {"evaluation.json": found}),
    }
    made = {}
    for name, (kind, folder, files) in wanted.items():
        where = storage.join(the_plan.run_dir, folder)
        for file, text in files.items():
            storage.write_text(storage.join(where, file), text)
        made[name] = the_plan.record(base, kind=kind, format="x", data_uri=where, extra={"items": "model_params"})
        record.write(made[name], where)
        write_manifest(where)
    return made


def finish(the_plan: Plan, verdict: str) -> StageResult:
    """The stage `publish` of a run that was judged so."""
    return publish(the_plan, **artifacts(the_plan, verdict))
