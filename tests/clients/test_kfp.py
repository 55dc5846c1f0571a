"""The target `kfp`, with KFP's own generated client, against a service that checks what it is sent."""

from pathlib import Path

import pytest
import yaml

from components import config
from components.errors import UserError
from pipelines.compile import compile_yaml
from pipelines.targets import kfp, kfp_client, remote
from pipelines.targets.kfp_client import KfpSettings
from tests.clients.kfp_service import KfpService
from tests.clients.played import closed_port, serve

ROOT = Path(__file__).parents[2]
PIPELINE = "grpo-post-training"
V2 = "/apis/v2beta1"


@pytest.fixture
def settings(kfp_service) -> KfpSettings:
    return KfpSettings(host=kfp_service.url)


@pytest.fixture
def made(kfp_service):
    return kfp_service.made


def start(pipeline_yaml, settings, name="tiny-1", **parameters):
    return kfp.submit(pipeline_yaml, parameters, settings, name=name)


def weekly(pipeline_yaml, settings, *, when="0 3 * * 1", zone=None, **parameters):
    return kfp.schedule(pipeline_yaml, parameters, settings, name="weekly", when=when, zone=zone)


# -- upload ------------------------------------------------------------------------------------------------------------


def test_the_same_bytes_are_one_version_and_others_another(pipeline_yaml, settings, made):
    first = kfp.upload(pipeline_yaml, settings)
    again = kfp.upload(pipeline_yaml, settings)
    other = kfp.upload(pipeline_yaml + "\n", settings)
    assert [first.there_before, again.there_before, other.there_before] == [False, True, False]
    assert first.version == again.version != other.version
    assert [one["display_name"] for one in made["pipelines"]] == [f"{PIPELINE}-tiny-qwen3"]
    assert [one["name"] for one in made["versions"]] == [first.version, other.version]
    ids = (made["pipelines"][0]["pipeline_id"], made["versions"][0]["pipeline_version_id"])
    assert first.url == again.url == f"{settings.host}/#/pipelines/details/{ids[0]}/version/{ids[1]}"


def test_the_uploaded_pipeline_has_its_presets_description(pipeline_yaml, settings, kfp_service, made):
    kfp.upload(pipeline_yaml, settings)
    description = yaml.safe_load(pipeline_yaml)["pipelineInfo"]["description"]
    assert made["pipelines"][0]["description"] == made["versions"][0]["description"] == description
    assert kfp_service.specs[made["versions"][0]["pipeline_version_id"]] == yaml.safe_load(pipeline_yaml)


@pytest.mark.parametrize("path", ["pipelines", "pipelines/upload_version"])
def test_an_upload_at_the_same_time_as_another_says_try_again(pipeline_yaml, settings, kfp_service, path):
    kfp_service.refuse("POST", f"{V2}/{path}", 409, {"error_message": "exists"}, times=1)
    with pytest.raises(UserError, match=r"there already \(exists\). Somebody has just made the same: try again"):
        kfp.upload(pipeline_yaml, settings)
    kfp.upload(pipeline_yaml, settings)


def test_the_bytes_load_in_kfps_own_parser(pipeline_yaml):
    from google.protobuf import json_format
    from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

    spec = json_format.ParseDict(yaml.safe_load(pipeline_yaml), PipelineSpec())
    assert spec.pipeline_info.name == PIPELINE


# -- run ---------------------------------------------------------------------------------------------------------------


def test_a_run_is_of_an_uploaded_version_in_the_experiment(pipeline_yaml, settings, made):
    whole = settings.model_copy(update={"service_account": "posttrain", "pipeline_root": "gs://b/root"})
    run = start(pipeline_yaml, whole, store="gs://b/store", run_id="tiny-1")
    (seen,) = made["runs"]
    assert seen["display_name"] == run.name == "tiny-1"
    assert seen["runtime_config"] == {
        "parameters": {"store": "gs://b/store", "run_id": "tiny-1"},
        "pipeline_root": "gs://b/root",
    }
    assert seen["service_account"] == "posttrain"
    assert [one["display_name"] for one in made["experiments"]] == ["posttrain"]
    assert (run.state, run.url) == ("pending", f"{settings.host}/#/runs/details/{seen['run_id']}")


