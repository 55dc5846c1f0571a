"""Serve: vLLM serves exactly the exported directory, and a client finds out whether that is the trained model.

In: the exported model, the source model (its tokenizer says what prompts training saw), the evaluation (its greedy answers
to the same questions), the questions. Out: `serve/result` with `serving.json`, all answers and the server's log. A
damaged export, a server that does not serve, and answers that are not those of the trained model raise; where there is no
vLLM the check is `not run`, which is no pass.
"""

from __future__ import annotations

import io
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from components import manifest, record, storage
from components.errors import WorkloadError
from components.fetch import TOKENIZER_FILES, fetch
from components.plan import Plan
from components.progress import say
from components.record import ArtifactRecord
from components.results import ServingCheck
from components.rewards.verifier import Verifier
from components.serve import job
from components.serve.judge import Judged, accuracies, findings, max_logprob_diff
from components.serve.prompts import prompts
from components.serve.spec import PROGRESS, REPORT, Answers, Question, Report
from components.sources import dataset as questions_of
from components.stage import StageResult
from components.workloads import engine, machines
from components.workloads.interpreter import NoEnvironment, interpreter
from components.workloads.workload import Cpu

SERVING = "serving.json"
_TOLERANCES = {"float32": 1e-4, "bfloat16": 0.5}


def serve(
    plan: Plan, exported: ArtifactRecord, model: ArtifactRecord, evaluation: ArtifactRecord, dataset: ArtifactRecord
) -> StageResult:
    """Returns the record `serving` and what was measured as scalars."""
    record.expect(exported, "hf-model")
    record.expect(evaluation, "evaluation")
    for old in ("manifest.json", SERVING):  # of an earlier attempt
        storage.delete_file(storage.join(job.result_dir(plan), old))
    try:
        manifest.check(exported.data_uri)
    except manifest.IncompleteError as error:
        raise _not_served(plan, f"The exported model is damaged: {error}. Export it again.", []) from error
    table = questions_of.read(dataset.data_uri, "eval").head(plan.config.serve.questions)
    asked = _write_questions(plan, table, model, dataset)
    report = _measure(plan, exported)
    check = _judged(plan, asked, table, evaluation, report)
    _write(plan, check)
    if check.status == "failed":
        raise WorkloadError("serve", check.reason, check.findings[1:])
    return StageResult(
        records={"serving": _record(plan, exported, evaluation, check)}, metrics=_metrics(check), note=_note(check)
    )


def _write_questions(plan: Plan, table: pd.DataFrame, model: ArtifactRecord, dataset: ArtifactRecord) -> list[Question]:
    template = storage.read_text(storage.join(dataset.data_uri, "template.json"))
    with tempfile.TemporaryDirectory() as scratch:
        source = fetch(model.data_uri, Path(scratch), TOKENIZER_FILES)
        asked = prompts(dict(zip(table["id"], table["question"], strict=True)), template, source)
    storage.write_text(job.questions_file(plan), "".join(question.model_dump_json() + "\n" for question in asked))
    return asked


def _measure(plan: Plan, exported: ArtifactRecord) -> Report:
    """Runs the check on the engine. A server that did not serve, or a check that did not end, raises."""
    if plan.config.engine == "process":
        try:
            interpreter("serving")
        except NoEnvironment as none:
            return Report(absent=str(none))
    file = storage.join(job.result_dir(plan), REPORT)
    if storage.exists(file) and _read(file).answers is None:
        storage.delete_file(file)  # of an attempt that measured nothing
    try:
        engine.run(plan, job.workload(plan, exported), _progress)
    except WorkloadError as error:
        fault = _read(file).fault if storage.exists(file) else None
        if fault is None:
            raise _not_served(plan, error.reason, list(error.evidence)) from error
        raise _not_served(plan, fault.reason, fault.evidence) from error
    return _read(file)


def _read(report: str) -> Report:
    return Report.model_validate_json(storage.read_bytes(report))


def _progress(line: str) -> None:
    if line.startswith(PROGRESS):
        say("serve", line.removeprefix(PROGRESS))


