"""Registering a model in Vertex AI with Google's own client, against a registry that checks what it is sent."""

import pytest

from components import config
from components.errors import UserError
from components.plan import Plan
from components.publish import vertex_registry
from components.results import Evaluation, Interval, Measures, Verdict
from tests.clients.google_services import refusal
from tests.clients.model_registry import PARENT, ModelRegistry
from tests.clients.played import closed_port, serve

UPLOAD = f"/v1/{PARENT}/models:upload"
VERSIONS = f"/v1/{PARENT}/models/maths:listVersions"
IMPORT = rf"/v1/{PARENT}/models/maths@\d+/evaluations:import"
ARTIFACT = "gs://bucket/runs/run-1/export/model"


@pytest.fixture
def service(account):
    with serve(ModelRegistry()) as served:
        yield served


def measures(accuracy: float) -> Measures:
    rates = dict.fromkeys(("format_accuracy", "truncation_rate", "solved_all", "solved_none", "mean_tokens"), 0.5)
    counts = dict.fromkeys(("verifier_timeouts", "verifier_errors", "unscorable"), 0)
    by_k = {"pass_at_k": {}, "maj_at_k": {}, "pass_hat_k": {}, "reward_parts": {}}
    return Measures(
        n_questions=200,
        samples_per_question=4,
        accuracy=accuracy,
        accuracy_ci_low=accuracy - 0.05,
        accuracy_ci_high=accuracy + 0.05,
        greedy_accuracy=None,
        mean_reward=1.0,
        p95_tokens=20,
        **rates,
        **counts,
        **by_k,
    )


FOUND = Evaluation(
    n_questions=200,
    n_clusters=200,
    samples_per_question=4,
    before=measures(0.5),
    after=measures(0.75),
    delta=Interval(value=0.25, ci_low=0.2, ci_high=0.3),
    verdict=Verdict.PROMOTE,
    reasons=["Accuracy against the base: +25.0 points."],
    min_delta=0.0,
)


def plan(endpoint: str, run_id: str = "run-1", **vertex: object) -> Plan:
    settings = {
        "model": "maths",
        "project": "acme",
        "location": "us-central1",
        "image": "us-docker.pkg.dev/acme/serving/vllm:1",
        "endpoint": endpoint,
        **vertex,
    }
    the_config = config.load("tiny-qwen3", [f"publish.vertex.{key}={value}" for key, value in settings.items()])
    return Plan(
        run_id=run_id,
        run_dir=f"gs://bucket/runs/{run_id}",
        store="gs://bucket",
        config=the_config,
        config_sha256=the_config.sha256(),
        code_version="1",
        model_revision="1",
        converted_id="1",
        started="2026-11-30T10:00:00+00:00",
        attempt_started="2026-11-30T10:00:00+00:00",
    )


def register(the_plan: Plan) -> str:
    return vertex_registry.register(the_plan, ARTIFACT, FOUND, lambda text: None)


def test_a_first_model_is_made_with_container_labels_and_evaluation(service):
    the_plan = plan(service.url, args="[--model=$(AIP_STORAGE_URI)]", env="{VLLM_LOGGING_LEVEL: INFO}", port=8000)
    assert register(the_plan) == f"{PARENT}/models/maths@1"
    (version,) = service.versions["maths"]
    assert version["displayName"] == "maths"
    assert version["artifactUri"] == ARTIFACT
    assert version["versionAliases"] == ["default"]
    assert version["versionDescription"] == "run-1: PROMOTE, Accuracy against the base: +25.0 points."
    assert version["labels"] == {
        "posttrain_run": "run-1",
        "posttrain_preset": "tiny-qwen3",
        "posttrain_config": the_plan.config_sha256[:16],
        "verdict": "promote",
    }
    assert version["containerSpec"] == {
        "imageUri": "us-docker.pkg.dev/acme/serving/vllm:1",
        "args": ["--model=$(AIP_STORAGE_URI)"],
        "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}],
        "ports": [{"containerPort": 8000}],
        "predictRoute": "/v1/completions",
        "healthRoute": "/health",
    }
    (evaluation,) = service.evaluations["maths@1"]
    assert evaluation["displayName"] == "run-1"
    assert evaluation["metrics"] == {"exactMatch": 0.75}
    assert evaluation["metadata"]["verdict"] == "PROMOTE"
    assert evaluation["metadata"]["delta_ci_low"] == 0.2


