"""The way to Vertex AI Pipelines and Artifact Registry: settings, clients, and their refusals as one line.

The calls go through the service clients of google-cloud-aiplatform and not through its `PipelineJob`, which first looks
for the bucket, makes one where there is none, asks for the project's number, and submits whatever came of that, after
minutes where the network does not answer.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from components.refusal import TIMED_OUT, UNREACHABLE, refusal
from pipelines.targets.settings import TargetSettings

if TYPE_CHECKING:
    from google.cloud import aiplatform_v1 as api

CONSOLE = "https://console.cloud.google.com"
_TIMEOUT_S = 60.0  # of one call
_PATIENCE_S = 20.0  # of a call that only reads, with its repetitions


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
        return f"{CONSOLE}/vertex-ai/locations/{self.location}/pipelines/{place}?project={self.project}"


def _client_options(settings: VertexSettings) -> Any:
    from google.api_core.client_options import ClientOptions

    return ClientOptions(api_endpoint=settings.endpoint or f"{settings.location}-aiplatform.googleapis.com")


def pipelines_of(settings: VertexSettings) -> api.PipelineServiceClient:
    """The client for runs; raises what `errors` knows where there are no credentials."""
    from google.cloud import aiplatform_v1 as api

    return api.PipelineServiceClient(transport="rest", client_options=_client_options(settings))


def schedules_of(settings: VertexSettings) -> api.ScheduleServiceClient:
    """The client for schedules; raises what `errors` knows where there are no credentials."""
    from google.cloud import aiplatform_v1 as api

    return api.ScheduleServiceClient(transport="rest", client_options=_client_options(settings))


def limits() -> dict[str, Any]:
    """Arguments of a call that does something: a time limit, and no second try."""
    return {"timeout": _TIMEOUT_S}


def read_limits() -> dict[str, Any]:
    """Arguments of a call that only reads, and so may be repeated."""
    from google.api_core.retry import Retry

    return {"timeout": _TIMEOUT_S, "retry": Retry(timeout=_PATIENCE_S)}


def registry_of(repository: str) -> Any:
    """The client for templates; raises what `registry_errors` knows where there are no credentials."""
    import google.auth
    from google.auth.transport.requests import Request
    from kfp.registry import ApiAuth, RegistryClient

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    credentials.refresh(Request())
    return RegistryClient(host=repository, auth=ApiAuth(credentials.token))


@contextlib.contextmanager
def errors(action: str, settings: VertexSettings, cures: Mapping[int, str] | None = None) -> Iterator[None]:
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
def registry_errors(repository: str) -> Iterator[None]:
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
    if isinstance(error, requests.ReadTimeout | api.RetryError) or _was_cut_off(error):
        return TIMED_OUT
    if isinstance(error, requests.RequestException | auth.TransportError):
        return UNREACHABLE
    if isinstance(error, auth.GoogleAuthError):
        return 401
    return int(error.code or 500) if isinstance(error, api.GoogleAPICallError) else 500


def _was_cut_off(error: Exception) -> bool:
    """Whether the connection ended without an answer; requests has one error for that and for a host that is away."""
    import requests
    import urllib3

    return isinstance(error, requests.ConnectionError) and isinstance(error.args[0], urllib3.exceptions.ProtocolError)


def _detail(error: Exception) -> str:
    """The service's own words, without the address that the client puts before them."""
    import requests

    if isinstance(error, requests.HTTPError):
        return str(error.response.text)
    if isinstance(error, requests.RequestException):
        return ""
    return re.sub(r"^[A-Z]+ https?://\S+: ", "", str(getattr(error, "message", error)))
