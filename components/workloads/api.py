"""One request to the Kubernetes API server: tried again where that can help, its errors said in one line.

In: a connected `ApiClient` (kube.py) and a path. Out: the answer as a plain dict, or the lines of a stream. Raises
`Refused` for an answer that trying again does not change and `Unreachable` when the server gives none in time. A busy
server (429), one that fails (500 and above; a webhook that does not answer is among these) and a lost connection are
tried again with growing pauses, and not before the time that the server asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tenacity
import urllib3

from components.errors import UserError
from components.progress import duration

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

type Manifest = dict[str, Any]

PATIENCE_S = 120.0
_CONNECT_S, _READ_S = 5, 30
_LONGEST_PAUSE_S = 60.0
_TRY_AGAIN = {408, 429, 500, 502, 503, 504}
_WEBHOOK = "failed calling webhook"


class Refused(UserError):
    """The server's answer is no. `status` is the HTTP status, 0 for a certificate that cannot be trusted."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(UserError):
    """The server gave no answer, or only failures, for as long as the request was tried."""


def request(
    client: ApiClient,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Manifest | None = None,
    patience_s: float,
) -> Manifest:
    """Sends a request and returns the answer.

    Args:
      client: from kube.connect.
      method: GET, POST or DELETE.
      path: from the root of the server, such as /version.
      query: parameters of the address.
      body: sent as JSON.
      patience_s: seconds after which it is not tried once more.
    """
    from kubernetes.client import ApiException

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_worth_another_try),
        stop=tenacity.stop_before_delay(patience_s),
        wait=_pause,
        reraise=True,
    )
    try:
        answer: Manifest = retrying(_send, client, method, path, query=query, body=body, response_type="object")
    except ApiException as error:
        raise _said(error, client, patience_s) from error
    except urllib3.exceptions.HTTPError as error:
        raise Unreachable(_no_answer(client, str(error))) from error
    return answer


def lines(client: ApiClient, path: str, query: Mapping[str, str], silence_s: int) -> Iterator[str]:
    """Yields the lines of a stream as they come, until the server ends it or is silent for `silence_s`.

    A stream is not tried again: its reader knows from where to go on. Raises urllib3's HTTPError when it is cut off.
    """
    from kubernetes.client import ApiException
    from kubernetes.watch.watch import iter_resp_lines

    try:
        response = _send(client, "GET", path, query=query, read_s=silence_s, _preload_content=False)
    except ApiException as error:
        raise _said(error, client, 0) from error
    try:
        yield from iter_resp_lines(response)
    finally:
        response.close()


def _send(
    client: ApiClient,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None,
    body: Manifest | None = None,
    read_s: int = _READ_S,
    **how: Any,
) -> Any:
    return client.call_api(
        path,
        method,
        query_params=list((query or {}).items()),
        header_params={"Accept": "application/json, */*", "Content-Type": "application/json"},
        body=body,
        auth_settings=["BearerToken"],
        _return_http_data_only=True,
        _request_timeout=(_CONNECT_S, read_s),
        **how,
    )


def _worth_another_try(error: BaseException) -> bool:
    from kubernetes.client import ApiException

    if isinstance(error, ApiException):
        return error.status in _TRY_AGAIN
    return isinstance(error, urllib3.exceptions.HTTPError)


_backoff = tenacity.wait_exponential_jitter(initial=0.2, max=10, jitter=0.2)


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next try: longer each time, and at least what the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    asked = (getattr(error, "headers", None) or {}).get("Retry-After", "")
    return min(_LONGEST_PAUSE_S, max(_backoff(state), float(asked) if asked.isdigit() else 0.0))


def _said(error: Any, client: ApiClient, patience_s: float) -> UserError:
    """The error of the API as the sentence that a person needs."""
    message, status = _message(error), int(error.status or 0)
    if status in _TRY_AGAIN:
        if _WEBHOOK in message:
            return Unreachable(
                f"The cluster's JobSet controller has not answered for {duration(patience_s)} ({message}): see whether "
                "it runs, with `kubectl get pods -n jobset-system`."
            )
        return Unreachable(_no_answer(client, f"{status} {message}"))
    if status == 0:
        return Refused(0, f"Cannot trust the cluster at {client.configuration.host}: {message}: check its address.")
    if status == 401:
        return Refused(
            401,
            "The cluster refused these credentials: sign in again (`gcloud auth login` and `gcloud auth "
            "application-default login`), or check the service account.",
        )
    if status == 403 and " cannot " in message:
        return Refused(
            403, f"The cluster does not allow it: {message}: apply configs/cluster/rbac.yaml in that namespace."
        )
    return Refused(status, f"The cluster refused: {message}.")


def _message(error: Any) -> str:
    """What the server says: the message of its Status object, else the plain text."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body or error.reason or ""
    try:
        said = json.loads(body)
    except ValueError:
        said = body
    text = said.get("message", "") if isinstance(said, dict) else str(said)
    return " ".join(text.split()).rstrip(".")[:600] or str(error.reason)


def _no_answer(client: ApiClient, why: str) -> str:
    return (
        f"The cluster at {client.configuration.host} does not answer ({why[:300]}): check the network, "
        "cluster.gke or cluster.context, and that the cluster runs."
    )