def test_what_is_not_set_is_left_to_kfp(pipeline_yaml, settings, made):
    start(pipeline_yaml, settings)
    (seen,) = made["runs"]
    assert "service_account" not in seen
    assert seen["runtime_config"] == {"parameters": {}}


def test_further_runs_share_the_version_and_the_experiment(pipeline_yaml, settings, made):
    start(pipeline_yaml, settings, "tiny-1")
    start(pipeline_yaml, settings, "tiny-2")
    assert {kind: len(made[kind]) for kind in ("pipelines", "versions", "experiments", "runs")} == {
        "pipelines": 1,
        "versions": 1,
        "experiments": 1,
        "runs": 2,
    }


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"stor": "gs://b"}, r"no parameter 'stor'. Did you mean 'store'\?"),
        ({"store": 3}, "'store' must be a text, not 3"),
        ({"store": True}, "'store' must be a text, not True"),
    ],
)
def test_wrong_parameters_are_refused_before_any_call(pipeline_yaml, settings, kfp_service, parameters, said):
    for action in (start, weekly):
        with pytest.raises(UserError, match=said):
            action(pipeline_yaml, settings, **parameters)
    assert kfp_service.requests == []


def test_a_placeholder_for_an_image_is_refused_before_any_call(pipeline_yaml, settings, kfp_service):
    for action in (start, weekly, kfp.upload):
        with pytest.raises(UserError, match="placeholder: set POSTTRAIN_IMAGE"):
            action(pipeline_yaml.replace("/acme/", "/PROJECT/"), settings)
    assert kfp_service.requests == []


# -- schedule ----------------------------------------------------------------------------------------------------------


def test_a_schedule_has_six_fields_and_one_run_at_a_time(pipeline_yaml, settings, made):
    schedule = weekly(pipeline_yaml, settings, when="30 3 * * sun", store="gs://b/store")
    (seen,) = made["recurringruns"]
    assert seen["trigger"] == {"cron_schedule": {"cron": "0 30 3 * * 0"}}
    assert (seen["max_concurrency"], seen["no_catchup"], seen["mode"]) == ("1", True, "ENABLE")
    assert seen["runtime_config"] == {"parameters": {"store": "gs://b/store"}}
    assert schedule.when == "30 3 * * 0 (UTC)"
    assert schedule.url == f"{settings.host}/#/recurringrun/details/{seen['recurring_run_id']}"


def test_a_second_schedule_of_a_name_is_refused(pipeline_yaml, settings, made):
    weekly(pipeline_yaml, settings)
    with pytest.raises(UserError, match=r"a schedule weekly already: delete it on http.*recurringrun/details"):
        weekly(pipeline_yaml, settings)
    assert len(made["recurringruns"]) == 1


def test_another_time_zone_than_the_installations_is_refused_before_any_call(pipeline_yaml, settings, kfp_service):
    with pytest.raises(UserError, match=r"one time zone, that of its installation \(UTC\): give the time in it"):
        weekly(pipeline_yaml, settings, zone="Europe/Berlin")
    assert kfp_service.requests == []
    there = settings.model_copy(update={"server_time_zone": "Europe/Berlin"})
    assert weekly(pipeline_yaml, there, zone="Europe/Berlin").when == "0 3 * * 1 (Europe/Berlin)"


@pytest.mark.parametrize(
    ("fixed", "when", "said"),
    [
        ({"run_id": "one"}, "0 3 * * 1", "run_id 'one' would be that of each"),
        ({"output": "gs://b/one"}, "0 3 * * 1", "output 'gs://b/one' would be that of each"),
        ({}, "0 0 3 * * 1", "six fields"),
    ],
)
def test_a_schedule_that_cannot_be_meant_is_refused_before_any_call(
    pipeline_yaml, settings, kfp_service, fixed, when, said
):
    with pytest.raises(UserError, match=said):
        weekly(pipeline_yaml, settings, when=when, **fixed)
    assert kfp_service.requests == []


# -- several users, tokens ---------------------------------------------------------------------------------------------


@pytest.fixture
def shared(kfp_service, settings, monkeypatch) -> KfpSettings:
    """A KFP of several users that wants a token."""
    kfp_service.several_users, kfp_service.token = True, "token-of-ana"
    monkeypatch.setenv("POSTTRAIN_KFP_TOKEN", "token-of-ana")
    return settings.model_copy(update={"namespace": "ana"})


