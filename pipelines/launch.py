"""From what was typed to a `Run`: a fresh one, or the continuation of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from components import config, storage
from components.errors import UserError
from components.plan import AnyPlan
from components.prepare import prepare
from pipelines import registry

_PATHS = (
    ("model", "source"),
    ("data", "train"),
    ("data", "evaluation"),
    ("data", "template"),
    ("data", "source"),
    ("train", "reward_file"),
)


@dataclass(frozen=True)
class Run:
    """A run and its home: the directory of this machine with its lock, log and page. A run in Cloud Storage has its
    data there, any other at home.
    """

    plan: AnyPlan
    home: Path


def fresh(preset: str, overrides: Sequence[str], output: str | None, store: str | None) -> Run:
    """Returns a run that has not begun; every check that needs no spending is done."""
    the_config = anchored(config.load(preset, overrides))
    if output and "://" in output:
        raise UserError(f"--output {output} is no directory of this machine; --store may be in gs://.")
    run_id = prepare.new_run_id(the_config.preset)
    home = Path(output or f"runs/{run_id}").absolute()
    root = rooted(store or the_config.store)
    prepare.refuse_occupied(str(home))
    plan = prepare.make_plan(
        the_config,
        run_id=run_id,
        run_dir=str(home) if storage.is_local(root) else storage.join(root, "runs", run_id),
        store=root,
        where="local",
    )
    return Run(plan, home)


def rooted(store: str | None) -> str:
    """The root of a store: an address in gs://, or an absolute path."""
    root = store or "store"
    return str(Path(root).absolute()) if storage.is_local(root) else root


def anchored(the_config: config.AnyConfig) -> config.AnyConfig:
    """The configuration with local paths made absolute: stages and a later resume may start in another directory."""
    tree = the_config.model_dump(mode="json")
    for section, key in local_paths(the_config):
        tree[section][key] = str(Path(tree[section][key]).absolute())
    return config.parse(tree)


def local_paths(the_config: config.AnyConfig) -> list[tuple[str, str]]:
    """The settings, as section and key, that name a file or folder of this machine."""
    tree = the_config.model_dump(mode="json")
    given = {(section, key): tree.get(section, {}).get(key) for section, key in _PATHS}
    return [setting for setting, path in given.items() if path and "://" not in path]


def resumed(run: str, preset: str | None, overrides: Sequence[str], store: str | None) -> Run:
    """Returns a run that was interrupted, for its next attempt; its configuration is the one that it began with."""
    if preset or overrides:
        raise UserError("A resumed run keeps its configuration: leave out PRESET and --set, or start a new run.")
    entry = registry.find(rooted(store), run)
    if entry.status == "running":
        raise UserError(
            f"The run {entry.run_id} is still running: wait for it, or `posttrain cancel {entry.run_id}` first."
        )
    if entry.status == "succeeded":
        raise UserError(f"The run {entry.run_id} has succeeded: there is nothing to continue. Start a new run instead.")
    plan = registry.read_plan(entry.run_dir)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Run(plan.model_copy(update={"attempt": plan.attempt + 1, "attempt_started": now}), Path(entry.home))
