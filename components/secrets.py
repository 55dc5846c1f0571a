"""Secrets: a variable of the environment, else Secret Manager by resource name, else none.

In: the name of the variable. The resource names come from the configuration, by `use`, once per process. A Kubernetes
Secret arrives as a variable of the environment. Out: the value, which stays in memory and stands in no message. Secret
Manager's refusal is a `UserError`.
"""

from __future__ import annotations

import base64
import functools
import os

from components.config import SecretsConfig
from components.refusal import UNREACHABLE, refusal, status_of, words_of

HF_TOKEN = "HF_TOKEN"
WEBHOOK = "POSTTRAIN_WEBHOOK"
SERVICE = "https://secretmanager.googleapis.com/v1"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_S = 30.0

_resources: dict[str, str | None] = {}  # by variable


def use(names: SecretsConfig) -> None:
    """Makes known where the secrets of a run are. Reads none."""
    _resources.update({HF_TOKEN: names.hf_token, WEBHOOK: names.webhook})


def value(variable: str) -> str | None:
    """Returns the secret that goes by the name of this variable, or None where there is none."""
    resource = _resources.get(variable)
    given = os.environ.get(variable) or (_read(resource) if resource else "")
    return given.strip() or None  # a line break at its end came from a file


@functools.cache
def _read(resource: str) -> str:
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
