"""The target `vertex`, with Google's own clients, against services that check what they are sent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import UserError
from components.stage import Failure
from pipelines.targets import remote, vertex, vertex_client
from pipelines.targets.vertex_client import VertexSettings
from tests.clients.google_services import refusal
from tests.clients.played import closed_port

JOBS = r"/v1/projects/acme/locations/us-central1/pipelineJobs"
ROOT = Path(__file__).parents[2]
PIPELINE = "grpo-post-training"


@pytest.fixture
def settings(vertex, registry, account, bucket) -> VertexSettings:
    return VertexSettings(
        project="acme",
        location="us-central1",
        pipeline_root=f"{bucket}/root",
        repository=f"{registry.url}/acme/templates",
        endpoint=vertex.url,
    )


@pytest.fixture
def service(request):
    return request.getfixturevalue("vertex")


def start(pipeline_yaml, settings, name="tiny-1", **parameters):
    return vertex.submit(pipeline_yaml, parameters, settings, name=name)


# -- submit ------------------------------------------------------------------------------------------------------------


def test_a_run_is_one_call_with_the_pipeline_and_its_parameters(pipeline_yaml, settings, service):
    run = start(pipeline_yaml, settings, "Tiny.Qwen3-1", run_id="Tiny.Qwen3-1", store="gs://b/store")
    job = service.jobs["tiny-qwen3-1"]
    assert [(r.method, r.path) for r in service.requests] == [("POST", JOBS)]
    assert job["displayName"] == "Tiny.Qwen3-1"
    assert job["runtimeConfig"]["parameterValues"] == {"run_id": "Tiny.Qwen3-1", "store": "gs://b/store"}
    assert job["runtimeConfig"]["gcsOutputDirectory"] == settings.pipeline_root
    assert job["pipelineSpec"]["pipelineInfo"]["name"] == PIPELINE
    assert not {"serviceAccount", "network", "labels", "encryptionSpec"} & job.keys()
    assert (run.id, run.name, run.state) == ("tiny-qwen3-1", "Tiny.Qwen3-1", "pending")
    assert run.url == (
        "https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/runs/tiny-qwen3-1?project=acme"
    )


def test_account_network_labels_and_key_are_passed_on(pipeline_yaml, settings, service):
    key = "projects/acme/locations/us-central1/keyRings/r/cryptoKeys/k"
    given = {
        "service_account": "runner@acme.iam.gserviceaccount.com",
        "network": "projects/12/global/networks/n",
        "labels": "team=ml,env=prod",
        "encryption_key": key,
    }
    whole = settings.model_copy(update=given)
    start(pipeline_yaml, whole)
    vertex.schedule(pipeline_yaml, {}, whole, name="weekly", when="0 3 * * 1", zone=None)
    (schedule,) = service.schedules.values()
    for job in (service.jobs["tiny-1"], schedule["createPipelineJobRequest"]["pipelineJob"]):
        assert job["serviceAccount"] == given["service_account"]
        assert job["network"] == given["network"]
        assert job["labels"] == {"team": "ml", "env": "prod"}
        assert job["encryptionSpec"] == {"kmsKeyName": key}


def test_the_same_bytes_load_in_the_client_of_a_notebook(pipeline_yaml, tmp_path, account):
    from google.cloud import aiplatform

    path = tmp_path / "pipeline.yaml"
    path.write_text(pipeline_yaml)
    job = aiplatform.PipelineJob(
        display_name="d", template_path=str(path), pipeline_root="gs://b/r", project="acme", location="us-central1"
    )
    assert job.pipeline_spec["pipelineInfo"]["name"] == PIPELINE


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"stor": "gs://b"}, "no parameter 'stor'. Did you mean 'store'?"),
        ({"store": 3}, "'store' must be a text, not 3"),
        ({"store": True}, "'store' must be a text, not True"),
    ],
)
def test_wrong_parameters_are_refused_before_any_call(pipeline_yaml, settings, service, parameters, said):
    for action in (
        lambda: vertex.submit(pipeline_yaml, parameters, settings, name="tiny-1"),
        lambda: vertex.schedule(pipeline_yaml, parameters, settings, name="weekly", when="0 3 * * 1", zone=None),
    ):
        with pytest.raises(UserError, match=said.replace("?", r"\?")):
            action()
    assert service.requests == []


def test_a_placeholder_for_an_image_is_refused_before_any_call(pipeline_yaml, settings, service, registry):
    yaml_text = pipeline_yaml.replace("/acme/", "/PROJECT/")
    for action in (lambda: start(yaml_text, settings), lambda: vertex.upload(yaml_text, settings)):
        with pytest.raises(UserError, match="placeholder: set POSTTRAIN_IMAGE"):
            action()
    assert service.requests == registry.requests == []


def test_a_root_in_a_missing_bucket_is_refused_before_any_call(pipeline_yaml, settings, service):
    lost = settings.model_copy(update={"pipeline_root": "gs://no-such-bucket-anywhere/root"})
    with pytest.raises(UserError, match=r"gs://no-such-bucket-anywhere/root.*does not exist"):
        start(pipeline_yaml, lost)
    assert service.requests == []


def test_no_root_and_no_repository_are_asked_for_where_they_are_needed(pipeline_yaml, settings):
    bare = settings.model_copy(update={"pipeline_root": None, "repository": None})
    with pytest.raises(UserError, match="--pipeline-root or set POSTTRAIN_VERTEX_PIPELINE_ROOT"):
        start(pipeline_yaml, bare)
    with pytest.raises(UserError, match="--repository or set POSTTRAIN_VERTEX_REPOSITORY"):
        vertex.upload(pipeline_yaml, bare)


# -- schedule ----------------------------------------------------------------------------------------------------------


def test_a_schedule_keeps_local_time_and_runs_one_at_a_time(pipeline_yaml, settings, service):
    made = vertex.schedule(
        pipeline_yaml, {"store": "gs://b/s"}, settings, name="weekly", when="30 3 * * mon", zone="Europe/Berlin"
    )
    (seen,) = service.schedules.values()
    assert seen["cron"] == "TZ=Europe/Berlin 30 3 * * 1"
    assert (seen["maxConcurrentRunCount"], seen["maxConcurrentActiveRunCount"]) == ("1", "1")
    assert not seen.get("allowQueueing")
    assert seen["createPipelineJobRequest"]["pipelineJob"]["runtimeConfig"]["parameterValues"] == {"store": "gs://b/s"}
    assert made.when == "30 3 * * 1 (Europe/Berlin)"
    assert made.url.endswith("/pipelines/schedules/1?project=acme")


def test_without_a_zone_a_schedule_is_in_utc(pipeline_yaml, settings, service):
    vertex.schedule(pipeline_yaml, {}, settings, name="weekly", when="0 3 * * 1", zone=None)
    assert [one["cron"] for one in service.schedules.values()] == ["TZ=UTC 0 3 * * 1"]


def test_a_second_schedule_of_a_name_is_refused_until_the_first_is_over(pipeline_yaml, settings, service):
    def again():
        return vertex.schedule(pipeline_yaml, {}, settings, name="weekly", when="0 3 * * 1", zone=None)

    again()
    with pytest.raises(UserError, match=r"a schedule weekly already .*delete it on https://console"):
        again()
    (first,) = service.schedules.values()
    first["state"] = "COMPLETED"
    again()
    assert len(service.schedules) == 2


@pytest.mark.parametrize(
    ("fixed", "when", "said"),
    [
        ({"run_id": "one"}, "0 3 * * 1", "run_id 'one' would be that of each"),
        ({"output": "gs://b/one"}, "0 3 * * 1", "output 'gs://b/one' would be that of each"),
        ({}, "0 0 3 * * 1", "six fields"),
    ],
)
def test_a_schedule_that_cannot_be_meant_is_refused_before_any_call(
    pipeline_yaml, settings, service, fixed, when, said
):
    with pytest.raises(UserError, match=said):
        vertex.schedule(pipeline_yaml, fixed, settings, name="weekly", when=when, zone=None)
    assert service.requests == []


# -- upload ------------------------------------------------------------------------------------------------------------


def test_an_uploaded_template_has_the_presets_tag_and_one_of_its_bytes(pipeline_yaml, settings, registry):
    first = vertex.upload(pipeline_yaml, settings)
    second = vertex.upload(pipeline_yaml + "\n", settings)
    assert registry.tags[first.version] != registry.tags[second.version] == registry.tags["tiny-qwen3"]
    assert first.name == PIPELINE
    assert first.url == f"{settings.repository}/{PIPELINE}/{registry.tags[first.version]}"
    assert registry.versions[registry.tags[first.version]].decode() == pipeline_yaml


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "gcloud auth application-default login"),
        (403, "permission denied (why).* roles/artifactregistry.writer"),
        (404, "gcloud artifacts repositories create"),
        (409, "it is there already"),
        (429, "quota or rate limit reached.* Wait and try again"),
        (500, "failed with status 500.* Try again in a minute"),
        (504, "did not answer in time"),
    ],
)
def test_each_refusal_of_the_registry_is_one_line_with_the_cure(pipeline_yaml, settings, registry, status, said):
    registry.refuse("POST", "/acme/templates", status, "why")
    with pytest.raises(UserError, match=said.replace("(why)", r"\(why\)")) as caught:
        vertex.upload(pipeline_yaml, settings)
    assert "\n" not in str(caught.value)


def test_a_registry_that_is_not_there(pipeline_yaml, settings):
    lost = settings.model_copy(update={"repository": f"{closed_port()}/acme/templates"})
    with pytest.raises(UserError, match=r"Artifact Registry .* cannot be reached.* --repository"):
        vertex.upload(pipeline_yaml, lost)


# -- refusals ----------------------------------------------------------------------------------------------------------

REFUSALS = [
    (refusal(400, "INVALID_ARGUMENT", "bad field"), r"does not accept the request \(bad field\)"),
    (refusal(401, "UNAUTHENTICATED", "who?"), "gcloud auth application-default login"),
    (
        refusal(403, "PERMISSION_DENIED", "no aiplatform.x"),
        r"denied \(no aiplatform.x\). .*roles/aiplatform.user on acme",
    ),
    (refusal(403, "PERMISSION_DENIED", "disabled", "SERVICE_DISABLED"), "gcloud services enable .* --project acme"),
    (refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded"), r"quota or rate limit reached \(Quota exceeded\). Wait"),
    (refusal(504, "DEADLINE_EXCEEDED", "slow"), "did not answer in time"),
    (refusal(500, "INTERNAL", "oops"), r"failed with status 500 \(oops\). Try again in a minute"),
    (refusal(503, "UNAVAILABLE", "down"), r"failed with status 503 \(down\)"),
]


@pytest.mark.parametrize(("body", "said"), REFUSALS)
def test_each_refusal_is_one_line_with_the_cure(pipeline_yaml, settings, service, monkeypatch, body, said):
    monkeypatch.setattr(vertex_client, "_PATIENCE_S", 0.1)
    service.refuse("POST", JOBS, body["error"]["code"], body)
    service.refuse("POST", r"/v1/.*/schedules", body["error"]["code"], body)
    service.refuse("GET", JOBS + r"(/.*)?", body["error"]["code"], body)
    for action in (
        lambda: start(pipeline_yaml, settings),
        lambda: vertex.schedule(pipeline_yaml, {}, settings, name="weekly", when="0 3 * * 1", zone=None),
        lambda: vertex.runs(settings, pipelines=[PIPELINE]),
        lambda: vertex.status("tiny-1", settings),
        lambda: vertex.cancel("tiny-1", settings),
    ):
        with pytest.raises(UserError, match=said) as caught:
            action()
        assert "\n" not in str(caught.value)
        assert "http://127.0.0.1" not in str(caught.value)


def test_a_second_run_of_a_name_is_a_conflict(pipeline_yaml, settings):
    start(pipeline_yaml, settings)
    with pytest.raises(UserError, match=r"there already.*A run of that name exists.*posttrain status tiny-1"):
        start(pipeline_yaml, settings)


@pytest.mark.parametrize("kind", ["hang", "drop"])
def test_no_answer_in_time(pipeline_yaml, settings, service, monkeypatch, kind):
    monkeypatch.setattr(vertex_client, "_TIMEOUT_S", 0.2)
    monkeypatch.setattr(vertex_client, "_PATIENCE_S", 0.1)
    getattr(service, kind)("POST", JOBS)
    getattr(service, kind)("GET", JOBS + "/.*")
    with pytest.raises(UserError, match=r"start tiny-1: it did not answer in time. It may have been done all the same"):
        start(pipeline_yaml, settings)
    with pytest.raises(UserError, match=r"show tiny-1: it did not answer in time. Try again in a minute"):
        vertex.status("tiny-1", settings)
    assert len(service.asked("POST", JOBS)) == 1, "a second one would be a second run"


def test_nobody_there(pipeline_yaml, settings, monkeypatch):
    monkeypatch.setattr(vertex_client, "_PATIENCE_S", 0.1)
    lost = settings.model_copy(update={"endpoint": closed_port()})
    with pytest.raises(UserError, match=r"cannot be reached. Check the network and --location"):
        start(pipeline_yaml, lost)
    with pytest.raises(UserError, match=r"cannot be reached. Check the network and --location"):
        vertex.status("tiny-1", lost)


def test_no_credentials(pipeline_yaml, settings, monkeypatch):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    for action in (
        lambda: start(pipeline_yaml, settings),
        lambda: vertex.status("tiny-1", settings),
        lambda: vertex.upload(pipeline_yaml, settings),
    ):
        with pytest.raises(UserError, match=r"does not know who you are.*gcloud auth application-default login"):
            action()


def test_a_short_failure_of_the_service_is_no_failure_of_a_read(pipeline_yaml, settings, service):
    start(pipeline_yaml, settings)
    service.refuse("GET", JOBS + "/.*", 503, refusal(503, "UNAVAILABLE", "down"), times=1)
    assert vertex.status("tiny-1", settings).state == "pending"
    assert len(service.asked("GET", JOBS + "/.*")) == 2


# -- runs, status, cancel ----------------------------------------------------------------------------------------------


def task(name, state, number, parent=1, **more):
    created = f"2026-11-30T10:00:{number:02d}Z"
    return {"taskId": number, "parentTaskId": parent, "taskName": name, "state": state, "createTime": created, **more}


@pytest.fixture
def failed(pipeline_yaml, settings, service):
    """A run that failed in its second task."""
    start(pipeline_yaml, settings, store="gs://elsewhere/store", run_id="tiny-1")
    logs = {"containerDetail": {"mainJob": "projects/1/locations/us-central1/customJobs/77"}}
    error = {"code": 9, "message": "The replica workerpool0-0 exited with a non-zero status of 1.\n"}
    service.jobs["tiny-1"] |= {
        "state": "PIPELINE_STATE_FAILED",
        "error": {"code": 9, "message": "The DAG failed because some tasks failed. [train].; Job (id = 1) is failed."},
        "jobDetail": {
            "taskDetails": [
                task("report", "NOT_TRIGGERED", 5, 2),
                task("train", "FAILED", 4, 2, error=error, executorDetail=logs),
                task("convert", "SKIPPED", 3, 2),
                task("exit-handler-1", "FAILED", 2, 1, error=error),
                {"taskId": 1, "taskName": PIPELINE, "state": "FAILED", "createTime": "2026-11-30T10:00:00Z"},
            ]
        },
    }
    return service.jobs["tiny-1"]


def test_a_failed_run_shows_its_tasks_and_the_failing_ones_words_with_its_log(settings, failed):
    run = vertex.status("tiny-1", settings)
    assert [(t.name, t.state) for t in run.tasks] == [("convert", "cached"), ("train", "failed"), ("report", "skipped")]
    assert run.reason.startswith("train: The replica workerpool0-0 exited with a non-zero status of 1. Log: https://")
    assert "job_id%3D%2277%22" in run.reason
    text = remote.describe(run)
    assert text.splitlines()[0] == "tiny-1: failed"
    assert text.splitlines()[-1] == f"failed: {run.reason}"


def test_a_failed_run_says_what_the_stage_kept_in_the_runs_directory(settings, failed, bucket):
    kept = Failure(stage="train", reason="The slice ran out of memory: halve train.batch_size.")
    from components import storage

    storage.write_text(f"{bucket}/store/runs/tiny-1/failure.json", kept.model_dump_json())
    failed["runtimeConfig"]["parameterValues"]["store"] = f"{bucket}/store"
    assert vertex.status("tiny-1", settings).reason == "train: The slice ran out of memory: halve train.batch_size."
    storage.write_text(f"{bucket}/store/runs/tiny-1/failure.json", "{")
    assert vertex.status("tiny-1", settings).reason.startswith("train: The replica")


def test_a_run_that_failed_before_any_task_has_the_words_of_the_run(settings, failed):
    failed["jobDetail"] = {}
    assert vertex.status("tiny-1", settings).reason == "The DAG failed because some tasks failed. [train]."


def test_a_run_that_did_not_fail_has_no_reason(settings, failed):
    for state in ("CANCELLED", "SUCCEEDED", "RUNNING"):
        failed["state"] = f"PIPELINE_STATE_{state}"
        run = vertex.status("tiny-1", settings)
        assert (run.state, run.reason) == (state.lower(), "")


def test_runs_of_the_pipeline_newest_first(pipeline_yaml, settings, service):
    for number in range(1, 6):
        start(pipeline_yaml, settings, f"tiny-{number}")
        service.jobs[f"tiny-{number}"]["createTime"] = f"2026-11-{number:02d}T10:00:00Z"
    service.jobs["tiny-4"]["pipelineSpec"]["pipelineInfo"]["name"] = "of-somebody-else"
    names = [run.name for run in vertex.runs(settings, pipelines=["ray-pretrain", PIPELINE])]
    assert names == ["tiny-5", "tiny-3", "tiny-2", "tiny-1"]
    assert [run.name for run in vertex.runs(settings, pipelines=[PIPELINE], limit=3)] == ["tiny-5", "tiny-3", "tiny-2"]
    assert remote.listing(vertex.runs(settings, pipelines=["ray-pretrain"])) == "No runs yet."


def test_a_run_that_is_not_there_is_told_with_the_nearest_name(pipeline_yaml, settings):
    start(pipeline_yaml, settings, "tiny-qwen3-1")
    for action in (vertex.status, vertex.cancel):
        with pytest.raises(
            UserError, match=r"no run 'tiny-qwen-1' in acme, us-central1. Did you mean 'tiny-qwen3-1'\?"
        ):
            action("tiny-qwen-1", settings)


def test_a_run_is_found_by_its_resource_name_too(pipeline_yaml, settings):
    start(pipeline_yaml, settings)
    assert vertex.status("projects/1/locations/us-central1/pipelineJobs/tiny-1", settings).name == "tiny-1"


def test_cancel_ends_a_run_once(pipeline_yaml, settings, service):
    start(pipeline_yaml, settings)
    assert vertex.cancel("tiny-1", settings).state == "cancelling"
    assert service.jobs["tiny-1"]["state"] == "PIPELINE_STATE_CANCELLING"
    service.jobs["tiny-1"]["state"] = "PIPELINE_STATE_CANCELLED"
    with pytest.raises(UserError, match="not running: it is cancelled"):
        vertex.cancel("tiny-1", settings)
    assert len(service.asked("POST", JOBS + "/tiny-1:cancel")) == 1


# -- settings ----------------------------------------------------------------------------------------------------------

WHOLE = {"project": "acme", "location": "us-central1"}


def test_settings_come_from_options_then_from_the_environment(monkeypatch):
    monkeypatch.setenv("POSTTRAIN_VERTEX_PROJECT", "from-environment")
    monkeypatch.setenv("POSTTRAIN_VERTEX_LOCATION", "us-east5")
    read = VertexSettings.read({"project": "from-option", "network": None})
    assert (read.project, read.location, read.network) == ("from-option", "us-east5", None)


def test_the_page_of_the_target_names_every_setting():
    page = (ROOT / "docs" / "vertex.md").read_text()
    for name in VertexSettings.model_fields:
        assert f"`--{name.replace('_', '-')}` | `{VertexSettings.variable(name)}`" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"location": "us-central1"}, "needs a Google Cloud project.*--project or set POSTTRAIN_VERTEX_PROJECT"),
        ({**WHOLE, "location": "mars"}, "--location 'mars' is not usable: it must be a region, such as us-central1"),
        ({**WHOLE, "pipeline_root": "/tmp/x"}, "--pipeline-root '/tmp/x' is not usable: it must be the address"),
        ({**WHOLE, "service_account": "me"}, "--service-account 'me' is not usable"),
        ({**WHOLE, "network": "default"}, "--network 'default' is not usable"),
        ({**WHOLE, "labels": "Team=ML"}, "--labels 'Team=ML' is not usable: it must be labels in lower case"),
        ({**WHOLE, "labels": "a=1,,b=2"}, "--labels"),
        ({**WHOLE, "encryption_key": "k"}, "--encryption-key 'k' is not usable"),
        ({**WHOLE, "repository": "my-repo"}, "--repository 'my-repo' is not usable"),
        ({**WHOLE, "namespace": "kubeflow"}, "--namespace is no setting of --on vertex"),
    ],
)
def test_settings_that_cannot_be_used_name_the_option_and_the_cure(options, said):
    with pytest.raises(UserError, match=said):
        VertexSettings.read(options)


def test_nothing_heavy_is_loaded_before_it_is_used():
    code = (
        "import json, sys; from pipelines.targets import kfp, vertex; import pipelines.cli; "
        "print(json.dumps([m for m in ('kfp', 'kfp_server_api', 'google.cloud.aiplatform_v1', 'google.cloud.storage', "
        "'google.auth', 'requests', 'urllib3') if m in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == []
