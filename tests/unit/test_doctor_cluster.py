"""Doctor on the cluster as such: the connection, rights, and what the workloads refer to by name."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
import yaml
from doctor_api import NAMESPACE, SECRET, Cluster, look, only

from components.config import PRESETS
from components.errors import UserError
from pipelines.doctor import rights
from pipelines.doctor.gke import Gke

RBAC = PRESETS / "cluster" / "rbac.yaml"
SENTINEL = "aGZfU0VOVElORUw="  # what the played Secret holds


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with doctor_api.cluster() as played:
        yield played


# -- the connection ---------------------------------------------------------------------------------------------------


def test_says_which_cluster_answers_and_as_whom(cluster):
    found = only(look(cluster, "api"))
    assert found.status == "ok"
    assert "v1.35.1-gke.1" in found.text and cluster.url in found.text
    assert "system:serviceaccount:default:posttrain (kubeconfig)" in found.text


@pytest.mark.parametrize(
    "setting, means",
    [
        ("cluster.gke=projects/p/locations/us-east5/clusters/c", "Google's default credentials"),
        ("cluster.context=team", "kubeconfig, context team"),
    ],
)
def test_says_by_what_means_it_is_reached(cluster, setting, means):
    assert means in only(look(cluster, "api", setting)).text


def test_a_pod_is_known_by_its_service_account(cluster, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert "service account of this pod" in only(look(cluster, "api")).text


def test_no_cluster_is_a_failure(cluster):
    def connect(_cluster):
        raise UserError("No cluster is known: run gcloud.")

    cluster.connect = connect
    found = only(look(cluster, "api"))
    assert (found.status, found.text) == ("failure", "No cluster is known: run gcloud.")


def test_an_api_server_that_fails_is_a_failure(cluster):
    del cluster.objects["/version"]
    assert only(look(cluster, "api")).status == "failure"


def test_says_what_googles_api_knows(cluster):
    gke = "cluster.gke=projects/p/locations/us-east5/clusters/c"
    found = only(look(cluster, "gke", gke, describe=lambda name: Gke(name, True, ())))
    assert found.status == "ok" and "adds others by itself" in found.text
    assert only(look(cluster, "gke", gke)).status == "unknown"
    assert look(cluster, "gke") == []


# -- rights -----------------------------------------------------------------------------------------------------------


def test_asks_for_every_verb_and_all_are_allowed(cluster):
    verbs = sum(len(right.verbs) for right in rights.needed(doctor_api.preset()))
    found = only(look(cluster, "rights"))
    assert found.status == "ok" and f"all {verbs} verbs" in found.text
    assert sum("selfsubjectaccessreviews" in request for request in cluster.requests) == verbs


@pytest.mark.parametrize(
    "verb, resource",
    [
        (verb, right.resource)
        for right in rights.needed(doctor_api.preset("cluster.queue=team"))
        for verb in right.verbs
    ],
)
def test_a_verb_that_is_denied_is_named_whichever_it_is(cluster, verb, resource):
    cluster.denied = {(verb, resource)}
    found = only(look(cluster, "rights", "cluster.queue=team"))
    assert found.status == "failure"
    assert f"in namespace default: {verb} {resource}" in found.text
    assert found.cure == "sed 's/NAMESPACE/default/' configs/cluster/rbac.yaml | kubectl apply -f -"


def test_verbs_that_are_denied_are_told_by_resource(cluster):
    cluster.denied = {("create", "jobsets"), ("delete", "jobsets"), ("get", "secrets")}
    found = look(cluster, "rights", "cluster.namespace=team-a")
    assert [f.text for f in found] == [
        "not allowed in namespace team-a: create, delete jobsets.jobset.x-k8s.io",
        "not allowed in namespace team-a: get secrets 'hf-secret'",
    ]


def test_the_shipped_role_grants_what_is_asked_for_and_no_more():
    role = next(d for d in yaml.safe_load_all(RBAC.read_text()) if d["kind"] == "Role")
    granted = {
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    settings = doctor_api.preset("cluster.queue=team")
    both = {*rights.needed(settings), *rights.ENGINES["rayjob"]}
    assert granted == {(r.group, r.resource, verb, r.name) for r in both for verb in r.verbs}


def test_rights_on_queues_and_secrets_are_asked_only_where_they_are_used():
    plain = rights.needed(doctor_api.preset("cluster.hf_secret=null"))
    assert {right.group for right in plain} == {"", "batch", "jobset.x-k8s.io"}
    assert "secrets" not in {right.resource for right in plain}
    assert rights.QUEUES[0] in rights.needed(doctor_api.preset("cluster.queue=team"))


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_missing_namespace_is_a_failure_with_the_command_that_makes_it(cluster):
    found = only(look(cluster, "namespace", "cluster.namespace=team-a"))
    assert (found.status, found.cure) == ("failure", "kubectl create namespace team-a")
    assert only(look(cluster, "namespace")).status == "ok"


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_namespace_that_admits_no_pathways_head_is_a_failure(cluster, level):
    cluster.objects[NAMESPACE]["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": level}
    found = only(look(cluster, "namespace"))
    assert found.status == "failure"
    assert f"only '{level}' pods" in found.text and "privileged containers and the host's network" in found.text


def test_a_namespace_for_common_pods_is_enough_for_cpu_machines(cluster):
    cluster.objects[NAMESPACE]["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "baseline"}
    assert only(look(cluster, "namespace", "tpu=null")).status == "ok"


def test_the_service_account_of_the_pods_must_exist(cluster):
    assert look(cluster, "account") == []
    found = only(look(cluster, "account", "cluster.service_account=trainer"))
    assert found.status == "failure" and found.cure.endswith("create serviceaccount trainer")
    cluster.objects[f"{NAMESPACE}/serviceaccounts/trainer"] = {"metadata": {"name": "trainer"}}
    assert only(look(cluster, "account", "cluster.service_account=trainer")).status == "ok"


def test_the_priority_class_must_exist_and_a_near_one_is_proposed(cluster):
    assert look(cluster, "priority") == []
    cluster.objects["/apis/scheduling.k8s.io/v1/priorityclasses/high"] = {"metadata": {"name": "high"}}
    assert only(look(cluster, "priority", "cluster.priority=high")).status == "ok"
    found = only(look(cluster, "priority", "cluster.priority=hihg"))
    assert found.status == "failure" and "Did you mean 'high'?" in found.text


def test_the_secret_and_its_key_exist(cluster):
    found = only(look(cluster, "secret"))
    assert (found.status, found.text) == ("ok", "Secret hf-secret has the key hf_api_token")
    assert look(cluster, "secret", "cluster.hf_secret=null") == []


def test_a_missing_secret_comes_with_a_command_that_shows_no_token(cluster):
    del cluster.objects[SECRET]
    found = only(look(cluster, "secret"))
    assert found.status == "failure" and "no Secret hf-secret" in found.text
    assert "--from-file=hf_api_token=/dev/stdin" in found.cure and "--from-literal" not in found.cure


def test_a_secret_without_the_key_tells_those_it_has(cluster):
    cluster.objects[SECRET]["data"] = {"token": SENTINEL}
    found = only(look(cluster, "secret"))
    assert found.status == "failure" and "no key hf_api_token; it has: token" in found.text


def test_an_empty_key_is_a_failure(cluster):
    cluster.objects[SECRET]["data"] = {"hf_api_token": ""}
    assert only(look(cluster, "secret")).status == "failure"


def test_the_value_of_a_secret_is_never_told(cluster):
    for data in ({"hf_api_token": SENTINEL}, {"other": SENTINEL}):
        cluster.objects[SECRET]["data"] = data
        assert SENTINEL not in repr(look(cluster, "secret"))


# -- images -----------------------------------------------------------------------------------------------------------


def test_images_of_a_registry_are_named(cluster):
    found = only(
        look(cluster, "images", "cluster.images={training: r.dev/p/training:1, converter: r.dev/p/converter:1}")
    )
    assert found.status == "ok" and "r.dev/p/training:1" in found.text


def test_an_image_that_lies_on_one_machine_only_is_a_failure_on_gke_and_else_a_warning(cluster):
    gke = "cluster.gke=projects/p/locations/us-east5/clusters/c"
    assert [f.status for f in look(cluster, "images")] == ["warning", "warning"]
    assert [f.status for f in look(cluster, "images", gke)] == ["failure", "failure"]


def test_a_placeholder_is_a_failure(cluster):
    images = "cluster.images={training: r.dev/PROJECT/training:1, converter: r.dev/p/converter:1}"
    found = only(look(cluster, "images", images))
    assert found.status == "failure" and "r.dev/PROJECT/training:1" in found.text


# -- what may not be looked at ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check, verb, resource, settings",
    [
        ("namespace", "get", "namespaces", []),
        ("account", "get", "serviceaccounts", ["cluster.service_account=trainer"]),
        ("priority", "get", "priorityclasses", ["cluster.priority=high"]),
        ("secret", "get", "secrets", []),
        ("nodes", "list", "nodes", []),
        ("queue", "get", "localqueues", ["cluster.queue=team"]),
        ("queue", "get", "clusterqueues", ["cluster.queue=team"]),
        ("queue", "list", "resourceflavors", ["cluster.queue=team"]),
        ("queue", "list", "localqueues", []),
    ],
)
def test_what_may_not_be_looked_at_is_unknown_with_the_reason(cluster, check, verb, resource, settings):
    cluster.add_kueue({"cpu": 1000, "memory": "10Ti", "google.com/tpu": 32})
    cluster.denied = {(verb, resource)}
    found = look(cluster, check, *settings)
    assert [f.status for f in found] == ["unknown"], found
    assert f'cannot {verb} resource "{resource}"' in found[0].text


@pytest.mark.parametrize("check", ["namespace", "rights", "secret", "nodes", "queue", "jobset"])
def test_a_server_that_stops_answering_leaves_findings_that_say_so(cluster, check, monkeypatch):
    monkeypatch.setattr("pipelines.doctor.case._PATIENCE_S", 0.0)
    cluster.url = "http://127.0.0.1:1"
    found = only(look(cluster, check))
    assert found.status == "unknown" and "does not answer" in found.text
