"""The list of runs, kept in the store: `<store>/runs/<run id>.json` says where a run's directory is.

So `status`, `cancel` and `--resume` find a run by its name wherever its output is. A run that is not there is a
`UserError` with the nearest name.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from pydantic import ValidationError

from components import storage, transfer
from components.errors import UserError, did_you_mean
from components.plan import PLAN, AnyPlan
from components.results import RunRecord

RUN = "run.json"
PID = "run.pid"


@dataclass(frozen=True)
class Entry:
    """A run as the list shows it. `status` is running, succeeded, failed, stopped (it ended without saying how), or
    elsewhere (KFP or Vertex AI knows).
    `home` is its directory on the machine that conducts it, empty for KFP and Vertex AI.
    """

    run_id: str
    run_dir: str
    home: str
    preset: str
    started: str
    status: str
    record: RunRecord | None


def entries(store: str) -> list[Entry]:
    """Every listed run, newest first. What is gone or damaged is left out, so that it does not hide the others.

    In a bucket it costs two requests for a run that ended well and a few more for another, many at once.
    """
    folder = storage.join(store, "runs")
    names = [name for name, _ in storage.list_files(folder, deep=False) if name.endswith(".json")]
    found = transfer.run([partial(_listed, storage.join(folder, name)) for name in names])
    return sorted(filter(None, found), key=lambda e: e.started, reverse=True)


def _listed(uri: str) -> Entry | None:
    place = _place(uri)
    found = _entry(place) if place else None
    return found if found and (found.record or storage.exists(storage.join(found.run_dir, PLAN))) else None


def _place(uri: str) -> dict[str, str] | None:
    try:
        place = json.loads(storage.read_text(uri))
        return {key: place[key] for key in ("run_id", "run_dir", "home", "preset", "started")}
    except (ValueError, KeyError, TypeError):
        return None


def find(store: str, run: str) -> Entry:
    """The run of that name, or in that directory."""
    listed = storage.join(store, "runs", f"{run}.json")
    if "/" not in run and storage.exists(listed) and (named := _listed(listed)):
        return named
    every = entries(store)
    for entry in every:
        if run == entry.run_dir or str(Path(run).absolute()) == entry.home:
            return entry
    place = run if "://" in run else str(Path(run).absolute())
    if storage.exists(storage.join(place, PLAN)):
        return _entry(_fields(read_plan(place)) | {"home": place})
    raise UserError(
        f"There is no run '{run}' in {store}.{did_you_mean(run, [e.run_id for e in every])} `posttrain runs` lists them."
    )


def _fields(plan: AnyPlan) -> dict[str, str]:
    return {"run_id": plan.run_id, "run_dir": plan.run_dir, "preset": plan.config.preset, "started": plan.started}


def read_plan(run_dir: str) -> AnyPlan:
    """The plan of the run in a directory; UserError when it is damaged."""
    try:
        return AnyPlan.parse(storage.read_text(storage.join(run_dir, PLAN)))
    except ValidationError as error:
        raise UserError(f"The plan of {run_dir} is damaged or of another version: start a new run.") from error


def _entry(place: dict[str, str]) -> Entry:
    run_dir = place["run_dir"]
    record = None
    with contextlib.suppress(UserError, ValidationError):  # there is none, or it is damaged or of another version
        record = RunRecord.model_validate_json(storage.read_bytes(storage.join(run_dir, RUN)))
    if place["home"] and _alive(Path(place["home"]) / PID):
        status = "running"
    elif record:
        status = record.status
    elif place["home"]:
        status = "stopped"  # whatever its stages said when their conductor was gone
    else:
        status = "failed" if storage.exists(storage.join(run_dir, "failure.json")) else "elsewhere"
    return Entry(place["run_id"], run_dir, place["home"], place["preset"], place["started"], status, record)


def _alive(pid_file: Path) -> bool:
    """Whether the process that wrote the file still runs: a process of that number that is older than the file."""
    try:
        process = psutil.Process(int(pid_file.read_text()))
        return process.create_time() <= pid_file.stat().st_mtime + 1
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return False
