"""From what was typed to a `Plan`: a fresh run, or the continuation of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from components import config
from components.errors import UserError
from components.plan import Plan
from components.prepare import prepare
from pipelines import registry

_PATHS = (
    ("model", "source"),
    ("data", "train"),
    ("data", "evaluation"),
    ("data", "template"),
    ("train", "reward_file"),
)


def fresh_plan(preset: str, overrides: Sequence[str], output: str | None, store: str | None) -> Plan:
    """Returns the plan of a run that has not begun; every check that needs no spending is done."""
    the_config = anchored(config.load(preset, overrides))
    for option, place in (("--output", output), ("--store", store or the_config.store)):
        if place and "://" in place:
            raise UserError(f"A run on this machine writes to this machine: {option} {place} is no local directory.")
    run_id = prepare.new_run_id(the_config.preset)
    return prepare.make_plan(
        the_config,
        run_id=run_id,
        run_dir=str(Path(output or f"runs/{run_id}").absolute()),
        store=str(Path(store or the_config.store or "store").absolute()),
        where="local",
    )


def anchored(the_config: config.Config) -> config.Config:
    """The configuration with local paths made absolute: stages and a later resume may start in another directory."""
    tree = the_config.model_dump(mode="json")
    for section, key in _PATHS:
        path = tree[section][key]
        if path and "://" not in path:
            tree[section][key] = str(Path(path).absolute())
    return config.parse(tree)


def resumed_plan(run: str, preset: str | None, overrides: Sequence[str], store: str) -> Plan:
    """Returns the plan of a run that was interrupted, for its next attempt; its configuration is the one that it
    began with.
    """
    if preset or overrides:
        raise UserError("A resumed run keeps its configuration: leave out PRESET and --set, or start a new run.")
    entry = registry.find(store, run)
    if entry.status == "running":
        raise UserError(
            f"The run {entry.run_id} is still running: wait for it, or `posttrain cancel {entry.run_id}` first."
        )
    if entry.status == "succeeded":
        raise UserError(f"The run {entry.run_id} has succeeded: there is nothing to continue. Start a new run instead.")
    plan = registry.read_plan(entry.run_dir)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return plan.model_copy(update={"attempt": plan.attempt + 1, "attempt_started": now})
