"""Cloud Storage: its client, its buckets and objects by `gs://bucket/name`, and what its errors mean for the user.

With STORAGE_EMULATOR_HOST set, `gs://` is that server, without credentials; otherwise Google's, with the default
credentials of the environment. Google's library takes a second to load, so the functions that use it import it.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.errors import UserError

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket, Client
    from google.cloud.storage.fileio import BlobReader

SCHEME = "gs://"

# https://cloud.google.com/storage/docs/access-control/iam-roles
_ROLES = {"read": "Storage Object Viewer", "list": "Storage Object Viewer", "locate": "Storage Bucket Viewer"}
_ROLE_TO_WRITE = "Storage Object User"


def split(uri: str | os.PathLike[str]) -> tuple[str, str]:
    """Splits gs://bucket/name into bucket and name; the name has no slash at its ends and may be empty.

    Raises UserError when there is no bucket.
    """
    bucket_name, _, name = os.fspath(uri).removeprefix(SCHEME).partition("/")
    if not bucket_name:
        raise UserError(f"{os.fspath(uri)} names no bucket: write gs://BUCKET/NAME.")
    return bucket_name, name.strip("/")


@functools.lru_cache(maxsize=4)
def _client(emulator: str | None) -> Client:
    """The client for one server; its connections are shared by all threads."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    if emulator:
        return storage.Client(project="emulator", credentials=AnonymousCredentials())
    return storage.Client()


def bucket(uri: str | os.PathLike[str]) -> Bucket:
    """The bucket of an address. Asks the service nothing."""
    return _client(os.environ.get("STORAGE_EMULATOR_HOST")).bucket(split(uri)[0])


def blob(uri: str | os.PathLike[str]) -> Blob:
    """The object of an address. Asks the service nothing."""
    return bucket(uri).blob(split(uri)[1])


def blobs(uri: str | os.PathLike[str], limit: int | None = None, deep: bool = True) -> Iterator[tuple[str, Blob]]:
    """Yields (relative name, object) of every object below the folder `uri`, with all that the service knows of it.

    Without `deep`, of those alone that lie directly in it.
    """
    name = split(uri)[1]
    prefix = f"{name}/" if name else ""
    where = bucket(uri)
    for found in where.client.list_blobs(where, prefix=prefix, max_results=limit, delimiter=None if deep else "/"):
        if not found.name.endswith("/"):  # an empty object that a console made to show a folder
            yield found.name.removeprefix(prefix), found


def opened(uri: str | os.PathLike[str]) -> BlobReader:
    """An object to read the beginning of: a read fetches 1 MiB, not all of it."""
    return blob(uri).open("rb", chunk_size=1 << 20)


@contextlib.contextmanager
def errors(action: str, uri: str | os.PathLike[str]) -> Iterator[None]:
    """Turns the service's errors that the user can mend into UserError.

    Args:
      action: what was tried, as a verb: "read", "list", "write", "copy", "delete", "locate".
      uri: the place it was tried on.
    """
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud.storage.exceptions import DataCorruption

    place = os.fspath(uri)
    bucket_name = place.removeprefix(SCHEME).partition("/")[0]
    try:
        with _last_failure():
            yield
    except api.NotFound as error:
        raise UserError(f"Cannot {action} {place}: it, or the bucket {bucket_name}, does not exist.") from error
    except (api.Forbidden, api.Unauthorized) as error:
        cure = f"grant this account the role {_ROLES.get(action, _ROLE_TO_WRITE)} on the bucket {bucket_name}"
        raise UserError(f"No permission to {action} {place}: {cure}.") from error
    except api.BadRequest as error:
        if "bucket name" not in str(error).lower():
            raise
        raise UserError(f"Cannot {action} {place}: {bucket_name} is no name for a bucket.") from error
    except (api.TooManyRequests, api.ServerError) as error:
        raise UserError(f"Cloud Storage could not {action} {place} ({error.code}): try again later.") from error
    except DataCorruption as error:
        raise UserError(f"Cannot {action} {place}: its bytes were damaged on the way. Try again.") from error
    except auth.DefaultCredentialsError as error:
        cure = "run `gcloud auth application-default login` or attach a service account"
        raise UserError(f"No Google credentials to {action} {place}: {cure}.") from error
    except auth.RefreshError as error:
        cure = "run `gcloud auth application-default login` again"
        raise UserError(f"The Google credentials to {action} {place} are no longer valid: {cure}.") from error
    except (api.RetryError, auth.TransportError, requests.RequestException) as error:
        raise UserError(f"Cannot reach Cloud Storage to {action} {place}: check the network.") from error


@contextlib.contextmanager
def _last_failure() -> Iterator[None]:
    """Raises, in place of the client's word that it has given up, what the service answered last, if it did."""
    from google.api_core import exceptions as api
    from google.cloud.storage.exceptions import InvalidResponse

    try:
        yield
    except api.RetryError as error:
        if isinstance(error.cause, InvalidResponse):  # of an upload or a download
            raise api.from_http_status(error.cause.response.status_code, str(error.cause)) from error
        if isinstance(error.cause, api.GoogleAPICallError):
            raise error.cause from error
        raise
