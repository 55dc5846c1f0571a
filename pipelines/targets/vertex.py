"""Target `vertex`: the compiled YAML on Vertex AI Pipelines.

In: the YAML, values for its parameters, and `VertexSettings`. Out: a run, a template in Artifact Registry, or a
schedule. What can be checked here is checked before anything is called; an answer other than yes is a `UserError` of
one line.

The calls go through the service clients of google-cloud-aiplatform and not through its `PipelineJob`, which first looks
for the bucket, makes one where there is none, asks for the project's number, and submits whatever came of that, after
minutes where the network does not answer.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import Field

from components import storage
from components.errors import UserError, did_you_mean
from pipelines import cron
from pipelines.targets import remote
from pipelines.targets.compiled import Compiled, Value
from pipelines.targets.refusal import TIMED_OUT, UNREACHABLE, refusal
from pipelines.targets.remote import RemoteRun, Schedule, Task, Template
from pipelines.targets.settings import TargetSettings

if TYPE_CHECKING:
    from google.cloud import aiplatform_v1 as api

_TIMEOUT_S = 60.0  # of one call
_PATIENCE_S = 20.0  # of a call that only reads, with its repetitions
_CONSOLE = "https://console.cloud.google.com"
_STATE = {"SKIPPED": "cached", "NOT_TRIGGERED": "skipped"}  # of a task, in the words that KFP's users know too


class VertexSettings(TargetSettings):
    """Where on Vertex AI, and as whom."""

    target = "vertex"

    project: str = Field(pattern=r"^[a-z0-9][a-z0-9.:-]*$", description="a Google Cloud project, such as my-project")
    location: str = Field(pattern=r"^[a-z]+-[a-z]+\d+$", description="a region, such as us-central1")
    pipeline_root: str | None = Field(
        None,
        pattern=r"^gs://[a-z0-9][a-z0-9._-]+(/.*)?$",
        description="the address where artifacts go, such as gs://BUCKET/pipelines",
    )
    service_account: str | None = Field(
        None, pattern=r"^[^@\s]+@[^@\s]+$", description="the e-mail address of the service account that runs work as"
    )
    network: str | None = Field(
        None,
        pattern=r"^projects/[^/]+/global/networks/[^/]+$",
        description="a network, such as projects/NUMBER/global/networks/NAME",
    )
    labels: str | None = Field(
        None,
        pattern=r"^[a-z][a-z0-9_-]*=[a-z0-9_-]*(,[a-z][a-z0-9_-]*=[a-z0-9_-]*)*$",
        description="labels in lower case, such as team=ml,env=prod",
    )
    encryption_key: str | None = Field(
        None,
        pattern=r"^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$",
        description="a key, such as projects/P/locations/L/keyRings/R/cryptoKeys/K",
    )
    repository: str | None = Field(
        None,
        pattern=r"^https?://[^/]+/[^/]+/[^/]+$",
        description="a repository of the format KFP, such as https://us-central1-kfp.pkg.dev/PROJECT/REPOSITORY",
    )
    endpoint: str | None = Field(
        None, description="the address of the API where it is not the public one (Private Service Connect)"
    )

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.location}"

    def page(self, place: str) -> str:
        """A page of Vertex AI Pipelines in the console."""
        return f"{_CONSOLE}/vertex-ai/locations/{self.location}/pipelines/{place}?project={self.project}"


def upload(yaml_text: str, settings: VertexSettings) -> Template:
    """Puts the pipeline into Artifact Registry, where the console offers it as a template.

    It gets two tags: the preset, which moves to the newest upload, and one made from its bytes.
    """
    compiled = Compiled(yaml_text)
    compiled.check({})
    if settings.repository is None:
        raise settings.missing("repository")
    with tempfile.TemporaryDirectory() as scratch, _registry_errors(settings.repository):
        path = Path(scratch) / "pipeline.yaml"
        path.write_text(yaml_text)
        client = _registry_client(settings.repository)
        package, digest = client.upload_pipeline(str(path), tags=[remote.slug(compiled.preset), compiled.version])
    return Template(package, compiled.version, f"{settings.repository}/{package}/{digest}")


def submit(yaml_text: str, parameters: Mapping[str, Value], settings: VertexSettings, *, name: str) -> RemoteRun:
    """Starts a run of that name."""
    compiled = Compiled(yaml_text)
    compiled.check(parameters)
    job = _job(compiled, parameters, settings)
    job.display_name = name[:128]
    job_id = remote.slug(name)
    cures = {409: f"A run of that name exists: choose another, or look with `posttrain status {job_id} --on vertex`."}
    with _errors(f"start {name}", settings, cures):
        made = _pipelines(settings).create_pipeline_job(
            parent=settings.parent, pipeline_job=job, pipeline_job_id=job_id, timeout=_TIMEOUT_S
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
    with _errors(f"schedule {name}", settings):
        client = _schedules(settings)
        same = api.ListSchedulesRequest(parent=settings.parent, filter=f'display_name="{name}"')
        for found in client.list_schedules(request=same, retry=_retry(), timeout=_TIMEOUT_S):
            if found.state != api.Schedule.State.COMPLETED:
                raise UserError(
                    f"There is a schedule {name} already ({found.cron}): delete it on {_schedule_page(found, settings)}, "
                    "or choose another name. Two would start every run twice."
                )
        made = client.create_schedule(parent=settings.parent, schedule=wanted, timeout=_TIMEOUT_S)
    return Schedule(_last(made.name), name, _schedule_page(made, settings), str(times))


def runs(settings: VertexSettings, *, pipelines: Sequence[str], limit: int = 50) -> list[RemoteRun]:
    """The newest runs of the pipelines of these names, newest first."""
    return _list(settings, " OR ".join(f'pipeline_name="{name}"' for name in pipelines), limit)


def status(run: str, settings: VertexSettings) -> RemoteRun:
    """How a run is doing, and why it failed. `run` is its name or its resource name."""
    from google.api_core.exceptions import NotFound

    job_id = remote.slug(_last(run))
    with _errors(f"show {run}", settings):
        try:
            job = _pipelines(settings).get_pipeline_job(
                name=f"{settings.parent}/pipelineJobs/{job_id}", retry=_retry(), timeout=_TIMEOUT_S
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
    with _errors(f"cancel {run}", settings):
        _pipelines(settings).cancel_pipeline_job(name=f"{settings.parent}/pipelineJobs/{found.id}", timeout=_TIMEOUT_S)
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


def _client_options(settings: VertexSettings) -> Any:
    from google.api_core.client_options import ClientOptions

    return ClientOptions(api_endpoint=settings.endpoint or f"{settings.location}-aiplatform.googleapis.com")


def _pipelines(settings: VertexSettings) -> api.PipelineServiceClient:
    from google.cloud import aiplatform_v1 as api

    return api.PipelineServiceClient(transport="rest", client_options=_client_options(settings))


def _schedules(settings: VertexSettings) -> api.ScheduleServiceClient:
    from google.cloud import aiplatform_v1 as api

    return api.ScheduleServiceClient(transport="rest", client_options=_client_options(settings))


def _retry() -> Any:
    from google.api_core.retry import Retry

    return Retry(timeout=_PATIENCE_S)


def _registry_client(repository: str) -> Any:
    import google.auth
    from google.auth.transport.requests import Request
    from kfp.registry import ApiAuth, RegistryClient

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    credentials.refresh(Request())
    return RegistryClient(host=repository, auth=ApiAuth(credentials.token))


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
    with _errors("list runs", settings):
        pages = _pipelines(settings).list_pipeline_jobs(request=request, retry=_retry(), timeout=_TIMEOUT_S)
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
    if kept := remote.kept_failure(dict(job.runtime_config.parameter_values)):
        return kept
    for task in _details(job):
        if task.state.name == "FAILED" and task.error.message:
            return " ".join(f"{task.task_name}: {task.error.message} {_log_page(task, settings)}".split())
    return " ".join(job.error.message.partition("; ")[0].split())


def _log_page(task: api.PipelineTaskDetail, settings: VertexSettings) -> str:
    job_id = _last(task.executor_detail.container_detail.main_job)
    if not job_id or _CONSOLE in task.error.message:
        return ""
    query = quote(f'resource.labels.job_id="{job_id}"', safe="")
    return f"Log: {_CONSOLE}/logs/query;query={query}?project={settings.project}"


def _last(resource_name: str) -> str:
    return resource_name.rpartition("/")[2]


def _schedule_page(found: api.Schedule, settings: VertexSettings) -> str:
    return settings.page(f"schedules/{_last(found.name)}")


# -- errors ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _errors(action: str, settings: VertexSettings, cures: Mapping[int, str] | None = None) -> Iterator[None]:
    """Turns what Vertex AI answers, other than yes, into UserError."""
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    account = settings.service_account or "the project's default service account"
    known = {
        401: "Run `gcloud auth application-default login`, or attach a service account.",
        403: f"Have roles/aiplatform.user on {settings.project} and roles/iam.serviceAccountUser on {account} granted.",
        404: "Check --project and --location.",
        UNREACHABLE: "Check the network and --location.",
        **(cures or {}),
    }
    try:
        yield
    except (api.GoogleAPIError, auth.GoogleAuthError, requests.RequestException) as error:
        cause = error.cause if isinstance(error, api.RetryError) and error.cause else error
        if isinstance(cause, api.GoogleAPICallError) and cause.reason == "SERVICE_DISABLED":
            known[403] = f"Run `gcloud services enable aiplatform.googleapis.com --project {settings.project}`."
        raise refusal("Vertex AI", action, _status(cause), _detail(cause), known) from error


@contextlib.contextmanager
def _registry_errors(repository: str) -> Iterator[None]:
    """Turns what Artifact Registry answers, other than yes, into UserError."""
    import requests
    from google.auth import exceptions as auth

    cures = {
        401: "Run `gcloud auth application-default login`, or attach a service account.",
        403: "Have roles/artifactregistry.writer on the repository granted.",
        404: "Make it with `gcloud artifacts repositories create NAME --repository-format=kfp --location=REGION`.",
        UNREACHABLE: "Check the network and --repository.",
    }
    try:
        yield
    except (auth.GoogleAuthError, requests.RequestException) as error:
        action = f"take the pipeline into {repository}"
        raise refusal("Artifact Registry", action, _status(error), _detail(error), cures) from error


def _status(error: Exception) -> int:
    import requests
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    if isinstance(error, requests.HTTPError):
        return int(error.response.status_code)
    if isinstance(error, requests.ReadTimeout | api.RetryError):
        return TIMED_OUT
    if isinstance(error, requests.RequestException | auth.TransportError):
        return UNREACHABLE
    if isinstance(error, auth.GoogleAuthError):
        return 401
    return int(error.code or 500) if isinstance(error, api.GoogleAPICallError) else 500


def _detail(error: Exception) -> str:
    """The service's own words, without the address that the client puts before them."""
    import requests

    if isinstance(error, requests.HTTPError):
        return str(error.response.text)
    if isinstance(error, requests.RequestException):
        return ""
    return re.sub(r"^[A-Z]+ https?://\S+: ", "", str(getattr(error, "message", error)))
