"""The answer of a service that did not do what was asked, as one line with the cure.

In: the error of a client library, or the HTTP status. Out: a `UserError` to raise. Nothing of the request gets into the
line, for an address may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from components.errors import UserError

UNREACHABLE = 0  # in place of an HTTP status: there was no answer at all
TIMED_OUT = 504
_LONGEST = 400  # characters of the service's own words

_SAID = {
    UNREACHABLE: "it cannot be reached",
    400: "it does not accept the request",
    401: "it does not know who you are",
    403: "permission denied",
    404: "there is no such thing",
    408: "it did not answer in time",
    409: "it is there already",
    412: "something else was changed in between",
    429: "quota or rate limit reached",
    TIMED_OUT: "it did not answer in time",
}
_LOOK = "It may have been done all the same: look at what is there before you try again."
LOOK_FIRST = {408: _LOOK, TIMED_OUT: _LOOK}  # for what would cost money when it is done twice
_CURES = {
    UNREACHABLE: "Check the address and the network.",
    400: "Mend that and try again.",
    409: "Choose another name.",
    429: "Wait and try again, or have the quota raised.",
}


def refusal(service: str, action: str, status: int, detail: str, cures: Mapping[int, str]) -> UserError:
    """Returns the error to raise.

    Args:
      service: its name.
      action: what was asked, as a verb and its object.
      status: of HTTP, or `UNREACHABLE`.
      detail: the service's own words.
      cures: what helps, by status, where this service knows better than the general cures here.
    """
    said = _SAID.get(status, f"it failed with status {status}")
    cure = cures.get(status) or _CURES.get(status) or "Try again in a minute."
    words = " ".join(detail.split())[:_LONGEST].rstrip(". ")
    return UserError(f"{service} did not {action}: {said}{f' ({words})' if words else ''}. {cure}")


def status_of(error: Exception) -> int:
    """The HTTP status behind an error of Google's libraries or of requests, for `refusal`."""
    import requests  # type: ignore[import-untyped]
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


def words_of(error: Exception) -> str:
    """The service's own words in such an error, without the address that the client puts before them."""
    import requests

    if isinstance(error, requests.HTTPError):
        return str(error.response.text)
    if isinstance(error, requests.RequestException):
        return ""
    return re.sub(r"^[A-Z]+ https?://\S+: ", "", str(getattr(error, "message", error)))
