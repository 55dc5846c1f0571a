"""The way to the API server: from Vertex with Google's credentials, from a pod of the cluster, from a laptop."""

import base64
from urllib.parse import urlsplit

import google_cloud
import grpc
import kubernetes_api
import pytest
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerGrpcTransport

from components.config import ClusterConfig
from components.errors import UserError
from components.workloads import api, kube

NAME = "projects/p/locations/us-east5-b/clusters/c"
GKE = ClusterConfig(gke=NAME)


@pytest.fixture(autouse=True)
def _no_cluster_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(kube, "PROBE_S", 0.5)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))


@pytest.fixture
def cluster():
    with kubernetes_api.serve() as served:
        yield served


@pytest.fixture
def tls(tmp_path):
    """A server with TLS, and its certificate."""
    file, certificate = google_cloud.certificate(tmp_path, "server")
    with kubernetes_api.serve(file) as served:
        served.certificate = certificate
        yield served


@pytest.fixture
def google(monkeypatch, tmp_path):
    with google_cloud.serve() as served:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(served.credentials(tmp_path / "key.json")))
        channel = grpc.insecure_channel(served.grpc_address)
        monkeypatch.setattr(ClusterManagerGrpcTransport, "create_channel", lambda *_args, **_how: channel)
        yield served


def described(server, *, dns: bool, external: bool = True) -> container_v1.Cluster:
    """A cluster whose API server is `server`: at its DNS name, or at its IP address with its own certificate."""
    place = urlsplit(server.url).netloc
    return container_v1.Cluster(
        endpoint="127.0.0.1:1" if dns else place,
        master_auth={"cluster_ca_certificate": base64.b64encode(server.certificate).decode()},
        control_plane_endpoints_config={
            "dns_endpoint_config": {"endpoint": place if dns else "127.0.0.1:1", "allow_external_traffic": external}
        },
    )


def refused(cluster=GKE) -> str:
    with pytest.raises(UserError) as error:
        kube.connect(cluster)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- from Vertex ------------------------------------------------------------------------------------------------------


def test_gke_is_reached_at_its_dns_name_with_the_public_certificates(google, tls, monkeypatch, tmp_path):
    (tmp_path / "public.pem").write_bytes(tls.certificate)
    monkeypatch.setattr("certifi.where", lambda: str(tmp_path / "public.pem"))
    google.describe = lambda name: described(tls, dns=True)
    kube.connect(GKE)
    assert google.asked == [NAME]
    assert [request.path for request in tls.requests] == ["/version"]


def test_gke_is_reached_at_its_address_where_the_dns_name_is_not_for_outsiders(google, tls):
    google.describe = lambda name: described(tls, dns=False, external=False)
    kube.connect(GKE)
    assert [request.path for request in tls.requests] == ["/version"]


def test_every_request_has_a_token_that_is_valid_then(google, tls):
    google.describe = lambda name: described(tls, dns=False, external=False)
    client = kube.connect(GKE)
    api.request(client, "GET", "/version", patience_s=1)
    api.request(client, "GET", "/version", patience_s=1)
    assert [request.token for request in tls.requests] == ["token-1", "token-2", "token-3"]
    # without the second one RBAC would know the account by a number
    assert google.scopes.split() == [
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/userinfo.email",
    ]


def test_a_token_server_that_is_away_for_a_moment_is_asked_again(google, tls, monkeypatch):
    google.describe = lambda name: described(tls, dns=False, external=False)
    client = kube.connect(GKE)
    from google.auth.exceptions import TransportError
    from google.auth.transport.requests import Request

    real, calls = Request.__call__, []

    def flaky(self, *args, **how):
        calls.append(args)
        if len(calls) < 3:
            raise TransportError("connection reset")
        return real(self, *args, **how)

    monkeypatch.setattr(Request, "__call__", flaky)
    api.request(client, "GET", "/version", patience_s=10)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (grpc.StatusCode.NOT_FOUND, "There is no cluster"),
        (grpc.StatusCode.PERMISSION_DENIED, "roles/container.clusterViewer"),
        (grpc.StatusCode.UNAVAILABLE, "check the network"),
    ],
)
def test_a_cluster_that_cannot_be_looked_up_is_said_with_the_cure(google, monkeypatch, status, said):
    monkeypatch.setattr("components.workloads.gke._PATIENCE_S", 0.5)
    google.describe = lambda name: status
    assert said in refused()


def test_credentials_that_are_no_longer_valid_are_said_with_the_cure(google, tls):
    google.describe = lambda name: described(tls, dns=False, external=False)
    google.refuses = True
    assert "gcloud auth application-default login" in refused()


def test_no_google_credentials_are_said_with_the_cure(monkeypatch, tmp_path):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    assert "gcloud auth application-default login" in refused()


# -- from a pod of the cluster ----------------------------------------------------------------------------------------


@pytest.fixture
def pod(tls, monkeypatch, tmp_path):
    """The environment and files that a pod of the cluster has."""
    place = urlsplit(tls.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(place.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(place.port))
    for file, text, name in (
        ("token", b"of-the-account", "SERVICE_TOKEN_FILENAME"),
        ("ca.crt", tls.certificate, "SERVICE_CERT_FILENAME"),
    ):
        (tmp_path / file).write_bytes(text)
        monkeypatch.setattr(f"kubernetes.config.incluster_config.{name}", str(tmp_path / file))
    return tls


def test_a_pod_reaches_its_own_cluster_with_its_service_account(pod):
    kube.connect(ClusterConfig())
    assert [request.token for request in pod.requests] == ["of-the-account"]


def test_a_pod_reaches_another_cluster_when_a_context_is_named(pod, cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
    kube.connect(ClusterConfig(context="played"))
    assert [request.path for request in cluster.requests] == ["/version"]
    assert pod.requests == []


def test_a_pod_without_a_token_is_told_the_cure(pod, tmp_path):
    (tmp_path / "token").unlink()
    assert "no credentials for its cluster" in refused(ClusterConfig())


# -- from a laptop ----------------------------------------------------------------------------------------------------


def test_a_laptop_reaches_the_current_context(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
    kube.connect(ClusterConfig())
    assert [request.token for request in cluster.requests] == ["a-token"]


def test_an_unknown_context_is_said_with_the_nearest_one(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
    assert "Did you mean 'played'?" in refused(ClusterConfig(context="plaid"))


def test_no_kubeconfig_is_said_with_the_cure():
    assert "gcloud container clusters get-credentials" in refused(ClusterConfig())


def test_a_server_that_is_not_there_is_said_soon(cluster, monkeypatch, tmp_path):
    cluster.url = "http://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
    assert "http://127.0.0.1:1 does not answer" in refused(ClusterConfig())


def test_refused_credentials_are_said_with_the_cure(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
    cluster.fail(status=401, message="Unauthorized")
    assert "sign in again" in refused(ClusterConfig())


def test_a_certificate_that_cannot_be_trusted_is_said(tls, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tls.kubeconfig(tmp_path / "kubeconfig")))
    assert "Cannot trust the cluster" in refused(ClusterConfig())
