"""The first ten seconds of the report: what happened, how sure that is, and why the verdict is what it is.

In: a `RunRecord`. Out: plain sentences. Nothing is computed here but the choice of words; a run with no evaluation,
with no metrics, or with an error gets its own sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.report.formats import bare_percent, bare_points, count, duration, is_finite, percent, points, quantity
from components.results import Evaluation, Interval, RunRecord, Verdict

TONES = {Verdict.PROMOTE: "good", Verdict.HOLD: "wait", Verdict.REJECT: "bad", Verdict.INVALID: "void"}


@dataclass(frozen=True)
class Headline:
    """A word (`badge`), its colour (`tone`: good, wait, bad, void, done), the answer, the figures in a sentence."""

    badge: str
    tone: str
    title: str
    lede: str


@dataclass(frozen=True)
class Failure:
    """Why a run failed, the line of the log it was read from, where it happened, what to do as (sentence, command)."""

    error: str
    evidence: str
    where: str
    steps: list[tuple[str, str]]


def headline(run: RunRecord) -> Headline:
    """Returns the answer to "did it get better"."""
    if run.evaluation is not None:
        return _of_evaluation(run.evaluation)
    if run.status == "failed":
        return Headline("FAILED", "bad", "The run failed.", "It ended before there was a result to show.")
    if run.metrics:
        return Headline("DONE", "done", "The run finished.", _of_metrics(run.metrics))
    return Headline(
        "DONE",
        "done",
        "The run finished.",
        "It recorded no evaluation, so it does not say whether the model got better.",
    )


def _of_evaluation(e: Evaluation) -> Headline:
    lede = (
        f"On {count(e.n_questions, 'question')} that training never saw, right answers went from "
        f"{percent(e.before.accuracy)} to {percent(e.after.accuracy)}."
    )
    if e.verdict is Verdict.PROMOTE:
        title = "The model got better."
    elif e.verdict is Verdict.HOLD:
        title = "The model got better, but is held back." if e.delta.ci_low > 0 else "Not shown to be better."
    elif e.verdict is Verdict.REJECT:
        title = "The model got worse." if e.delta.ci_high < 0 else "The model is rejected."
    else:
        title = "This is not a valid measurement."
        lede = "Do not act on the figures below: they are shown only to find out what went wrong."
    return Headline(e.verdict.value, TONES[e.verdict], title, lede)


def _of_metrics(metrics: dict[str, float]) -> str:
    for first, last in (("loss_first", "loss_last"), ("first_loss", "last_loss"), ("initial_loss", "final_loss")):
        if first in metrics and last in metrics:
            loss = "mean loss of an epoch" if "epochs" in metrics else "training loss"
            return f"The {loss} went from {quantity(metrics[first])} to {quantity(metrics[last])}."
    return f"It recorded {count(len(metrics), 'figure')}, listed below."


def certainty(e: Evaluation) -> list[str]:
    """Returns sentences on how sure the difference is, the most telling first."""
    if e.verdict is Verdict.INVALID:
        return []
    sentences = [_of_interval(e.delta)] if _shown(e.delta) else []
    clusters = "" if e.n_clusters == e.n_questions else f", in {e.n_clusters:,} groups of related questions"
    sentences.append(
        f"Both models answered the same {count(e.n_questions, 'question')} {_times(e.samples_per_question)} each"
        f"{clusters}; the difference is taken question by question."
    )
    if e.delta_vs_champion is not None and e.champion is not None and _shown(e.delta_vs_champion):
        d = e.delta_vs_champion
        sentences.append(
            f"Against the champion ({percent(e.champion.accuracy)}) it is {points(d.value)}, "
            f"95{chr(0xA0)}% interval {bare_points(d.ci_low)} to {bare_points(d.ci_high)}."
        )
    return sentences


def _of_interval(d: Interval) -> str:
    if d.ci_low > 0:
        return "The whole interval lies above zero, so the choice of questions does not explain the gain."
    if d.ci_high < 0:
        return "The whole interval lies below zero, so the choice of questions does not explain the loss."
    return (
        f"The interval includes zero: a loss of {bare_percent(abs(d.ci_low))} points and a gain of "
        f"{bare_percent(abs(d.ci_high))} points both fit what was seen."
    )


def failure(run: RunRecord) -> Failure | None:
    """Returns what a failed run must say first, or None for a run that did not fail."""
    if run.status != "failed" and not run.error:
        return None
    failed = next((s for s in run.stages if s.status == "failed"), None)
    done = [s.name for s in run.stages if s.status == "succeeded"]
    error, _, evidence = (run.error or (failed.note if failed else "") or _invalid(run)).partition(" Evidence: ")
    if failed:
        error = error.removeprefix(f"{failed.name}: ")
        where = f"Stage {failed.name} failed, {duration(run.seconds)} into the run."
    else:
        where = f"It ended {duration(run.seconds)} into the run."
    where += f" Finished: {', '.join(done)}." if done else " Nothing was finished before it."
    steps = [("See what led to it: the end of log.txt beside this page, and", f"posttrain status {run.run_id}")]
    if done:
        steps.append(
            (
                "If the cause lies outside the configuration, mend it and go on from what is finished:",
                f"posttrain run --resume {run.run_id}",
            )
        )
        steps.append(
            ("If it is a setting, start again with it changed:", f"posttrain run {run.preset} --set KEY=VALUE")
        )
    else:
        steps.append(("Mend the cause, then start again:", f"posttrain run {run.preset}"))
    return Failure(error[:1].upper() + error[1:], evidence, where, steps)


def _invalid(run: RunRecord) -> str:
    e = run.evaluation
    if e is not None and e.verdict is Verdict.INVALID and e.reasons:
        return f"The evaluation is not valid: {e.reasons[0]}"
    return "No reason was recorded."


def _shown(d: Interval) -> bool:
    return all(is_finite(v) for v in (d.value, d.ci_low, d.ci_high))


def _times(n: int) -> str:
    return {1: "once", 2: "twice"}.get(n, f"{n}{chr(0xA0)}times")
