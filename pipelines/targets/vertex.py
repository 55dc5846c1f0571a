"""Target `vertex`: the compiled YAML on Vertex AI Pipelines.

In: the YAML, values for its parameters, and `VertexSettings`. Out: a run, a template in Artifact Registry, or a
schedule. What can be checked here is checked before anything is called; an answer other than yes is a `UserError` of
one line.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import ValidationError

from components import storage
from components.errors import UserError, did_you_mean
from components.refusal import LOOK_FIRST
from components.stage import Failure
from pipelines import cron
from pipelines.targets import remote
from pipelines.targets.compiled import Compiled, Value
from pipelines.targets.remote import RemoteRun, Schedule, Task, Template
from pipelines.targets.vertex_client import (
    CONSOLE,
    VertexSettings,
    errors,
    limits,
    pipelines_of,
    read_limits,
    registry_errors,
    registry_of,
    schedules_of,
)

if TYPE_CHECKING:
    from google.cloud import aiplatform_v1 as api

_STATE = {"SKIPPED": "cached", "NOT_TRIGGERED": "skipped"}  # of a task, in the words that KFP's users know too


def upload(yaml_text: str, settings: VertexSettings) -> Template:
    """Puts the pipeline into Artifact Registry, where the console offers it as a template.

    It gets two tags: the preset, which moves to the newest upload, and one made from its bytes.
    """
    compiled = Compiled(yaml_text)
    compiled.check({})
    if settings.repository is None:
        raise settings.missing("repository")
    with tempfile.TemporaryDirectory() as scratch, registry_errors(settings.repository):
        path = Path(scratch) / "pipeline.yaml"
        path.write_text(yaml_text)
        client = registry_of(settings.repository)
        package, digest = client.upload_pipeline(str(path), tags=[remote.slug(compiled.preset), compiled.version])
    return Template(package, compiled.version, f"{settings.repository}/{package}/{digest}")


def submit(yaml_text: str, parameters: Mapping[str, Value], settings: VertexSettings, *, name: str) -> RemoteRun:
    """Starts a run of that name."""
    compiled = Compiled(yaml_text)
    compiled.check(parameters)
    job = _job(compiled, parameters, settings)
    job.display_name = name[:128]
    job_id = remote.slug(name)
    conflict = f"A run of that name exists: choose another, or look with `posttrain status {job_id} --on vertex`."
    with errors(f"start {name}", settings, {**LOOK_FIRST, 409: conflict}):
        made = pipelines_of(settings).create_pipeline_job(
            parent=settings.parent, pipeline_job=job, pipeline_job_id=job_id, **limits()
        )
    return _run(made, settings)


def schedule(
    yaml_text: str,
    parameters: Mapping[str, Value],
    settings: VertexSettings,
    *,
    name: str,
    when: str,
    zone: str | None,
) -> Schedule:
    """Has runs started again and again, at most one at a time: one that is due while another is at work is left out.

    Args:
      when: five-field cron.
      zone: an IANA time zone; None is UTC.
    """
    times = cron.parse(when, zone or "UTC")
    compiled = Compiled(yaml_text)
    compiled.check_recurring(parameters)
    job = _job(compiled, parameters, settings)

    from google.cloud import aiplatform_v1 as api

    wanted = api.Schedule(
        display_name=name,
        cron=times.vertex(),
        # the first bounds how many are being started, only the second how many are at work
        max_concurrent_run_count=1,
        max_concurrent_active_run_count=1,
        create_pipeline_job_request=api.CreatePipelineJobRequest(parent=settings.parent, pipeline_job=job),
    )
    with errors(f"schedule {name}", settings, LOOK_FIRST):
        client = schedules_of(settings)
        same = api.ListSchedulesRequest(parent=settings.parent, filter=f'display_name="{name}"')
        for found in client.list_schedules(request=same, **read_limits()):
            if found.state != api.Schedule.State.COMPLETED:
                raise UserError(
                    f"There is a schedule {name} already ({found.cron}): delete it on {_schedule_page(found, settings)}, "
                    "or choose another name. Two would start every run twice."
                )
        made = client.create_schedule(parent=settings.parent, schedule=wanted, **limits())
    return Schedule(_last(made.name), name, _schedule_page(made, settings), str(times))


def runs(settings: VertexSettings, *, pipelines: Sequence[str], limit: int = 50) -> list[RemoteRun]:
    """The newest runs of the pipelines of these names, newest first."""
    return _list(settings, " OR ".join(f'pipeline_name="{name}"' for name in pipelines), limit)


def status(run: str, settings: VertexSettings) -> RemoteRun:
    """How a run is doing, and why it failed. `run` is its name or its resource name."""
    from google.api_core.exceptions import NotFound

    job_id = remote.slug(_last(run))
    with errors(f"show {run}", settings):
        try:
            job = pipelines_of(settings).get_pipeline_job(
                name=f"{settings.parent}/pipelineJobs/{job_id}", **read_limits()
            )
        except NotFound as error:
            near = did_you_mean(job_id, [known.id for known in _list(settings, "", 50)])
            raise UserError(
                f"There is no run '{run}' in {settings.project}, {settings.location}.{near} "
                "`posttrain runs --on vertex` lists them."
            ) from error
    return replace(_run(job, settings), tasks=_tasks(job), reason=_reason(job, settings))


def cancel(run: str, settings: VertexSettings) -> RemoteRun:
    """Ends a run. Vertex AI kills its tasks without time to act; what they started elsewhere is the caller's to end."""
    found = status(run, settings)
    remote.refuse_ended(found)
    with errors(f"cancel {run}", settings):
        pipelines_of(settings).cancel_pipeline_job(name=f"{settings.parent}/pipelineJobs/{found.id}", **limits())
    return replace(found, state="cancelling")


