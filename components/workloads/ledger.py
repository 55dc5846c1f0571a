"""The attempts at a stage's workload, in `workloads.json` of the stage's folder.

An attempt is written down before its object is created and closed when its end is known, so that a launcher that was
killed at any moment finds out what it had begun: it takes up an open attempt, returns the outcome of one that
succeeded, and begins a new one after a failure. An attempt is closed once; who comes later finds how.
"""

from __future__ import annotations

import time
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from components import storage
from components.record import sha256_of
from components.workloads.workload import Outcome, Workload

FILE = "workloads.json"

State = Literal["open", "succeeded", "failed", "cancelled", "vanished"]


class Attempt(BaseModel):
    """One attempt.

    Attributes:
      number: 1 for the first.
      kind: of the object, as in `engine`.
      name, uid: of the object; uid is None until it is known to exist.
      workload_sha256: what was to be done.
      state: how it is; `vanished` is an object that was gone before its end was seen.
      began, ended: UTC, ISO 8601.
      reason: why it did not succeed.
      outcome: of one that succeeded.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    kind: str
    name: str
    workload_sha256: str
    uid: str | None = None
    state: State = "open"
    began: str
    ended: str | None = None
    reason: str | None = None
    outcome: Outcome | None = None


_ATTEMPTS = TypeAdapter(tuple[Attempt, ...])


def read(stage_dir: str) -> tuple[Attempt, ...]:
    """Returns the attempts, oldest first."""
    file = storage.join(stage_dir, FILE)
    return _ATTEMPTS.validate_json(storage.read_bytes(file)) if storage.exists(file) else ()


def opened(stage_dir: str) -> Attempt | None:
    """Returns the attempt that is under way, if one is."""
    return next((attempt for attempt in read(stage_dir) if attempt.state == "open"), None)


def succeeded(stage_dir: str, workload: Workload) -> Outcome | None:
    """Returns the outcome of this very workload, if the last attempt was at it and succeeded."""
    last = read(stage_dir)[-1:]
    return next((attempt.outcome for attempt in last if attempt.workload_sha256 == sha256_of(workload)), None)


def begin(stage_dir: str, workload: Workload, kind: str, number: int, name: str) -> Attempt:
    """Writes down that an attempt begins."""
    attempt = Attempt(number=number, kind=kind, name=name, workload_sha256=sha256_of(workload), began=_now())
    _write(stage_dir, (*read(stage_dir), attempt))
    return attempt


def created(stage_dir: str, number: int, uid: str) -> Attempt:
    """Writes down that the object of an attempt exists. Returns the attempt, which may have been closed meanwhile."""
    return _change(stage_dir, number, uid=uid)


def close(
    stage_dir: str, number: int, state: State, *, reason: str | None = None, outcome: Outcome | None = None
) -> Attempt:
    """Writes down how an attempt ended. Returns it as it was closed, which may have been by somebody else."""
    return _change(stage_dir, number, state=state, ended=_now(), reason=reason, outcome=outcome)


def _change(stage_dir: str, number: int, **facts: object) -> Attempt:
    attempts = list(read(stage_dir))
    place = next(place for place, attempt in enumerate(attempts) if attempt.number == number)
    if attempts[place].state == "open":
        attempts[place] = attempts[place].model_copy(update=facts)
        _write(stage_dir, tuple(attempts))
    return attempts[place]


def _write(stage_dir: str, attempts: tuple[Attempt, ...]) -> None:
    storage.write_text(storage.join(stage_dir, FILE), _ATTEMPTS.dump_json(attempts, indent=1).decode() + "\n")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
