"""The attempts at a stage's workload, each in a folder of its own below the stage's: attempt-1, attempt-2, ...

An attempt is written down before its object is created and closed when its end is known, so that a launcher that was
killed at any moment finds out what it had begun: it takes up an open attempt, returns the outcome of one that
succeeded, and begins a new one after a failure. Each fact is a file that is written once (`begun.json`, `created.json`,
`closed.json`), so two launchers of a run, or a launcher and `posttrain cancel`, cannot undo what the other has written.
"""

from __future__ import annotations

import time
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from components import storage
from components.record import sha256_of
from components.workloads import names
from components.workloads.workload import Outcome, Workload

BEGUN, CREATED, CLOSED = "begun.json", "created.json", "closed.json"

State = Literal["succeeded", "failed", "cancelled", "vanished"]


class _Fact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    at: str = Field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


class Begun(_Fact):
    """An attempt: of which kind its object is (as in `engine`), its name, and what it is to do."""

    number: int
    directory: str
    kind: str
    name: str
    workload_sha256: str


class Created(_Fact):
    """The object of an attempt exists."""

    uid: str


class Closed(_Fact):
    """How an attempt ended; `vanished` is an object that was gone before its end was seen.

    `reason` says why it did not succeed; `outcome` is of one that did.
    """

    state: State
    reason: str | None = None
    outcome: Outcome | None = None


def attempts(stage_dir: str) -> list[Begun]:
    """Returns the attempts, oldest first."""
    found: list[Begun] = []
    while attempt := _read(_directory(stage_dir, len(found) + 1), BEGUN, Begun):
        found.append(attempt)
    return found


def opened(stage_dir: str) -> Begun | None:
    """Returns the attempt that is under way, if one is."""
    last = attempts(stage_dir)[-1:]
    return next((attempt for attempt in last if closed(attempt) is None), None)


def succeeded(stage_dir: str, workload: Workload) -> Outcome | None:
    """Returns the outcome of this very workload, if the last attempt was at it and succeeded."""
    for last in attempts(stage_dir)[-1:]:
        end = closed(last)
        if end and last.workload_sha256 == sha256_of(workload):
            return end.outcome
    return None


def begin(stage_dir: str, workload: Workload, kind: str) -> Begun:
    """Writes down that the next attempt begins."""
    number = len(attempts(stage_dir)) + 1
    attempt = Begun(
        number=number,
        directory=_directory(stage_dir, number),
        kind=kind,
        name=names.object_name(workload.run_id, workload.stage, number),
        workload_sha256=sha256_of(workload),
    )
    _write(attempt, BEGUN, attempt)
    return attempt


def created(attempt: Begun, uid: str) -> None:
    """Writes down that the object of an attempt exists."""
    _write(attempt, CREATED, Created(uid=uid))


def uid(attempt: Begun) -> str | None:
    """Returns the uid of an attempt's object, where it is known to have been created."""
    fact = _read(attempt.directory, CREATED, Created)
    return fact.uid if fact else None


def close(attempt: Begun, end: Closed) -> Closed:
    """Writes down how an attempt ended. Returns how it was closed, which may have been by somebody else, before."""
    before = closed(attempt)
    if before is None:
        _write(attempt, CLOSED, end)
    return before or end


def closed(attempt: Begun) -> Closed | None:
    """Returns how an attempt ended; None while it is open."""
    return _read(attempt.directory, CLOSED, Closed)


def _directory(stage_dir: str, number: int) -> str:
    return storage.join(stage_dir, f"attempt-{number}")


def _read[T: _Fact](directory: str, file: str, kind: type[T]) -> T | None:
    uri = storage.join(directory, file)
    return kind.model_validate_json(storage.read_bytes(uri)) if storage.exists(uri) else None


def _write(attempt: Begun, file: str, fact: _Fact) -> None:
    storage.write_text(storage.join(attempt.directory, file), fact.model_dump_json(indent=1) + "\n")