def test_everything_is_in_the_namespace_of_the_user(pipeline_yaml, shared, made):
    start(pipeline_yaml, shared)
    weekly(pipeline_yaml, shared)
    kfp.upload(pipeline_yaml, shared)
    assert {one["namespace"] for kind in ("pipelines", "experiments") for one in made[kind]} == {"ana"}
    assert (len(made["pipelines"]), len(made["versions"])) == (1, 1)
    other = shared.model_copy(update={"namespace": "ben"})
    assert [run.name for run in kfp.runs(shared, pipelines=[PIPELINE])] == ["tiny-1"]
    assert kfp.runs(other, pipelines=[PIPELINE]) == []
    weekly(pipeline_yaml, other)


def test_the_namespace_must_fit_the_kind_of_kfp(pipeline_yaml, settings, shared, kfp_service):
    with pytest.raises(UserError, match="--namespace or set POSTTRAIN_KFP_NAMESPACE"):
        start(pipeline_yaml, settings)
    kfp_service.several_users = False
    with pytest.raises(UserError, match="one user and one namespace: leave out --namespace"):
        start(pipeline_yaml, shared)


def test_a_token_comes_from_the_variable_that_is_named_or_from_a_file(
    pipeline_yaml, shared, kfp_service, monkeypatch, tmp_path
):
    start(pipeline_yaml, shared)
    monkeypatch.delenv("POSTTRAIN_KFP_TOKEN")
    monkeypatch.setenv("ANA", "token-of-ana")
    start(pipeline_yaml, shared.model_copy(update={"token_variable": "ANA"}))
    path = tmp_path / "token"
    path.write_text("token-of-ana\n")
    start(pipeline_yaml, shared.model_copy(update={"token_file": str(path)}))
    assert {request.headers.get("authorization") for request in kfp_service.requests} == {"Bearer token-of-ana"}


def test_no_token_a_lost_file_and_an_unset_variable_each_say_so(pipeline_yaml, shared, monkeypatch):
    monkeypatch.delenv("POSTTRAIN_KFP_TOKEN")
    for given, said in (
        (
            {},
            r"does not know who you are \(Unauthenticated.*\). Give a valid token \(--token-file or POSTTRAIN_KFP_TOKEN",
        ),
        ({"token_file": "/no/such/file"}, r"--token-file /no/such/file cannot be read \(No such file"),
        ({"token_variable": "ANA"}, "variable ANA is not set"),
        ({"ca_certificate": "/no/such/ca"}, r"--ca-certificate /no/such/ca cannot be used \(No such file"),
    ):
        with pytest.raises(UserError, match=said):
            start(pipeline_yaml, shared.model_copy(update=given))


def test_a_token_is_in_no_setting_and_in_no_error(pipeline_yaml, shared, kfp_service):
    kfp_service.refuse("POST", ".*", 403, {"message": "no"})
    with pytest.raises(UserError) as caught:
        start(pipeline_yaml, shared)
    assert "token-of-ana" not in str(caught.value) + repr(caught.value.__cause__) + repr(shared)


def test_a_login_page_is_told_from_kfp(pipeline_yaml, settings, kfp_service):
    kfp_service.refuse("GET", ".*", 200, "<html>Log in with Dex</html>")
    with pytest.raises(UserError, match="does not answer as KFP does; it may be a login page"):
        start(pipeline_yaml, settings)


# -- refusals ----------------------------------------------------------------------------------------------------------

REFUSALS = [
    (400, {"message": "bad root"}, r"does not accept the request \(bad root\)"),
    (403, {"message": "no create"}, r"denied \(no create\). Have your account granted the role kubeflow-edit"),
    (409, {"message": "bad template", "code": 10}, r"does not accept the request \(bad template\)"),
    (403, "RBAC: access denied", r"denied \(RBAC: access denied\)"),
    (403, '"Jwt is missing"', "denied .*Jwt is missing"),
    (404, {"message": "lost"}, r"no such thing \(lost\). Check --host and --namespace"),
    (429, {"message": "slow down"}, r"quota or rate limit reached \(slow down\). Wait"),
    (500, {"message": "pods is forbidden: exceeded quota: q"}, r"quota or rate limit reached \(pods.*quota raised"),
    (500, {"error_message": "Failed"}, r"failed with status 500 \(Failed\). Try again in a minute"),
    (503, "<html>nginx</html>", r"failed with status 503 \(Service Unavailable\)"),
    (504, "<html>nginx</html>", "did not answer in time"),
]


