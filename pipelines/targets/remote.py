"""A run, a template and a schedule on Vertex AI or KFP, as they look from here, and why a run there failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from components import storage
from components.errors import UserError
from components.progress import FAILURE
from components.stage import Failure

ENDED = ("succeeded", "failed", "cancelled")
_FAILURE_LINE = re.compile(rf"{FAILURE}(\w+: .+)")
_GROUP = re.compile(r"(exit-handler|condition(-branches)?|for-loop)-\d+")


@dataclass(frozen=True)
class Task:
    """A task of a run and how it is doing, such as `running` or `skipped`."""

    name: str
    state: str


@dataclass(frozen=True)
class RemoteRun:
    """A run on a target.

    Attributes:
      id: what the target calls it.
      name: what a person calls it.
      url: its page in the target's own UI.
      state: queued, pending, running, paused, cancelling, or one of `ENDED`.
      created: when it was created, ISO 8601.
      tasks: its tasks; empty in a list.
      reason: why it failed, in one line; empty in a list.
    """

    id: str
    name: str
    url: str
    state: str
    created: str = ""
    tasks: tuple[Task, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Template:
    """A pipeline that was uploaded: its version, its page, and whether it was there before."""

    name: str
    version: str
    url: str
    there_before: bool = False


@dataclass(frozen=True)
class Schedule:
    """Runs that a target will start: the name, the page, and when."""

    id: str
    name: str
    url: str
    when: str


def describe(run: RemoteRun) -> str:
    """How a run is doing, as `posttrain status` prints it."""
    lines = [f"{run.name}: {run.state}", f"page: {run.url}"]
    lines += [f"  {task.name:<12} {task.state}" for task in run.tasks]
    if run.reason:
        lines.append(f"{run.state}: {run.reason}")
    return "\n".join(lines)


def listing(runs: Sequence[RemoteRun]) -> str:
    """One line per run, as `posttrain runs` prints them."""
    return "\n".join(f"{run.name:<44} {run.state:<10} {run.created:<25} {run.url}" for run in runs) or "No runs yet."


def refuse_ended(run: RemoteRun) -> None:
    """Raises UserError when there is nothing left to cancel."""
    if run.state in ENDED:
        raise UserError(f"The run {run.name} is not running: it is {run.state}.")


def slug(name: str) -> str:
    """A name that both targets take: lower case letters, digits and hyphens, a letter first, at most 128 characters."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"run-{plain}")[:128].rstrip("-")


def is_group(task: str) -> bool:
    """Whether a task is only the frame of others: an exit handler, a condition, a loop."""
    return bool(_GROUP.fullmatch(task))


def failure_in(line: str) -> str | None:
    """The `stage: reason` of a line of a log, when it is the line that a failing stage ends with."""
    match = _FAILURE_LINE.search(line)
    return match[1].strip() if match else None


def kept_failure(parameters: Mapping[str, object]) -> str | None:
    """The `stage: reason` that a failing stage has kept in the run's directory, where that can be told and read.

    Args:
      parameters: those of the run.
    """
    output, store, run_id = (str(parameters.get(name) or "") for name in ("output", "store", "run_id"))
    run_dir = output or (storage.join(store, "runs", run_id) if store and run_id else "")
    if not run_dir.startswith("gs://"):
        return None
    try:
        failure = Failure.model_validate_json(storage.read_text(storage.join(run_dir, "failure.json")))
    except (UserError, ValidationError):  # none there, or not for this account: the target's own word must do
        return None
    return f"{failure.stage}: {failure.reason}"
