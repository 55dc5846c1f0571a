"""Target `kfp`: the compiled YAML on self-hosted Kubeflow Pipelines.

In: the YAML, values for its parameters, and `KfpSettings`. Out: a version of a pipeline, a run, or a recurring run. What
can be checked here is checked before anything is called; an answer other than yes is a `UserError` of one line.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from components.errors import UserError, did_you_mean
from components.refusal import LOOK_FIRST
from pipelines import cron
from pipelines.targets import remote
from pipelines.targets.compiled import Compiled, Value
from pipelines.targets.kfp_client import Kfp, KfpSettings, connect, errors
from pipelines.targets.kfp_log import reason, tasks_of
from pipelines.targets.remote import RemoteRun, Schedule, Template

_PAGE = 200  # entries asked for at once: the most that KFP gives
_STATES = {"canceling": "cancelling", "canceled": "cancelled"}
_EQUALS, _CONTAINS = 1, 9  # operations of KFP's filters


def upload(yaml_text: str, settings: KfpSettings) -> Template:
    """Puts the pipeline under its name and the preset's, as a version that is named after its bytes.

    The same bytes are the same version, so a second upload changes nothing. The UI offers the newest version first.
    """
    compiled = Compiled(yaml_text)
    compiled.check({})
    with errors("take the pipeline", settings):
        version = _uploaded(connect(settings), compiled)
    page = settings.page(f"pipelines/details/{version.pipeline_id}/version/{version.version_id}")
    return Template(_name(compiled), compiled.version, page, version.there_before)


def submit(yaml_text: str, parameters: Mapping[str, Value], settings: KfpSettings, *, name: str) -> RemoteRun:
    """Uploads the pipeline and starts a run of that name; so the run's page shows the version and can clone it."""
    compiled = Compiled(yaml_text)
    compiled.check(parameters)
    with errors(f"start {name}", settings, LOOK_FIRST):
        kfp = connect(settings)
        run = {"display_name": name, **_what_runs(kfp, compiled, parameters, settings)}
        return _run(kfp.runs.run_service_create_run(run, **kfp.limits), settings)


def schedule(
    yaml_text: str,
    parameters: Mapping[str, Value],
    settings: KfpSettings,
    *,
    name: str,
    when: str,
    zone: str | None,
) -> Schedule:
    """Has runs started again and again, at most one at a time; what is missed meanwhile is not made up for.

    Args:
      when: five-field cron.
      zone: an IANA time zone; None is that of the installation.
    """
    times = cron.parse(when, zone or settings.server_time_zone)
    six_fields = times.kfp(cron.known_zone(settings.server_time_zone))
    compiled = Compiled(yaml_text)
    compiled.check_recurring(parameters)
    with errors(f"schedule {name}", settings, LOOK_FIRST):
        kfp = connect(settings)
        _refuse_second(kfp, name, settings)
        recurring = {
            "display_name": name,
            "trigger": {"cron_schedule": {"cron": six_fields}},
            "max_concurrency": "1",
            "no_catchup": True,
            "mode": "ENABLE",
            **_what_runs(kfp, compiled, parameters, settings),
        }
        made = kfp.recurring_runs.recurring_run_service_create_recurring_run(recurring, **kfp.limits)
    return Schedule(made.recurring_run_id, name, _schedule_page(made, settings), str(times))


def runs(settings: KfpSettings, *, pipelines: Sequence[str], limit: int = 50) -> list[RemoteRun]:
    """The newest runs of the pipelines of these names, of whatever preset and whoever started them, newest first."""
    with errors("list runs", settings):
        kfp = connect(settings)
        ours = {*pipelines, *(id_ for name in pipelines for id_ in _ids_of(kfp, name))}
        return [_run(run, settings) for run in _newest(kfp) if _pipeline_of(run) in ours][:limit]


def status(run: str, settings: KfpSettings) -> RemoteRun:
    """How a run is doing, and why it failed. `run` is its name or its id."""
    with errors(f"show {run}", settings):
        kfp = connect(settings)
        found = _find(kfp, run, settings)
        details = (found.run_details and found.run_details.task_details) or []
        seen = _run(found, settings)
        why = reason(kfp, seen, details) if seen.state == "failed" else ""
    return replace(seen, tasks=tasks_of(details), reason=why)


def cancel(run: str, settings: KfpSettings) -> RemoteRun:
    """Ends a run. KFP kills its pods without time to act; what they started elsewhere is the caller's to end."""
    with errors(f"cancel {run}", settings):
        kfp = connect(settings)
        found = _run(_find(kfp, run, settings), settings)
        remote.refuse_ended(found)
        kfp.runs.run_service_terminate_run(found.id, **kfp.limits)
    return replace(found, state="cancelling")


# -- pipelines and their versions --------------------------------------------------------------------------------------


class _Version(NamedTuple):
    pipeline_id: str
    version_id: str
    there_before: bool


def _name(compiled: Compiled) -> str:
    """One pipeline for each preset: the UI then offers the newest version of the preset that was picked."""
    return remote.slug(f"{compiled.name}-{compiled.preset}")