@pytest.mark.parametrize(("status", "body", "said"), REFUSALS)
def test_each_refusal_is_one_line_with_the_cure(pipeline_yaml, settings, kfp_service, status, body, said):
    kfp_service.refuse("POST", ".*", status, body)
    kfp_service.refuse("GET", V2 + "/runs.*", status, body)
    for action in (
        lambda: start(pipeline_yaml, settings),
        lambda: weekly(pipeline_yaml, settings),
        lambda: kfp.upload(pipeline_yaml, settings),
        lambda: kfp.runs(settings, pipelines=[PIPELINE]),
        lambda: kfp.status("tiny-1", settings),
        lambda: kfp.cancel("tiny-1", settings),
    ):
        with pytest.raises(UserError, match=said) as caught:
            action()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["hang", "drop"])
def test_no_answer_in_time(pipeline_yaml, settings, kfp_service, monkeypatch, kind):
    monkeypatch.setattr(kfp_client, "_ANSWER_S", 2.0)
    getattr(kfp_service, kind)("POST", V2 + "/runs")
    with pytest.raises(UserError, match=r"start tiny-1: it did not answer in time. It may have been done all the same"):
        start(pipeline_yaml, settings)
    assert len(kfp_service.asked("POST", V2 + "/runs")) == 1, "a second one would be a second run"


def test_nobody_there(pipeline_yaml, caplog):
    with pytest.raises(UserError, match=r"cannot be reached .*Check --host, --ca-certificate and the network"):
        start(pipeline_yaml, KfpSettings(host=closed_port()))
    assert caplog.text == "", "the client's own account of each try is more than the one line"


def test_a_certificate_of_ones_own_is_named(pipeline_yaml, own_certificate):
    with serve(KfpService(), certificate=own_certificate) as service:
        settings = KfpSettings(host=service.url)
        with pytest.raises(UserError, match=r"cannot be reached \(.*SSLError\). Check --host, --ca-certificate"):
            start(pipeline_yaml, settings)
        start(pipeline_yaml, settings.model_copy(update={"ca_certificate": own_certificate}))


