"""Runs that KFP or Vertex AI conducts: started, scheduled, shown and ended from here.

In: a preset and the settings of the target. Out: lines for the person. The YAML that runs is the preset's own, the same
bytes whatever `--set` says: overrides travel as the pipeline's parameter, so the UI shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from components import config, storage
from components.config import AnyConfig
from components.errors import UserError
from components.prepare import prepare
from pipelines import registry
from pipelines.compile import compile_yaml
from pipelines.launch import local_paths
from pipelines.targets import remote
from pipelines.targets.dispatch import PIPELINES


def submit(target: Any, settings: Any, preset: str, overrides: Sequence[str], store: str | None) -> Iterator[str]:
    """Starts a run of the preset and says where to look."""
    chosen, root = _checked(preset, overrides, store)
    run_id = prepare.new_run_id(chosen.preset)
    parameters = {"run_id": run_id, "store": root, "overrides": "\n".join(overrides)}
    made = target.submit(compile_yaml(config.load(preset)), parameters, settings, name=run_id)
    yield f"{made.name}: {made.state}"
    yield f"page: {made.url}"
    yield f"data: {storage.join(root, 'runs', run_id)}"


def upload(target: Any, settings: Any, preset: str) -> Iterator[str]:
    """Puts the preset's pipeline where the target's UI offers it."""
    made = target.upload(compile_yaml(config.load(preset)), settings)
    yield f"{made.name} {made.version}" + (" (it was there already)" if made.there_before else "")
    yield f"page: {made.url}"


def schedule(
    target: Any,
    settings: Any,
    preset: str,
    overrides: Sequence[str],
    store: str | None,
    when: str,
    zone: str | None,
    name: str | None,
) -> Iterator[str]:
    """Has the target start runs of the preset again and again, one at a time, each with a place of its own."""
    chosen, root = _checked(preset, overrides, store)
    parameters = {"store": root, "overrides": "\n".join(overrides)}
    yaml_text = compile_yaml(config.load(preset))
    made = target.schedule(yaml_text, parameters, settings, name=name or chosen.preset, when=when, zone=zone)
    yield f"{made.name}: {made.when}"
    yield f"page: {made.url}"


def runs(target: Any, settings: Any) -> Iterator[str]:
    """The target's runs of this project's pipelines."""
    yield remote.listing(target.runs(settings, pipelines=PIPELINES))


def status(target: Any, settings: Any, run: str) -> Iterator[str]:
    """How a run is doing, and why it failed."""
    yield remote.describe(target.status(run, settings))


def cancel(target: Any, settings: Any, run: str, store: str | None) -> Iterator[str]:
    """Ends a run and what it started in the cluster, which the target's own cancelling leaves running."""
    ended = target.cancel(run, settings)
    yield f"{ended.name}: {ended.state}"
    try:
        plan = registry.read_plan(storage.join(store or "", "runs", ended.name)) if store else None
    except UserError:
        plan = None
    if plan is None:
        yield "What it has in the cluster ends within the silence bound; --store gs://... would end it at once."
    elif plan.config.engine != "process":
        from components.workloads import launch

        yield from launch.cancel(plan)


def _checked(preset: str, overrides: Sequence[str], store: str | None) -> tuple[AnyConfig, str]:
    """The configuration and the store of a run elsewhere, after every check that can be made from here."""
    chosen = config.load(preset, overrides)
    root = store or chosen.store
    if not root or storage.is_local(root):
        raise UserError("A run elsewhere needs a store that it reaches: give --store gs://BUCKET/FOLDER.")
    for section, key in local_paths(chosen):
        raise UserError(
            f"{section}.{key} {chosen.model_dump()[section][key]} is on this machine, which a run elsewhere cannot read: "
            "put it in gs://."
        )
    prepare.check_inputs(chosen)
    return chosen, root
