"""The way to a self-hosted KFP: its settings, its client, and its refusals as one line.

The calls go through kfp-server-api, the generated client of KFP's API, and not through `kfp.Client`, which gives no
call a time limit, sleeps 25 s where an answer is no, keeps a file in the home directory, and looks for a pipeline by
its name in no namespace.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from components.errors import UserError
from components.refusal import TIMED_OUT, UNREACHABLE, refusal
from pipelines.targets.settings import TargetSettings

TOKEN = "POSTTRAIN_KFP_TOKEN"
_ABORTED = 10  # of gRPC
_CONNECT_S, _ANSWER_S = 10.0, 60.0  # time limits of each attempt


class KfpSettings(TargetSettings):
    """Which KFP, and as whom. A bearer token lies in a file or in an environment variable, and is no setting."""

    target = "kfp"

    host: str = Field(
        pattern=r"^https?://[^\s/]+(/\S*)?$", description="the address of KFP's UI, such as https://kfp.example.com"
    )
    namespace: str | None = Field(
        None, pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", description="your namespace in this KFP of several users"
    )
    experiment: str = Field("posttrain", description="the experiment that runs are listed under")
    service_account: str | None = Field(
        None, pattern=r"^[a-z0-9][a-z0-9.-]*$", description="the Kubernetes service account of a run's pods"
    )
    pipeline_root: str | None = Field(
        None,
        pattern=r"^(gs|s3|minio)://[^/\s]+(/\S*)?$",
        description="the gs://, s3:// or minio:// address where artifacts go (a plain path fails in the first task)",
    )
    token_file: str | None = Field(None, description="a file with a bearer token")
    token_variable: str = Field(TOKEN, description="the name of an environment variable that holds a bearer token")
    ca_certificate: str | None = Field(None, description="a file with the certificate authority of the address")
    server_time_zone: str = Field("UTC", description="the cronScheduleTimezone of the installation")

    def page(self, place: str) -> str:
        """A page of KFP's UI."""
        return f"{self.host.rstrip('/')}/#/{place}"


@dataclass(frozen=True)
class Kfp:
    """A connection.

    Attributes:
      client: for calls that have no function of their own.
      runs, recurring_runs, experiments, pipelines, uploads: the parts of the API.
      scope: the namespace, where there are several.
      limits: the time limit, for every call.
    """

    client: Any
    runs: Any
    recurring_runs: Any
    experiments: Any
    pipelines: Any
    uploads: Any
    scope: dict[str, str]
    limits: dict[str, Any]


def connect(settings: KfpSettings) -> Kfp:
    """Makes the client, and asks once who answers: a login page, or a KFP of another kind, is told here."""
    import kfp_server_api as api  # type: ignore[import-untyped]
    import urllib3

    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # it would print each repetition
    configuration = api.Configuration(host=settings.host.rstrip("/"))
    # of calls that only read, and of connections; what may have been done is not sent twice
    configuration.retries = urllib3.Retry(
        connect=1, read=0, other=0, status=2, status_forcelist=(502, 503), backoff_factor=0.2, raise_on_status=False
    )
    if settings.ca_certificate:
        _check_certificate(settings.ca_certificate)
        configuration.ssl_ca_cert = settings.ca_certificate
    if token := _token(settings):
        configuration.api_key = {"authorization": token}
        configuration.api_key_prefix = {"authorization": "Bearer"}
    client = api.ApiClient(configuration)
    limits = {"_request_timeout": (_CONNECT_S, _ANSWER_S)}
    _check_kind(settings, api.HealthzServiceApi(client).healthz_service_get_healthz(**limits).multi_user)
    return Kfp(
        client=client,
        runs=api.RunServiceApi(client),
        recurring_runs=api.RecurringRunServiceApi(client),
        experiments=api.ExperimentServiceApi(client),
        pipelines=api.PipelineServiceApi(client),
        uploads=api.PipelineUploadServiceApi(client),
        scope={"namespace": settings.namespace} if settings.namespace else {},
        limits=limits,
    )


def _check_kind(settings: KfpSettings, several_users: bool | None) -> None:
    if several_users is None:
        raise UserError(
            f"{settings.host} does not answer as KFP does; it may be a login page. Give KFP's own address and a token "
            f"(--token-file or {TOKEN}); logging in through a browser (Dex, IAP) is not done here."
        )
    if several_users and not settings.namespace:
        raise settings.missing("namespace")
    if settings.namespace and not several_users:
        raise UserError(f"The KFP at {settings.host} has one user and one namespace: leave out --namespace.")


def _token(settings: KfpSettings) -> str:
    if settings.token_file:
        try:
            return Path(settings.token_file).read_text().strip()
        except OSError as error:
            raise UserError(f"--token-file {settings.token_file} cannot be read ({error.strerror}).") from error
    token = os.environ.get(settings.token_variable, "")
    if not token and settings.token_variable != TOKEN:
        raise UserError(f"The environment variable {settings.token_variable} is not set: put the token there.")
    return token


def _check_certificate(path: str) -> None:
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        raise UserError(
            f"--ca-certificate {path} cannot be used ({error.strerror or error}): give a file with a PEM certificate."
        ) from error


@contextlib.contextmanager
def errors(action: str, settings: KfpSettings, cures: Mapping[int, str] | None = None) -> Iterator[None]:
    """Turns what KFP answers, other than yes, into UserError."""
    import kfp_server_api as api
    import urllib3

    where = f" in the namespace {settings.namespace}" if settings.namespace else ""
    known = {
        401: f"Give a valid token (--token-file or {TOKEN}).",
        403: f"Have your account granted the role kubeflow-edit{where}, or give a token of one that has it.",
        404: "Check --host and --namespace.",
        409: "Somebody has just made the same: try again.",
        UNREACHABLE: "Check --host, --ca-certificate and the network.",
        **(cures or {}),
    }
    try:
        yield
    except api.ApiException as error:
        raise refusal("KFP", action, *_status_and_detail(error), known) from error
    except urllib3.exceptions.HTTPError as error:
        cause = getattr(error, "reason", error)
        silent = isinstance(cause, urllib3.exceptions.ReadTimeoutError | urllib3.exceptions.ProtocolError)
        detail = "" if silent else f"{settings.host}: {type(cause).__name__}"
        raise refusal("KFP", action, TIMED_OUT if silent else UNREACHABLE, detail, known) from error


def _status_and_detail(error: Any) -> tuple[int, str]:
    """What kind of no it is, and KFP's own words; a page of HTML that a proxy put in their place says nothing."""
    body = error.body or error.reason
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        return error.status, str(error.reason if body.lstrip().startswith("<") else body)
    detail = str(said.get("message") or said.get("error_message") or said.get("error") or body)
    if "exceeded quota" in detail:  # that of Kubernetes, which KFP passes on as a failure of its own
        return 429, detail
    if said.get("code") == _ABORTED:  # a bad request in KFP, which its gateway makes a conflict of
        return 400, detail
    return error.status, detail
