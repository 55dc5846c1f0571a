"""Tells a Slack-compatible webhook how a run ended: one POST of `{"text": ...}`.

The address is a secret: the variable POSTTRAIN_WEBHOOK, else the resource that `secrets.webhook` names; without either
nobody is told. A webhook that fails is one line of the log and fails nothing, and its address is never printed.
"""

from __future__ import annotations

import html

from components import secrets
from components.errors import UserError
from components.progress import say
from components.results import RunRecord

_TIMEOUT_S = 5.0


def finished(run: RunRecord) -> None:
    """Tells how a run ended that got to its end: verdict, figures, and where model and report are."""
    lines = [f"*{run.run_id}*: finished"]
    if e := run.evaluation:
        lines = [
            f"*{run.run_id}*: *{e.verdict}*. Accuracy {e.before.accuracy:.1%} to {e.after.accuracy:.1%} on "
            f"{e.n_questions} questions, difference {100 * e.delta.value:+.1f} points ({100 * e.delta.ci_low:+.1f} to "
            f"{100 * e.delta.ci_high:+.1f}).",
            *e.reasons[:1],
        ]
    published = run.published and [run.published.hub, run.published.vertex]
    places = {
        "Published": ", ".join(place for place in published or () if place),
        "Model": run.model_uri,
        "Report": run.report_uri,
    }
    _post("report", lines + [f"{what}: {where}" for what, where in places.items() if where])


def failed(run_id: str, stage: str, reason: str) -> None:
    """Tells that a run failed, in which stage and why."""
    _post(stage, [f"*{run_id}*: *FAILED* in {stage}", reason])


def _post(stage: str, lines: list[str]) -> None:
    import requests  # type: ignore[import-untyped]

    text = html.escape("\n".join(lines), quote=False)  # else Slack reads links and mentions
    try:
        address = secrets.value(secrets.WEBHOOK)
        if address is None:
            return
        answer = requests.post(address, json={"text": text}, timeout=_TIMEOUT_S)
        problem = "" if answer.ok else f"it answered {answer.status_code}"
    except UserError as error:
        problem = str(error)
    except requests.RequestException as error:
        problem = type(error).__name__  # its text has the address
    if problem:
        say(stage, f"the webhook was not told: {problem}")
