"""The way to a GKE cluster without kubeconfig, gcloud or an auth plugin, as from a pod of Vertex AI Pipelines.

In: the cluster's full name and the application default credentials. Out: address, certificate and token in a
`Configuration` of the Kubernetes client. A token lives for an hour and a run for many, so every request asks for a
valid one.
"""

from __future__ import annotations

import atexit
import base64
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3

from components.errors import UserError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

# with the second one, RBAC knows a service account by its email address, not by a number
SCOPES = ["https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email"]
_PATIENCE_S = 30.0
_SIGN_IN = "run `gcloud auth application-default login` or attach a service account"


def configure(name: str, configuration: Configuration) -> None:
    """Fills `configuration` for the cluster projects/P/locations/L/clusters/C.

    Raises UserError without credentials, without permission, and when there is no such cluster.
    """
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        credentials, _ = google.auth.default(scopes=SCOPES)
    except DefaultCredentialsError as error:
        raise UserError(f"No Google credentials to reach {name}: {_SIGN_IN}.") from error
    cluster = _describe(name, credentials)
    dns = cluster.control_plane_endpoints_config.dns_endpoint_config
    if dns.endpoint and dns.allow_external_traffic:
        configuration.host = f"https://{dns.endpoint}"  # has a public certificate, and needs no authorized network
    else:
        configuration.host = f"https://{cluster.endpoint}"
        configuration.ssl_ca_cert = _file(base64.b64decode(cluster.master_auth.cluster_ca_certificate))
    configuration.api_key = {"authorization": "fetched at each request"}
    configuration.api_key_prefix = {"authorization": "Bearer"}
    configuration.refresh_api_key_hook = _Token(credentials)


def _describe(name: str, credentials: Any) -> Any:
    from google.api_core import exceptions as api
    from google.api_core.retry import Retry
    from google.auth import exceptions as auth
    from google.cloud import container_v1

    client = container_v1.ClusterManagerClient(credentials=credentials)
    try:
        return client.get_cluster(name=name, retry=Retry(timeout=_PATIENCE_S), timeout=_PATIENCE_S)
    except api.NotFound as error:
        raise UserError(f"There is no cluster {name}: check cluster.gke.") from error
    except (api.PermissionDenied, api.Unauthenticated) as error:
        cure = "grant this account roles/container.clusterViewer in its project"
        raise UserError(f"No permission to look up {name} ({error.message}): {cure}.") from error
    except auth.RefreshError as error:
        raise UserError(f"The Google credentials are no longer valid: {_SIGN_IN}.") from error
    except (api.GoogleAPIError, auth.TransportError) as error:
        raise UserError(f"Cannot reach Google Kubernetes Engine to look up {name}: check the network.") from error


class _Token:
    """Puts a valid token into a configuration; called for every request, from several threads."""

    def __init__(self, credentials: Any) -> None:
        from google.auth.transport.requests import Request

        self._credentials = credentials
        self._request = Request()
        self._lock = threading.Lock()

    def __call__(self, configuration: Configuration) -> None:
        from google.auth.exceptions import RefreshError, TransportError

        with self._lock:
            try:
                if not self._credentials.valid:
                    self._credentials.refresh(self._request)
            except TransportError as error:  # worth another try, as a lost connection to the cluster is
                raise urllib3.exceptions.HTTPError(f"no token from Google: {error}") from error
            except RefreshError as error:
                raise UserError(f"The Google credentials are no longer valid: {_SIGN_IN}.") from error
            configuration.api_key["authorization"] = self._credentials.token


def _file(content: bytes) -> str:
    """A file with a certificate, for the client wants a path; it goes when the process ends."""
    with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
        file.write(content)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name
