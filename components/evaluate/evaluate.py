"""Evaluate: what training began from, what it made, and the champion on the same held-out questions, with the same
sampler and settings, then the verdict.

In: both checkpoints, the model directory (tokenizer), the questions; the champion is in the plan. Out:
`completions-<name>.jsonl`, the per-question table `scored-<name>.parquet`, `evaluation.json`. The generation is one
workload for all checkpoints, with MaxText's own rollout; scoring and statistics run here. Its files are written anew
every time, so no question is counted twice.

A champion that training began from is `before`, and the one to beat: there is no base to compare with then.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from components import maxtext_args, record, storage
from components.evaluate.gate import evaluate_pair
from components.evaluate.score import score_table
from components.fetch import fetch
from components.manifest import write_manifest
from components.maxtext_runtime.generate_spec import Checkpoint, Spec
from components.plan import Plan
from components.progress import Countdown, say
from components.record import ArtifactRecord
from components.results import Evaluation
from components.rewards.verifier import Verifier
from components.sources import dataset as questions_of
from components.stage import StageResult
from components.workloads import engine, machines
from components.workloads.workload import Input, Output, Workload

BEFORE, AFTER, CHAMPION = "before", "after", "champion"
RESULT = "result"
_GENERATE = "components.maxtext_runtime.generate"
_PROGRESS = re.compile(r"^generate: (\w+) (\d+)/(\d+)")


def evaluate(
    plan: Plan, checkpoint: ArtifactRecord, trained: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord
) -> StageResult:
    """Returns the record `evaluation` and its scalars; the verdict is in both."""
    record.expect(checkpoint, "maxtext-checkpoint")
    record.expect(trained, "rl-checkpoint")
    result = storage.join(plan.stage_dir("evaluate"), RESULT)
    questions = _questions(plan, dataset)
    completions = _generate(plan, checkpoint, trained, model, dataset, questions)
    say("evaluate", f"scoring {sum(len(table) for table in completions.values())} completions")
    scored = _score(plan, questions, completions)
    found = judge(plan, questions, scored)
    for name, table in scored.items():
        storage.write_bytes(storage.join(result, f"scored-{name}.parquet"), table.to_parquet(index=False))
    storage.write_text(storage.join(result, "evaluation.json"), found.model_dump_json(indent=1))
    return StageResult(
        records={"evaluation": _record(plan, checkpoint, trained, dataset, result, found)},
        metrics=_metrics(found),
        note=_note(plan, found),
    )


def judge(plan: Plan, questions: pd.DataFrame, scored: Mapping[str, pd.DataFrame]) -> Evaluation:
    """The evaluation of a run, from its scored tables by name."""
    return evaluate_pair(
        questions,
        scored[BEFORE],
        scored[AFTER],
        champion=scored[BEFORE] if plan.beginning else scored.get(CHAMPION),
        policy=plan.config.evaluate.gate.model_copy(update={"compare_with": "champion"} if plan.beginning else {}),
        settings=_settings(plan),
        seed=plan.config.seed,
    )


def workload(
    plan: Plan, checkpoint: ArtifactRecord, trained: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord
) -> Workload:
    """The generation of every completion: before, after, and of the champion."""
    config = plan.config
    here = plan.stage_dir("evaluate")
    spec = Spec(
        questions="@questions@",
        checkpoints=tuple(
            Checkpoint(name, maxtext_args.items(one), f"@result@/completions-{name}.jsonl")
            for name, one in _measured(plan, checkpoint, trained).items()
        ),
        samples_per_question=config.evaluate.samples,
        greedy=config.evaluate.greedy,
        temperature=config.evaluate.temperature,
        top_p=config.evaluate.top_p,
        top_k=config.evaluate.top_k,
        max_new_tokens=config.train.max_completion_tokens,
        seed=config.seed,
    )
    arguments = maxtext_args.train_rl(
        config, run_name="evaluate", output=here, parameters=spec.checkpoints[0].load_parameters_path
    )
    return Workload(
        stage="evaluate",
        run_id=plan.run_id,
        command=("python", "-m", _GENERATE, "--spec", spec.to_json(), *arguments),
        inputs=(
            *maxtext_args.training_inputs(model, dataset, None),
            Input(name="questions", uri=storage.join(here, "questions.jsonl")),
        ),
        outputs=(Output(name="result", uri=storage.join(here, RESULT)),),
        needs=machines.accelerator(config),
        deadline_s=config.evaluate.deadline_s,
    )


def _questions(plan: Plan, dataset: ArtifactRecord) -> pd.DataFrame:
    """The first `evaluate.questions` held-out questions: id, question, answer (list of texts), cluster."""
    table = questions_of.read(dataset.data_uri, "eval").head(plan.config.evaluate.questions)
    table["answer"] = [json.loads(answers) for answers in table["answer"]]
    return table


def _measured(plan: Plan, checkpoint: ArtifactRecord, trained: ArtifactRecord) -> dict[str, ArtifactRecord]:
    """The checkpoints to measure, by name. A champion that training began from is there already."""
    rival = {CHAMPION: plan.champion.checkpoint} if plan.champion and not plan.beginning else {}
    return {BEFORE: checkpoint, AFTER: trained, **rival}


def _generate(
    plan: Plan,
    checkpoint: ArtifactRecord,
    trained: ArtifactRecord,
    model: ArtifactRecord,
    dataset: ArtifactRecord,
    questions: pd.DataFrame,
) -> dict[str, pd.DataFrame]:
    asked = plan.config.evaluate
    here = plan.stage_dir("evaluate")
    text = questions[["id", "question"]].to_json(orient="records", lines=True)
    storage.write_text(storage.join(here, "questions.jsonl"), text)
    names = list(_measured(plan, checkpoint, trained))
    passes = asked.samples + asked.greedy
    each = len(questions) * passes
    total = each * len(names)
    say("evaluate", f"{len(questions)} questions x {passes} completions: {', '.join(names)}")
    countdown = Countdown(total)

    def on_line(line: str) -> None:
        if match := _PROGRESS.match(line):
            done = int(match[2]) + each * names.index(match[1])
            left = countdown.left(done)
            say("evaluate", f"{done}/{total} completions" + (f", {left} left" if left else ""))

    engine.run(plan, workload(plan, checkpoint, trained, model, dataset), on_line)
    return {name: _completions(storage.join(here, RESULT, f"completions-{name}.jsonl")) for name in names}


def _completions(uri: str) -> pd.DataFrame:
    return pd.read_json(io.BytesIO(storage.read_bytes(uri)), lines=True, dtype={"id": str, "completion": str})


def _score(plan: Plan, questions: pd.DataFrame, completions: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    with tempfile.TemporaryDirectory() as scratch, Verifier() as verifier:
        own = str(fetch(plan.reward_file, Path(scratch))) if plan.reward_file else None
        return {
            name: score_table(questions, table, plan.config.train.rewards, reward_file=own, verifier=verifier)
            for name, table in completions.items()
        }


def _settings(plan: Plan) -> dict[str, str | int | float | bool]:
    chosen = plan.config.evaluate.model_dump(
        include={"questions", "samples", "greedy", "temperature", "top_p", "top_k"}
    )
    return {**chosen, "max_completion_tokens": plan.config.train.max_completion_tokens, "seed": plan.config.seed}


def _note(plan: Plan, found: Evaluation) -> str:
    said = f"{found.verdict}, {100 * found.before.accuracy:.1f} % -> {100 * found.after.accuracy:.1f} %"
    if found.champion and not plan.beginning:
        said += f"; champion {100 * found.champion.accuracy:.1f} %"
    return said


def _metrics(found: Evaluation) -> dict[str, float]:
    rival = found.champion and {"accuracy_champion": found.champion.accuracy}
    return {
        "accuracy_before": found.before.accuracy,
        "accuracy_after": found.after.accuracy,
        "delta": found.delta.value,
        "delta_ci_low": found.delta.ci_low,
        "delta_ci_high": found.delta.ci_high,
        "questions": float(found.n_questions),
        **(rival or {}),
    }


def _record(
    plan: Plan,
    checkpoint: ArtifactRecord,
    trained: ArtifactRecord,
    dataset: ArtifactRecord,
    result: str,
    found: Evaluation,
) -> ArtifactRecord:
    measured = _measured(plan, checkpoint, trained)
    made = plan.record(
        checkpoint,
        kind="evaluation",
        format="jsonl",
        step=trained.step,
        parent_uris=[*(one.data_uri for one in measured.values()), dataset.data_uri],
        data_uri=result,
        extra={"verdict": str(found.verdict), **_metrics(found)},
    )
    record.write(made, result)
    write_manifest(result)
    return made