def _judged(
    plan: Plan, asked: list[Question], table: pd.DataFrame, evaluation: ArtifactRecord, report: Report
) -> ServingCheck:
    if report.answers is None:
        return ServingCheck(status="not run", reason=report.absent or "", **_conditions(plan))
    answers = report.answers
    served, evaluated = _served(table, answers), _evaluated(table, evaluation)
    found = findings(
        job.served_name(plan),
        asked,
        answers,
        report.compared,
        served,
        evaluated,
        # a TPU multiplies float32 in pieces of bfloat16
        exact=job.dtype(plan) == "float32" and plan.config.tpu is None,
        tolerance=_tolerance(plan),
    )
    accuracy = accuracies(served, evaluated)
    return ServingCheck(
        status="failed" if found else "passed",
        reason=found[0] if found else "",
        findings=found,
        vllm=answers.vllm,
        ready_s=report.ready_s,
        n_prompts=len(report.compared),
        n_greedy_equal=sum(one.greedy == one.tokens for one in report.compared),
        max_logprob_diff=max_logprob_diff(report.compared),
        n_questions=len(served),
        accuracy=accuracy.served,
        evaluated_accuracy=accuracy.evaluated,
        evaluated_ci_low=accuracy.ci_low,
        evaluated_ci_high=accuracy.ci_high,
        n_answers_equal=sum(here.text == there.text for here, there in zip(served, evaluated, strict=True)),
        truncation_rate=statistics.fmean(not answer.ended for answer in served),
        evaluated_truncation_rate=statistics.fmean(not answer.ended for answer in evaluated),
        first_token_s=statistics.median(answers.speed.first_token_s),
        tokens_per_s_alone=answers.speed.tokens_per_s_alone,
        tokens_per_s_at_once=answers.speed.tokens_per_s_at_once,
        **_conditions(plan),
    )


def _served(table: pd.DataFrame, answers: Answers) -> list[Judged]:
    """The answers over HTTP, scored by the verifier that scores the evaluation's."""
    golds = [json.loads(gold) for gold in table["answer"]]
    with Verifier() as verifier:
        scores = verifier.verify_many(golds, [answer.text for answer in answers.at_once])
    return [
        Judged(answer.text, bool(score.correct), answer.ended)
        for answer, score in zip(answers.at_once, scores, strict=True)
    ]


def _evaluated(table: pd.DataFrame, evaluation: ArtifactRecord) -> list[Judged]:
    """The evaluation's greedy answers to the same questions."""
    scored = pd.read_parquet(io.BytesIO(storage.read_bytes(storage.join(evaluation.data_uri, "scored-after.parquet"))))
    greedy = scored[scored["greedy"]].set_index("id").loc[table["id"]]
    return [
        Judged(str(text), bool(correct), not truncated)
        for text, correct, truncated in zip(greedy["completion"], greedy["correct"], greedy["truncated"], strict=True)
    ]


def _conditions(plan: Plan) -> dict[str, Any]:
    """What a result says of the check whether or not it came about."""
    needs = machines.server(plan.config)
    return {
        "machine": "cpu" if isinstance(needs, Cpu) else needs.slice.name,
        "dtype": job.dtype(plan),
        "concurrency": plan.config.serve.concurrency,
        "logprob_tolerance": _tolerance(plan),
    }


def _tolerance(plan: Plan) -> float:
    return plan.config.serve.logprob_tolerance or _TOLERANCES[job.dtype(plan)]


def _not_served(plan: Plan, reason: str, evidence: list[str]) -> WorkloadError:
    """Keeps the result of a check in which nothing was measured, for the report, and returns the error."""
    _write(plan, ServingCheck(status="failed", reason=reason, **_conditions(plan)))
    return WorkloadError("serve", reason, evidence)


def _write(plan: Plan, check: ServingCheck) -> None:
    storage.write_text(storage.join(job.result_dir(plan), SERVING), check.model_dump_json(indent=1))


def _note(check: ServingCheck) -> str:
    if check.status == "not run":
        return f"not run: {check.reason}"
    return (
        f"vLLM {check.vllm}: {check.n_greedy_equal} of {check.n_prompts} greedy answers are those of transformers, log "
        f"probabilities within {check.max_logprob_diff:.1g}; {check.accuracy:.1%} of {check.n_questions} questions right, "
        f"evaluated {check.evaluated_accuracy:.1%}"
    )


def _metrics(check: ServingCheck) -> dict[str, float]:
    """Every figure that was measured."""
    if check.status == "not run":
        return {}
    return {name: float(value) for name, value in check.model_dump().items() if isinstance(value, int | float)}


def _record(plan: Plan, exported: ArtifactRecord, evaluation: ArtifactRecord, check: ServingCheck) -> ArtifactRecord:
    made = plan.record(
        exported,
        kind="serving-check",
        format="json",
        step=exported.step,
        parent_uris=[exported.data_uri, evaluation.data_uri],
        data_uri=job.result_dir(plan),
        extra={"status": check.status, "vllm": check.vllm or "", **_metrics(check)},
    )
    record.write(made, made.data_uri)
    manifest.write_manifest(made.data_uri)
    return made