def test_a_file_that_is_no_certificate_is_named(pipeline_yaml, settings, tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    secure = settings.model_copy(update={"ca_certificate": str(path)})
    with pytest.raises(
        UserError, match=r"--ca-certificate .*ca.pem cannot be used .*give a file with a PEM certificate"
    ):
        start(pipeline_yaml, secure)


def test_a_short_failure_of_the_service_is_no_failure_of_a_read(pipeline_yaml, settings, kfp_service):
    run = start(pipeline_yaml, settings)
    kfp_service.refuse("GET", V2 + "/runs/.*", 503, "down", times=1)
    assert kfp.status(run.id, settings).state == "pending"


# -- runs, status, cancel ----------------------------------------------------------------------------------------------


def test_runs_of_all_presets_and_of_whoever_started_them_newest_first(pipeline_yaml, settings, made):
    start(pipeline_yaml, settings, "tiny-1")
    start(compile_yaml(config.load("tiny-gemma4")).replace("/PROJECT/", "/acme/"), settings, "gemma-1")
    assert len(made["pipelines"]) == 2
    sent = {"run_id": "r3", "display_name": "notebook", "created_at": "2026-12-01T10:00:00Z", "state": "SUCCEEDED"}
    made["runs"] += [
        sent | {"pipeline_spec": {"pipelineInfo": {"name": PIPELINE}}},
        sent | {"run_id": "r4", "display_name": "other", "pipeline_spec": {"pipelineInfo": {"name": "other"}}},
        {"run_id": "r5", "error": {"code": 13, "message": "Failed to parse the pipeline source"}},
    ]
    names = [run.name for run in kfp.runs(settings, pipelines=[PIPELINE])]
    assert names == ["notebook", "gemma-1", "tiny-1"]
    assert [run.name for run in kfp.runs(settings, pipelines=[PIPELINE], limit=1)] == ["notebook"]
    assert remote.listing(kfp.runs(settings, pipelines=["ray-pretrain"])) == "No runs yet."


def detail(name, state, children=(), **more):
    stamp = f"2026-11-30T10:{len(name) % 60:02d}:00Z"
    pods = [{"pod_name": child} for child in children]
    return {"task_id": "", "display_name": name, "state": state, "start_time": stamp, "child_tasks": pods, **more}


def at(minute, one):
    return one | {"start_time": f"2026-11-30T11:{minute:02d}:00Z"}


@pytest.fixture
def failed(pipeline_yaml, settings, made, kfp_service):
    """A run that failed in training, with the task details of KFP 2.17."""
    run = start(pipeline_yaml, settings)
    made["runs"][0] |= {
        "state": "FAILED",
        "run_details": {
            "task_details": [
                {"run_id": run.id, "task_id": "a-record-of-the-cache", "create_time": "2026-11-30T10:00:00Z"},
                at(0, detail("grpo-post-training-x7k2p", "FAILED", ["wf-1"])),
                at(0, detail("root-driver", "SUCCEEDED", ["wf-2"])),
                at(1, detail("root", "FAILED", ["wf-3"])),
                at(1, detail("exit-handler-1-driver", "SUCCEEDED", ["wf-4"])),
                at(2, detail("exit-handler-1", "FAILED", ["wf-5"])),
                at(7, detail("train-driver", "SUCCEEDED", ["wf-8"])),
                at(8, detail("train", "FAILED", ["wf-9"])),
                at(8, detail("executor", "FAILED")),
                at(3, detail("prepare-driver", "SUCCEEDED", ["wf-6"])),
                at(4, detail("prepare", "SUCCEEDED", ["wf-7"])),
                at(4, detail("executor", "SUCCEEDED", ["wf-10"])),
                at(5, detail("convert-driver", "SUCCEEDED", ["wf-11"])),
                at(6, detail("convert", "SKIPPED")),
            ]
        },
    }
    kfp_service.logs[(run.id, "wf-7")] = "posttrain[prepare] done\n"
    kfp_service.logs[(run.id, "wf-9")] = (
        "I1130 10:00:00.000001       1 launcher_v2.go:100] starting\n"
        "posttrain[train] 3/40\n"
        "posttrain-failure: train: an earlier attempt\n"
        "posttrain-failure: train: The slice ran out of memory: halve train.batch_size. \u00e9\n"
        "F1130 10:00:01.000001       1 main.go:56] failed to execute component: exit status 1\n"
    )
    return made["runs"][0]


def test_a_failed_run_shows_its_tasks_and_the_stages_last_words(settings, failed):
    run = kfp.status("tiny-1", settings)
    assert [(task.name, task.state) for task in run.tasks] == [
        ("prepare", "succeeded"),
        ("convert", "skipped"),
        ("train", "failed"),
    ]
    assert run.reason == "train: The slice ran out of memory: halve train.batch_size. \u00e9"
    assert remote.describe(run).splitlines()[-1] == f"failed: {run.reason}"
    assert kfp.status(failed["run_id"], settings) == run


def test_only_logs_of_what_failed_are_read(settings, failed, kfp_service):
    kfp.status("tiny-1", settings)
    read = {request.path.split("/")[-2] for request in kfp_service.asked("GET", "/apis/v1alpha1/.*")}
    assert read == {"wf-1", "wf-3", "wf-5", "wf-9"}


def test_a_stage_that_was_killed_leaves_kfps_own_error(settings, failed, kfp_service):
    kfp_service.logs[(failed["run_id"], "wf-9")] = "F1130 10:00:01.000001       1 main.go:56] exit status 137\n"
    assert kfp.status("tiny-1", settings).reason == "exit status 137"


def test_a_failing_driver_says_why_though_no_task_names_its_log(settings, failed, kfp_service):
    details = failed["run_details"]["task_details"]
    details[:] = [one for one in details if one.get("display_name") not in ("train", "executor")]
    next(one for one in details if one.get("display_name") == "train-driver")["state"] = "FAILED"
    details.append(at(4, detail("executor", "SUCCEEDED", ["wf-12"])))
    line = 'F1130 10:00:01.000001       1 main.go:79] KFP driver failed: configmaps "kfp-launcher" is forbidden\n'
    kfp_service.logs[(failed["run_id"], "wf-12")] = line
    kfp_service.logs.pop((failed["run_id"], "wf-9"))
    assert kfp.status("tiny-1", settings).reason == 'KFP driver failed: configmaps "kfp-launcher" is forbidden'


@pytest.mark.parametrize("logs", ["none", "unavailable"])
def test_a_run_that_left_no_word_says_where_to_look(settings, failed, kfp_service, logs):
    kfp_service.logs.clear()
    if logs == "unavailable":
        kfp_service.refuse("GET", "/apis/v1alpha1/.*", 500, {"error_message": "no such pod"})
    run = kfp.status("tiny-1", settings)
    assert run.reason == (
        f"KFP keeps no reason: the run was cancelled, or a pod was lost or never started. Its logs are on {run.url}"
    )


def test_a_run_that_has_not_begun_has_no_tasks_and_no_reason(pipeline_yaml, settings):
    start(pipeline_yaml, settings)
    run = kfp.status("tiny-1", settings)
    assert (run.state, run.tasks, run.reason) == ("pending", (), "")


def test_of_runs_of_one_name_the_newest_is_shown(pipeline_yaml, settings):
    start(pipeline_yaml, settings)
    second = start(pipeline_yaml, settings)
    assert kfp.status("tiny-1", settings).id == second.id


def test_a_run_that_is_not_there_is_told_with_the_nearest_name(pipeline_yaml, settings):
    start(pipeline_yaml, settings, "tiny-qwen3-1")
    for action in (kfp.status, kfp.cancel):
        with pytest.raises(UserError, match=r"no run 'tiny-qwen-1' at http.*Did you mean 'tiny-qwen3-1'\?"):
            action("tiny-qwen-1", settings)


def test_cancel_ends_a_run_once(pipeline_yaml, settings, made, kfp_service):
    start(pipeline_yaml, settings)
    assert kfp.cancel("tiny-1", settings).state == "cancelling"
    assert made["runs"][0]["state"] == "CANCELING"
    made["runs"][0]["state"] = "FAILED"  # what KFP makes of it
    with pytest.raises(UserError, match="not running: it is failed"):
        kfp.cancel("tiny-1", settings)
    assert len(kfp_service.asked("POST", V2 + "/runs/.*:terminate")) == 1


def test_nothing_is_printed_and_nothing_is_left_in_the_home(pipeline_yaml, settings, capfd, tmp_path):
    start(pipeline_yaml, settings)
    weekly(pipeline_yaml, settings)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "home").exists()


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_come_from_options_then_from_the_environment_then_from_defaults(monkeypatch):
    monkeypatch.setenv("POSTTRAIN_KFP_HOST", "https://environment")
    monkeypatch.setenv("POSTTRAIN_KFP_EXPERIMENT", "weekly")
    read = KfpSettings.read({"host": "https://option", "namespace": None})
    assert (read.host, read.experiment, read.server_time_zone) == ("https://option", "weekly", "UTC")


def test_the_page_of_the_target_names_every_setting():
    page = (ROOT / "docs" / "kfp.md").read_text()
    for name in KfpSettings.model_fields:
        assert f"`--{name.replace('_', '-')}` | `{KfpSettings.variable(name)}`" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the address of KFP's UI.*--host or set POSTTRAIN_KFP_HOST"),
        ({"host": "kfp.example.com"}, "--host 'kfp.example.com' is not usable: it must be the address"),
        ({"host": "http://h", "pipeline_root": "/tmp/x"}, "--pipeline-root '/tmp/x' .*a plain path fails"),
        ({"host": "http://h", "pipeline_root": "gs://"}, "--pipeline-root 'gs://' is not usable"),
        ({"host": "http://h", "namespace": "My Team"}, "--namespace 'My Team' is not usable"),
        ({"host": "http://h", "service_account": "a b"}, "--service-account 'a b' is not usable"),
        ({"host": "http://h", "location": "us-central1"}, "--location is no setting of --on kfp"),
    ],
)
def test_settings_that_cannot_be_used_name_the_option_and_the_cure(options, said):
    with pytest.raises(UserError, match=said.replace("(", r"\(")):
        KfpSettings.read(options)
