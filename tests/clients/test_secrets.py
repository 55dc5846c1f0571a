"""Where a secret comes from, and that its value is in nothing that is said."""

import base64
import contextlib
import json

import pytest

from components import config, secrets
from components.errors import UserError
from tests.clients.google_services import refusal
from tests.clients.played import Refused, Service, closed_port, serve

NAME = "projects/acme/secrets/hf/versions/latest"


def named(*settings):
    return config.load("tiny-qwen3", settings)


class SecretManager(Service):
    def answer(self, request):
        assert request.headers["authorization"].startswith("Bearer ")
        assert (request.method, request.path) == ("GET", f"/v1/{NAME}:access")
        return {"name": NAME, "payload": {"data": base64.b64encode(b"hf_from_manager\n").decode()}}


@pytest.fixture
def manager(account, monkeypatch):
    """Secret Manager, and a process that has read no secret yet."""
    monkeypatch.delenv(secrets.HF_TOKEN, raising=False)
    monkeypatch.setattr(secrets, "_resources", {})
    secrets._read.cache_clear()
    with serve(SecretManager()) as served:
        monkeypatch.setattr(secrets, "SERVICE", f"{served.url}/v1")
        yield served


def test_without_any_there_is_none(manager):
    secrets.use(named())
    assert secrets.value(secrets.HF_TOKEN) is None
    assert manager.requests == []


def test_the_environment_goes_before_secret_manager(manager, monkeypatch):
    secrets.use(named(f"secrets.hf_token={NAME}"))
    monkeypatch.setenv(secrets.HF_TOKEN, "hf_from_environment\n")
    assert secrets.value(secrets.HF_TOKEN) == "hf_from_environment"
    assert manager.requests == []


def test_secret_manager_is_asked_once_when_it_is_needed(manager):
    secrets.use(named(f"secrets.hf_token={NAME}"))
    assert manager.requests == []
    assert [secrets.value(secrets.HF_TOKEN) for _ in range(3)] == ["hf_from_manager"] * 3
    assert len(manager.requests) == 1


def test_the_hub_is_asked_with_the_secret(manager):
    from components.sources import hub

    secrets.use(named(f"secrets.hf_token={NAME}"))
    with hub.writing("acme/maths") as api:
        assert api.token == "hf_from_manager"


def test_a_configuration_holds_names_only(manager):
    the_config = config.load("tiny-qwen3", [f"secrets.hf_token={NAME}", f"secrets.webhook={NAME}"])
    secrets.use(the_config)
    secrets.value(secrets.HF_TOKEN)
    assert "hf_from_manager" not in the_config.model_dump_json() + the_config.to_yaml()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            (403, "PERMISSION_DENIED", "no"),
            "Have roles/secretmanager.secretAccessor on projects/acme/secrets/hf granted",
        ),
        ((404, "NOT_FOUND", "no"), "Check the name under secrets"),
        ((400, "FAILED_PRECONDITION", "DISABLED state"), r"\(DISABLED state\)\. Enable that version"),
        ((401, "UNAUTHENTICATED", "who"), "gcloud auth application-default login"),
        ((429, "RESOURCE_EXHAUSTED", "quota"), "Wait and try again"),
    ],
)
def test_what_secret_manager_refuses_is_one_line_with_the_cure(manager, answer, said):
    manager.refuse("GET", f"/v1/{NAME}:access", answer[0], refusal(*answer))
    secrets.use(named(f"secrets.hf_token={NAME}"))
    with pytest.raises(UserError, match=said) as told:
        secrets.value(secrets.HF_TOKEN)
    assert str(told.value).startswith(f"Secret Manager did not give {NAME}: ")
    assert len(str(told.value).splitlines()) == 1


def test_a_secret_manager_that_does_not_answer(manager, monkeypatch):
    monkeypatch.setattr(secrets, "_TIMEOUT_S", 0.5)
    manager.hang("GET", f"/v1/{NAME}:access")
    secrets.use(named(f"secrets.hf_token={NAME}"))
    with pytest.raises(UserError, match="did not answer in time"):
        secrets.value(secrets.HF_TOKEN)


def test_a_secret_manager_that_is_away(manager, monkeypatch):
    monkeypatch.setattr(secrets, "SERVICE", f"{closed_port()}/v1")
    secrets.use(named(f"secrets.hf_token={NAME}"))
    with pytest.raises(UserError, match=r"cannot be reached\. Check the network"):
        secrets.value(secrets.HF_TOKEN)


def test_no_credentials(manager, monkeypatch):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    secrets.use(named(f"secrets.hf_token={NAME}"))
    with pytest.raises(UserError, match="gcloud auth application-default login"):
        secrets.value(secrets.HF_TOKEN)


@pytest.fixture
def cluster(manager, monkeypatch, tmp_path):
    """A cluster with one Secret, reached by a kubeconfig."""
    with kubernetes() as url:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": url}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield url


@contextlib.contextmanager
def kubernetes():
    class Secrets(Service):
        def answer(self, request):
            if request.path == "/api/v1/namespaces/team/secrets/hf-secret":
                return {"kind": "Secret", "data": {"hf_api_token": base64.b64encode(b"hf_from_cluster").decode()}}
            if request.path.startswith("/version") or request.path == "/readyz":
                return {"major": "1", "minor": "35"}
            raise Refused(404, {"kind": "Status", "message": "not found", "reason": "NotFound", "code": 404})

    with serve(Secrets()) as served:
        yield served.url


def test_a_kubernetes_secret_by_name(cluster):
    secrets.use(named("secrets.hf_token=hf-secret/hf_api_token", "cluster.namespace=team"))
    assert secrets.value(secrets.HF_TOKEN) == "hf_from_cluster"


def test_a_pod_finds_the_token_of_the_pods_that_it_starts(cluster, monkeypatch):
    the_config = named("cluster.hf_secret=hf-secret/hf_api_token", "cluster.namespace=team")
    secrets.use(the_config)
    assert secrets.value(secrets.HF_TOKEN) is None  # on a laptop the cluster's token is not one's own
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    secrets.use(the_config)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert secrets.value(secrets.HF_TOKEN) == "hf_from_cluster"


@pytest.mark.parametrize(
    ("name", "said"),
    [("other/key", "kubectl create secret generic other"), ("hf-secret/key", "has no key key: it has hf_api_token")],
)
def test_a_kubernetes_secret_that_is_not_there_is_one_line(cluster, name, said):
    secrets.use(named(f"secrets.hf_token={name}", "cluster.namespace=team"))
    with pytest.raises(UserError, match=said):
        secrets.value(secrets.HF_TOKEN)
