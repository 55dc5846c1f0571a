"""Doctor as a whole: what it looks at, in what order, what it leaves alone, and what stops a run."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
from click.testing import CliRunner
from doctor_api import KUEUE, SECRET, Cluster
from kubernetes_api import write_kubeconfig

from components import secrets
from components.errors import UserError
from pipelines import cli, doctor
from pipelines.doctor import checks, pods

IMAGES = "cluster.images={training: r.dev/p/training:1, converter: r.dev/p/converter:1}"


@pytest.fixture
def cluster(hub) -> Iterator[Cluster]:
    hub.add("model", "google/gemma-4-26b-a4b-it", {"config.json": b"{}"})
    hub.add("dataset", "openai/gsm8k", {})
    with doctor_api.cluster() as played:
        yield played


@pytest.fixture
def no_secret_read(monkeypatch):
    """A process that has read no secret."""
    monkeypatch.setattr(secrets, "_resources", {})
    secrets._read.cache_clear()
    yield
    secrets._read.cache_clear()


def examined(cluster, store, *settings):
    chosen = doctor_api.preset(IMAGES, *settings)
    return list(doctor.examine(chosen, store=f"{store}/posttrain", output=None, connect=cluster.connect))


def test_a_cluster_that_has_all_has_no_failure(cluster, gcs):
    found = examined(cluster, gcs)
    assert {f.status for f in found} == {"ok", "unknown"}, found
    assert [f.check for f in found if f.status == "unknown"] == ["bucket", "region"]  # an emulator, and no GKE
    assert "dry-run" in {f.check for f in found}


def test_it_only_looks(cluster, gcs):
    cluster.add_kueue({"cpu": 1000, "memory": "10Ti", "google.com/tpu": 32})
    examined(cluster, gcs, "cluster.queue=team")
    posts = {request.rsplit("/", 1)[-1] for request in cluster.requests if request.startswith("POST")}
    assert posts == {"selfsubjectreviews", "selfsubjectaccessreviews", "jobsets"}  # the last with dryRun=All
    assert {request.split()[0] for request in cluster.requests} == {"GET", "POST"}


def test_the_hub_is_asked_with_the_secret_that_the_preset_names(
    cluster, gcs, hub, no_secret_read, monkeypatch, tmp_path
):
    hub.add("model", "google/gemma-4-26b-a4b-it", {"config.json": b"{}"}, token="hf_SENTINEL", gated=True)
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", cluster.url)))

    def said(*settings):
        return next(f.text for f in examined(cluster, gcs, *settings) if f.check == "hub")

    assert "is gated" in said()
    assert said("secrets.hf_token=hf-secret/hf_api_token") == "hf://google/gemma-4-26b-a4b-it may be read"


def test_every_finding_is_one_line_and_every_failure_has_a_cure(cluster, gcs):
    cluster.objects.clear()
    cluster.objects["/version"] = {"major": "1", "minor": "35", "gitVersion": "v1.35.1"}
    cluster.denied = {("create", "jobsets")}
    cluster.refusal = (422, "line one\nline two")
    found = examined(cluster, gcs, "cluster.queue=team", "cluster.service_account=trainer", "convert.memory_gb=1")
    failed = {f.check for f in found if f.status == "failure"}
    assert {"machines", "namespace", "rights", "account", "secret", "jobset", "dry-run"} <= failed
    for f in found:
        assert "\n" not in f.text + f.cure
        assert f.cure or f.status in ("ok", "unknown") or f.check == "dry-run", f


def test_without_an_api_server_the_rest_of_the_cluster_is_one_unknown(cluster, gcs, monkeypatch):
    monkeypatch.setattr("pipelines.doctor.case._PATIENCE_S", 0.0)
    cluster.url = "http://127.0.0.1:1"
    found = examined(cluster, gcs)
    assert [(f.check, f.status) for f in found[-2:]] == [("api", "failure"), ("cluster", "unknown")]
    assert {"hub", "machines", "bucket"} <= {f.check for f in found}, "what needs no cluster is looked at all the same"


def test_one_check_that_may_not_look_does_not_stop_the_others(cluster, gcs):
    everything = examined(cluster, gcs)
    cluster.denied = {("list", "nodes"), ("get", "namespaces")}
    found = examined(cluster, gcs)
    assert [f.check for f in found if f.check not in ("nodes", "namespace")] == [
        f.check for f in everything if f.check not in ("nodes", "namespace")
    ]
    assert [f.status for f in found if f.check in ("nodes", "namespace")] == ["unknown", "unknown"]


def test_every_check_of_the_quick_ones_is_a_check(cluster):
    known = {**checks.of("jobset"), **checks.ENGINES["rayjob"]}
    assert set(checks.QUICK) <= set(known)


# -- what stops a run -------------------------------------------------------------------------------------------------


def refused(cluster, store, *settings):
    with pytest.raises(UserError) as caught:
        doctor.refuse(doctor_api.preset(IMAGES, *settings), f"{store}/posttrain", cluster.connect)
    return str(caught.value)


def test_a_run_on_a_cluster_that_has_all_is_not_refused(cluster, gcs):
    doctor.refuse(doctor_api.preset(IMAGES), f"{gcs}/posttrain", cluster.connect)


def test_a_run_on_this_machine_is_never_refused(tmp_path):
    doctor.refuse(doctor_api.preset(name="tiny-qwen3"), str(tmp_path))


def test_one_verb_less_refuses_a_run_and_names_the_verb(cluster, gcs):
    cluster.denied = {("delete", "jobsets")}
    message = refused(cluster, gcs)
    assert "not allowed in namespace default: delete jobsets.jobset.x-k8s.io" in message
    assert "rbac.yaml" in message and "posttrain doctor gemma4-26b-v6e-32" in message


@pytest.mark.parametrize(
    "spoil, said",
    [
        (lambda cluster: cluster.objects.pop(SECRET), "no Secret hf-secret"),
        (lambda cluster: cluster.objects.pop(doctor_api.JOBSETS), "JobSet is not installed"),
        (lambda cluster: cluster.objects.pop(doctor_api.NAMESPACE), "no namespace default"),
        (lambda cluster: cluster.objects.pop("/version"), "api: "),
    ],
)
def test_what_every_run_needs_refuses_it(cluster, gcs, spoil, said):
    spoil(cluster)
    assert said in refused(cluster, gcs)


def test_a_bucket_that_does_not_exist_refuses_a_run(cluster, gcs):
    assert "there is no bucket gs://no-such-bucket" in refused(cluster, "gs://no-such-bucket")


def test_settings_that_the_slice_cannot_do_refuse_a_run(cluster, gcs):
    assert "rollout_tensor_parallelism" in refused(cluster, gcs, "maxtext.rollout_tensor_parallelism=5")


def test_what_cannot_be_looked_at_refuses_no_run(cluster, gcs):
    cluster.denied = {("get", "namespaces"), ("get", "serviceaccounts"), ("list", "nodes")}
    doctor.refuse(doctor_api.preset(IMAGES, "cluster.service_account=trainer"), f"{gcs}/posttrain", cluster.connect)


def test_slow_checks_are_not_part_of_it(cluster, gcs):
    doctor.refuse(doctor_api.preset(IMAGES), f"{gcs}/posttrain", cluster.connect)
    assert not [request for request in cluster.requests if "nodes" in request or KUEUE in request]
    assert cluster.sent == []


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_succeeds_where_nothing_would_fail(tmp_path):
    result = CliRunner().invoke(cli.app, ["doctor", "tiny-qwen3", "--store", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "✓ output" in result.output and "✓ weights" in result.output


def test_the_command_fails_where_something_would(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "plan.json").write_text("{}")
    arguments = ["doctor", "tiny-qwen3", "--store", str(tmp_path), "--output", str(tmp_path / "run")]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 1 and "✗ output" in result.output


# -- counting as Kubernetes does --------------------------------------------------------------------------------------


def container(cpu, **how):
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, **how}


@pytest.mark.parametrize(
    "before, beside, cores",
    [
        ([], ["1", "500m"], 1.5),
        ([container("4")], ["1"], 4),
        ([container("16", restartPolicy="Always"), container("8", restartPolicy="Always")], ["2"], 26),
        ([container("16", restartPolicy="Always"), container("8")], ["2"], 24),
        ([container("8"), container("1", restartPolicy="Always")], ["2"], 8),
    ],
)
def test_a_pod_asks_for_what_runs_at_once(before, beside, cores):
    spec = {"initContainers": before, "containers": [container(cpu) for cpu in beside]}
    assert float(pods.Group("x", 1, 1, spec).requests["cpu"]) == cores


def test_a_limit_alone_is_a_request():
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"google.com/tpu": "4", "cpu": "2"}}}]}
    group = pods.Group("x", 2, 8, spec)
    assert (int(group.requests["google.com/tpu"]), int(group.total["google.com/tpu"])) == (4, 64)
    assert group.is_slice
