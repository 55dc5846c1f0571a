"""A run, a template and a schedule on Vertex AI or KFP, as they look from here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from components.errors import UserError

ENDED = ("succeeded", "failed", "cancelled")


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