# -- from our words to theirs ------------------------------------------------------------------------------------------


def _job(compiled: Compiled, parameters: Mapping[str, Value], settings: VertexSettings) -> api.PipelineJob:
    """The job to start, after the place for its artifacts was found to be there."""
    if settings.pipeline_root is None:
        raise settings.missing("pipeline_root")
    storage.exists(settings.pipeline_root)  # raises where there is no such bucket or no permission

    from google.cloud import aiplatform_v1 as api

    job = api.PipelineJob(
        pipeline_spec=compiled.spec,
        runtime_config=api.PipelineJob.RuntimeConfig(
            gcs_output_directory=settings.pipeline_root, parameter_values=dict(parameters)
        ),
        labels=dict(label.split("=") for label in settings.labels.split(",")) if settings.labels else {},
        service_account=settings.service_account,
        network=settings.network,
    )
    if settings.encryption_key:
        job.encryption_spec = api.EncryptionSpec(kms_key_name=settings.encryption_key)
    return job


# -- from their words to ours ------------------------------------------------------------------------------------------


def _list(settings: VertexSettings, filter_: str, limit: int) -> list[RemoteRun]:
    from google.cloud import aiplatform_v1 as api
    from google.protobuf.field_mask_pb2 import FieldMask

    request = api.ListPipelineJobsRequest(
        parent=settings.parent,
        filter=filter_,
        order_by="create_time desc",
        page_size=limit,
        read_mask=FieldMask(paths=["name", "display_name", "state", "create_time"]),
    )
    with errors("list runs", settings):
        pages = pipelines_of(settings).list_pipeline_jobs(request=request, **read_limits())
        return [_run(job, settings) for job in itertools.islice(pages, limit)]


def _run(job: api.PipelineJob, settings: VertexSettings) -> RemoteRun:
    job_id = _last(job.name)
    return RemoteRun(
        id=job_id,
        name=job.display_name or job_id,
        url=settings.page(f"runs/{job_id}"),
        state=job.state.name.removeprefix("PIPELINE_STATE_").lower(),
        created=job.create_time.isoformat(timespec="seconds") if job.create_time else "",
    )


def _details(job: api.PipelineJob) -> list[api.PipelineTaskDetail]:
    """The tasks that do something, in the order of their creation; those above them are only frames."""
    every = list(job.job_detail.task_details)
    frames = {task.parent_task_id for task in every}
    return [task for task in sorted(every, key=_created) if task.task_id not in frames]


def _created(task: api.PipelineTaskDetail) -> float:
    return float(task.create_time.timestamp()) if task.create_time else math.inf


def _tasks(job: api.PipelineJob) -> tuple[Task, ...]:
    return tuple(Task(d.task_name, _STATE.get(d.state.name, d.state.name.lower())) for d in _details(job))


def _reason(job: api.PipelineJob, settings: VertexSettings) -> str:
    """Why a run failed: the stage's own words where they can be read, else those of Vertex AI."""
    if job.state.name != "PIPELINE_STATE_FAILED":
        return ""
    if kept := _kept_failure(dict(job.runtime_config.parameter_values)):
        return kept
    for task in _details(job):
        if task.state.name == "FAILED" and task.error.message:
            return " ".join(f"{task.task_name}: {task.error.message} {_log_page(task, settings)}".split())
    return " ".join(job.error.message.partition("; ")[0].split())


def _kept_failure(parameters: Mapping[str, object]) -> str | None:
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


def _log_page(task: api.PipelineTaskDetail, settings: VertexSettings) -> str:
    job_id = _last(task.executor_detail.container_detail.main_job)
    if not job_id or CONSOLE in task.error.message:
        return ""
    query = quote(f'resource.labels.job_id="{job_id}"', safe="")
    return f"Log: {CONSOLE}/logs/query;query={query}?project={settings.project}"


def _last(resource_name: str) -> str:
    return resource_name.rpartition("/")[2]


def _schedule_page(found: api.Schedule, settings: VertexSettings) -> str:
    return settings.page(f"schedules/{_last(found.name)}")