def _uploaded(kfp: Kfp, compiled: Compiled) -> _Version:
    """The version with these bytes, made where it is not there."""
    pipeline_id = _pipeline_id(kfp, compiled)
    same = _where("display_name", _EQUALS, compiled.version)
    found = kfp.pipelines.pipeline_service_list_pipeline_versions(pipeline_id, filter=same, **kfp.limits)
    if found.pipeline_versions:
        return _Version(pipeline_id, found.pipeline_versions[0].pipeline_version_id, True)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "pipeline.yaml"
        path.write_text(compiled.text)
        made = kfp.uploads.upload_pipeline_version(
            str(path), name=compiled.version, pipelineid=pipeline_id, description=compiled.description, **kfp.limits
        )
    return _Version(pipeline_id, made.pipeline_version_id, False)


def _pipeline_id(kfp: Kfp, compiled: Compiled) -> str:
    from kfp_server_api import ApiException  # type: ignore[import-untyped]

    name = _name(compiled)
    try:
        found = kfp.pipelines.pipeline_service_get_pipeline_by_name(name, **kfp.scope, **kfp.limits)
    except ApiException as error:
        if error.status != 404:
            raise
        pipeline = {"name": name, "display_name": name, "description": compiled.description, **kfp.scope}
        found = kfp.pipelines.pipeline_service_create_pipeline(pipeline, **kfp.limits)
    return str(found.pipeline_id)


def _ids_of(kfp: Kfp, name: str) -> list[str]:
    """The pipelines of all presets of the pipeline of that name."""
    found = kfp.pipelines.pipeline_service_list_pipelines(
        filter=_where("display_name", _CONTAINS, name), page_size=_PAGE, **kfp.scope, **kfp.limits
    )
    return [pipeline.pipeline_id for pipeline in found.pipelines or []]


# -- runs --------------------------------------------------------------------------------------------------------------


def _what_runs(
    kfp: Kfp, compiled: Compiled, parameters: Mapping[str, Value], settings: KfpSettings
) -> dict[str, object]:
    """What a run and a recurring run have in common."""
    version = _uploaded(kfp, compiled)
    root = {"pipeline_root": settings.pipeline_root} if settings.pipeline_root else {}
    account = {"service_account": settings.service_account} if settings.service_account else {}
    return {
        "description": compiled.description,
        "experiment_id": _experiment_id(kfp, settings.experiment),
        "pipeline_version_reference": {
            "pipeline_id": version.pipeline_id,
            "pipeline_version_id": version.version_id,
        },
        "runtime_config": {"parameters": dict(parameters), **root},
        **account,
    }


def _experiment_id(kfp: Kfp, name: str) -> str:
    same = _where("display_name", _EQUALS, name)
    found = kfp.experiments.experiment_service_list_experiments(filter=same, **kfp.scope, **kfp.limits).experiments
    if found:
        return str(found[0].experiment_id)
    made = kfp.experiments.experiment_service_create_experiment({"display_name": name, **kfp.scope}, **kfp.limits)
    return str(made.experiment_id)


def _refuse_second(kfp: Kfp, name: str, settings: KfpSettings) -> None:
    same = _where("display_name", _EQUALS, name)
    found = kfp.recurring_runs.recurring_run_service_list_recurring_runs(filter=same, **kfp.scope, **kfp.limits)
    for recurring in found.recurring_runs or []:
        raise UserError(
            f"There is a schedule {name} already: delete it on {_schedule_page(recurring, settings)}, or choose another "
            "name. Two would start every run twice."
        )


def _newest(kfp: Kfp) -> list[Any]:
    """The newest runs; of one that KFP can't read it gives the id only."""
    return (
        kfp.runs.run_service_list_runs(sort_by="created_at desc", page_size=_PAGE, **kfp.scope, **kfp.limits).runs or []
    )


def _find(kfp: Kfp, run: str, settings: KfpSettings) -> Any:
    """The run of that id, or the newest of that name, with all its details."""
    if not _is_id(run):
        same = _where("display_name", _EQUALS, run)
        named = kfp.runs.run_service_list_runs(
            sort_by="created_at desc", page_size=1, filter=same, **kfp.scope, **kfp.limits
        ).runs
        if not named:
            near = did_you_mean(run, [known.display_name for known in _newest(kfp) if known.display_name])
            raise UserError(f"There is no run '{run}' at {settings.host}.{near} `posttrain runs --on kfp` lists them.")
        run = named[0].run_id
    return kfp.runs.run_service_get_run(run, **kfp.limits)


def _is_id(run: str) -> bool:
    try:
        return str(uuid.UUID(run)) == run
    except ValueError:
        return False


def _pipeline_of(run: Any) -> str:
    """Id of the pipeline that runs, or its name where a client sent the pipeline itself."""
    if run.pipeline_version_reference:
        return str(run.pipeline_version_reference.pipeline_id)
    return str(((run.pipeline_spec or {}).get("pipelineInfo") or {}).get("name"))


def _run(run: Any, settings: KfpSettings) -> RemoteRun:
    state = (run.state or "PENDING").lower()
    return RemoteRun(
        id=run.run_id,
        name=run.display_name or run.run_id,
        url=settings.page(f"runs/details/{run.run_id}"),
        state=_STATES.get(state, state),
        created=run.created_at.isoformat(timespec="seconds") if run.created_at else "",
    )


def _schedule_page(recurring: Any, settings: KfpSettings) -> str:
    return settings.page(f"recurringrun/details/{recurring.recurring_run_id}")


def _where(key: str, operation: int, value: str) -> str:
    return json.dumps({"predicates": [{"key": key, "operation": operation, "stringValue": value}]})