def test_a_later_run_is_a_version_of_the_same_model_and_the_default(service):
    register(plan(service.url))
    assert register(plan(service.url, "run-2")) == f"{PARENT}/models/maths@2"
    first, second = service.versions["maths"]
    assert (first["versionAliases"], second["versionAliases"]) == ([], ["default"])


def test_a_run_that_registers_twice_has_one_version_and_one_evaluation(service):
    register(plan(service.url))
    assert register(plan(service.url)) == f"{PARENT}/models/maths@1"
    assert len(service.versions["maths"]) == len(service.evaluations["maths@1"]) == 1


def test_a_run_that_was_cut_off_before_the_evaluation_adds_only_that(service):
    service.refuse("POST", IMPORT, 503, refusal(503, "UNAVAILABLE", "later"), times=1)
    with pytest.raises(UserError, match="status 503"):
        register(plan(service.url))
    assert service.evaluations.get("maths@1", []) == []
    register(plan(service.url))
    assert len(service.versions["maths"]) == len(service.evaluations["maths@1"]) == 1


@pytest.mark.parametrize("run_id", ["Tiny.Qwen3-1", "x" * 100, "grpo-post-training-20261130-1"])
def test_every_name_of_a_run_makes_a_label_by_which_it_is_found(service, run_id):
    register(plan(service.url, run_id))
    register(plan(service.url, run_id))
    assert len(service.versions["maths"]) == 1


def test_runs_whose_names_differ_in_a_sign_that_no_label_has_are_two(service):
    for run_id in ("a.b", "a/b", "A.b", "a-b"):
        register(plan(service.url, run_id))
    assert len(service.versions["maths"]) == 4


@pytest.mark.parametrize(
    ("method", "path", "answer", "said"),
    [
        (
            "GET",
            VERSIONS,
            (403, "PERMISSION_DENIED", "no"),
            r"permission denied \(no\)\. Have roles/aiplatform.user on acme",
        ),
        ("POST", UPLOAD, (403, "PERMISSION_DENIED", "no"), "Have roles/aiplatform.user on acme granted"),
        ("POST", UPLOAD, (429, "RESOURCE_EXHAUSTED", "Quota exceeded"), r"quota .*\(Quota exceeded\)\. Wait and try"),
        ("POST", UPLOAD, (409, "ALREADY_EXISTS", "there"), "found by its label"),
        ("POST", UPLOAD, (404, "NOT_FOUND", "no"), "Check publish.vertex.project and publish.vertex.location"),
        ("POST", UPLOAD, (504, "DEADLINE_EXCEEDED", "slow"), "did not answer in time .*found by its label"),
        ("POST", UPLOAD, (400, "INVALID_ARGUMENT", "bad image"), r"does not accept the request \(bad image\)"),
        ("POST", IMPORT, (403, "PERMISSION_DENIED", "no"), "Have roles/aiplatform.user"),
    ],
)
def test_what_the_registry_refuses_is_one_line_with_the_cure(service, method, path, answer, said):
    service.refuse(method, path, answer[0], refusal(*answer))
    with pytest.raises(UserError, match=said) as told:
        register(plan(service.url))
    assert str(told.value).startswith("Vertex AI did not register maths")
    assert len(str(told.value).splitlines()) == 1


def test_an_api_that_is_not_enabled(service):
    service.refuse("GET", VERSIONS, 403, refusal(403, "PERMISSION_DENIED", "off", "SERVICE_DISABLED"))
    with pytest.raises(UserError, match=r"gcloud services enable aiplatform\.googleapis\.com --project acme"):
        register(plan(service.url))


def test_a_registration_that_fails_while_it_is_at_work(service):
    service.failing = {"code": 3, "message": "The image cannot be pulled."}
    with pytest.raises(UserError, match=r"does not accept the request \(.*The image cannot be pulled\)"):
        register(plan(service.url))


def test_a_registry_that_does_not_answer_is_not_waited_for_forever(service, monkeypatch):
    monkeypatch.setattr(vertex_registry, "_TIMEOUT_S", 0.5)
    service.hang("POST", UPLOAD)
    with pytest.raises(UserError, match="did not answer in time"):
        register(plan(service.url))


def test_a_registry_that_is_away(service):
    with pytest.raises(UserError, match=r"cannot be reached\. Check the network"):
        register(plan(closed_port()))


def test_no_credentials(service, monkeypatch):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    with pytest.raises(UserError, match="gcloud auth application-default login"):
        register(plan(service.url))
