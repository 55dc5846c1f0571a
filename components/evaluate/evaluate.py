"""Evaluate: base and trained checkpoint on the same held-out questions, with the same sampler and settings, then the
verdict.

In: both checkpoints, the model directory (tokenizer), the questions. Out: `completions-<name>.jsonl`, the per-question
table `scored.parquet`, `evaluation.json`. The generation runs in one process for both checkpoints, with MaxText's own
rollout; scoring and statistics run here. Its files are written anew every time, so no question is counted twice.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pandas as pd

from components import maxtext_args, record, storage
from components.evaluate.gate import evaluate_pair
from components.evaluate.score import score_table
from components.manifest import write_manifest
from components.maxtext_runtime.generate_spec import Checkpoint, Spec
from components.plan import Plan
from components.progress import Countdown, say
from components.record import ArtifactRecord
from components.results import Evaluation
from components.rewards import maxtext_rewards
from components.rewards.verifier import Verifier
from components.stage import StageResult
from components.workloads import environment, process
from components.workloads.workload import Workload

BEFORE, AFTER = "before", "after"
RESULT = "result"
_GENERATE = "components.maxtext_runtime.generate"
_PROGRESS = re.compile(r"^generate: (\w+) (\d+)/(\d+)")


def evaluate(
    plan: Plan, checkpoint: ArtifactRecord, trained: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord
) -> StageResult:
    """Returns the record `evaluation` and its scalars; the verdict is in both."""
    record.expect(checkpoint, "maxtext-checkpoint")
    record.expect(trained, "rl-checkpoint")
    here = Path(plan.stage_dir("evaluate"))
    storage.delete_tree(str(here))
    result = here / RESULT
    result.mkdir(parents=True)
    questions = _questions(plan, dataset)
    completions = _generate(plan, {BEFORE: checkpoint, AFTER: trained}, model, dataset, questions, here)
    say("evaluate", f"scoring {sum(len(table) for table in completions.values())} completions")
    train = plan.config.train
    with Verifier() as verifier:
        scored = {
            name: score_table(questions, table, train.rewards, reward_file=train.reward_file, verifier=verifier)
            for name, table in completions.items()
        }
    found = evaluate_pair(
        questions,
        scored[BEFORE],
        scored[AFTER],
        policy=plan.config.evaluate.gate,
        settings=_settings(plan),
        seed=plan.config.seed,
    )
    for name, table in scored.items():
        table.to_parquet(result / f"scored-{name}.parquet", index=False)
    storage.write_text(str(result / "evaluation.json"), found.model_dump_json(indent=1))
    return StageResult(
        records={"evaluation": _record(plan, checkpoint, trained, dataset, result, found)},
        metrics=_metrics(found),
        note=f"{found.verdict}, {100 * found.before.accuracy:.1f} % -> {100 * found.after.accuracy:.1f} %",
    )


def _questions(plan: Plan, dataset: ArtifactRecord) -> pd.DataFrame:
    """The first `evaluate.questions` held-out questions: id, question, answer (list of texts), cluster."""
    table = pd.read_parquet(storage.join(dataset.data_uri, "eval.parquet")).head(plan.config.evaluate.questions)
    table["answer"] = [json.loads(answers) for answers in table["answer"]]
    return table


def _generate(
    plan: Plan,
    checkpoints: dict[str, ArtifactRecord],
    model: ArtifactRecord,
    dataset: ArtifactRecord,
    questions: pd.DataFrame,
    here: Path,
) -> dict[str, pd.DataFrame]:
    config = plan.config
    questions[["id", "question"]].to_json(here / "questions.jsonl", orient="records", lines=True)
    spec = Spec(
        questions=str(here / "questions.jsonl"),
        checkpoints=tuple(
            Checkpoint(
                name, storage.join(r.data_uri, str(r.extra["items"])), str(here / RESULT / f"completions-{name}.jsonl")
            )
            for name, r in checkpoints.items()
        ),
        samples_per_question=config.evaluate.samples,
        greedy=config.evaluate.greedy,
        temperature=config.evaluate.temperature,
        top_p=config.evaluate.top_p,
        top_k=config.evaluate.top_k,
        max_new_tokens=config.train.max_completion_tokens,
        seed=config.seed,
    )
    spec.write(here / "spec.json")
    arguments = maxtext_args.train_rl(
        config,
        rl_yml=str(maxtext_args.rl_yml()),
        run_name="evaluate",
        output=str(here),
        parameters=spec.checkpoints[0].load_parameters_path,
        model=model.data_uri,
        dataset=dataset.data_uri,
        reward_file=str(Path(maxtext_rewards.__file__)),
    )
    workload = Workload(
        stage="evaluate",
        run_id=plan.run_id,
        command=(sys.executable, "-m", _GENERATE, "--spec", str(here / "spec.json"), *arguments),
        env=environment.cpu(plan),
        deadline_s=config.evaluate.deadline_s,
    )
    total = len(questions) * spec.passes
    say("evaluate", f"{len(questions)} questions x {spec.passes} completions, before and after")
    countdown = Countdown(2 * total)

    def on_line(line: str) -> None:
        print(f"evaluate | {line}", flush=True)
        if match := _PROGRESS.match(line):
            done = int(match[2]) + (total if match[1] == AFTER else 0)
            left = countdown.left(done)
            say("evaluate", f"{done}/{2 * total} completions" + (f", {left} left" if left else ""))

    process.run(workload, here / "log.txt", on_line)
    return {c.name: pd.read_json(c.output, lines=True, dtype={"id": str, "completion": str}) for c in spec.checkpoints}


def _settings(plan: Plan) -> dict[str, str | int | float | bool]:
    chosen = plan.config.evaluate.model_dump(
        include={"questions", "samples", "greedy", "temperature", "top_p", "top_k"}
    )
    return {**chosen, "max_completion_tokens": plan.config.train.max_completion_tokens, "seed": plan.config.seed}


def _metrics(found: Evaluation) -> dict[str, float]:
    return {
        "accuracy_before": found.before.accuracy,
        "accuracy_after": found.after.accuracy,
        "delta": found.delta.value,
        "delta_ci_low": found.delta.ci_low,
        "delta_ci_high": found.delta.ci_high,
        "questions": float(found.n_questions),
    }


def _record(
    plan: Plan,
    checkpoint: ArtifactRecord,
    trained: ArtifactRecord,
    dataset: ArtifactRecord,
    result: Path,
    found: Evaluation,
) -> ArtifactRecord:
    made = plan.record(
        checkpoint,
        kind="evaluation",
        format="jsonl",
        step=trained.step,
        parent_uris=[checkpoint.data_uri, trained.data_uri, dataset.data_uri],
        data_uri=str(result),
        extra={"verdict": str(found.verdict), **_metrics(found)},
    )
    record.write(made, result)
    write_manifest(result)
    return made
