"""Secrets: a variable of the environment, else Secret Manager or a Kubernetes Secret by name, else none.

In: the name of the variable. The names of the secrets come from the configuration, by `use`, once per process. Out: the
value, which stays in memory and stands in no message. What Secret Manager or the cluster refuses is a `UserError`.
"""

from __future__ import annotations

import base64
import functools
import os

from components.config import AnyConfig, ClusterConfig
from components.errors import UserError
from components.refusal import UNREACHABLE, refusal, status_of, words_of

HF_TOKEN = "HF_TOKEN"
WEBHOOK = "POSTTRAIN_WEBHOOK"
SERVICE = "https://secretmanager.googleapis.com/v1"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_S = 30.0

_resources: dict[str, str | None] = {}  # by variable
_cluster: list[ClusterConfig] = []  # whose Secrets are meant


def use(config: AnyConfig) -> None:
    """Makes known where the secrets of a run are. Reads none.

    A stage that is a pod itself, as on KFP, finds the hub's token where the pods that it starts find theirs.
    """
    of_pods = config.cluster.hf_secret if "KUBERNETES_SERVICE_HOST" in os.environ else None
    _resources.update({HF_TOKEN: config.secrets.hf_token or of_pods, WEBHOOK: config.secrets.webhook})
    _cluster[:] = [config.cluster]


def value(variable: str) -> str | None:
    """Returns the secret that goes by the name of this variable, or None where there is none."""
    resource = _resources.get(variable)
    given = os.environ.get(variable) or (_read(resource) if resource else "")
    return given.strip() or None  # a line break at its end came from a file


@functools.cache
def _read(resource: str) -> str:
    return _of_secret_manager(resource) if resource.startswith("projects/") else _of_kubernetes(resource)


def _of_kubernetes(resource: str) -> str:
    """Returns the value of a Secret's key, `name/key`."""
    from kubernetes.client import CoreV1Api
    from kubernetes.client.rest import ApiException

    from components.workloads import kube

    (cluster,) = _cluster
    name, key = resource.split("/")
    api = CoreV1Api(kube.connect(cluster))
    try:
        found = api.read_namespaced_secret(name, cluster.namespace, _request_timeout=_TIMEOUT_S).data or {}
    except ApiException as error:
        cures = {
            403: f"Add {name} to the resourceNames of secrets in configs/cluster/rbac.yaml, and apply it.",
            404: f"Make it: `kubectl create secret generic {name} -n {cluster.namespace} --from-file={key}=FILE`.",
        }
        raise refusal("The cluster", f"give the Secret {name}", error.status, str(error.reason), cures) from error
    if key not in found:
        raise UserError(
            f"The Secret {name} in namespace {cluster.namespace} has no key {key}: it has {', '.join(found)}."
        )
    return base64.b64decode(found[key]).decode()


def _of_secret_manager(resource: str) -> str:
    """Returns the value of a version, `projects/P/secrets/S/versions/V`.

    Source: https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access
    """
    import google.auth
    import requests  # type: ignore[import-untyped]
    from google.api_core.exceptions import GoogleAPICallError, from_http_response
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    secret = resource.partition("/versions/")[0]
    cures = {
        400: "Enable that version, or name another under secrets in the preset.",
        401: "Run `gcloud auth application-default login`, or attach a service account.",
        403: f"Have roles/secretmanager.secretAccessor on {secret} granted.",
        404: "Check the name under secrets in the preset.",
        UNREACHABLE: "Check the network.",
    }
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
        answer = AuthorizedSession(credentials).get(f"{SERVICE}/{resource}:access", timeout=_TIMEOUT_S)
        if not answer.ok:
            raise from_http_response(answer)
    except (GoogleAPICallError, GoogleAuthError, requests.RequestException) as error:
        raise refusal("Secret Manager", f"give {resource}", status_of(error), words_of(error), cures) from error
    return base64.b64decode(answer.json()["payload"]["data"]).decode()
