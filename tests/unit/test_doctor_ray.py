"""Doctor on what RayJobs need of a cluster: KubeRay, the webhook for TPUs, DRANET."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
from doctor_api import V6E, Cluster, look, only

RAY, OPENAPI = "/apis/ray.io", "/openapi/v3/apis/ray.io/v1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
DEVICE_CLASS = "/apis/resource.k8s.io/v1/deviceclasses/netdev.google.com"


def openapi(*group_fields):
    """The schemas of KubeRay's objects, whose worker groups have these fields."""
    group = {"properties": {name: {} for name in group_fields}}
    spec = {"properties": {"rayClusterSpec": {"properties": {"workerGroupSpecs": {"items": group}}}}}
    kind = [{"group": "ray.io", "kind": "RayJob", "version": "v1"}]
    job = {"properties": {"spec": spec}, "x-kubernetes-group-version-kind": kind}
    other = {"x-kubernetes-group-version-kind": [{"group": "ray.io", "kind": "RayJobList", "version": "v1"}]}
    return {
        "components": {"schemas": {"io.k8s.meta.Status": {}, "io.ray.v1.RayJobList": other, "io.ray.v1.RayJob": job}}
    }


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with doctor_api.cluster() as played:
        played.objects[RAY] = {"versions": [{"version": "v1"}, {"version": "v1alpha1"}]}
        played.objects[OPENAPI] = openapi("groupName", "resources")
        played.objects[f"{WEBHOOKS}/kuberay"] = {"metadata": {"name": "kuberay-tpu-webhook-cfg"}}
        played.objects[DEVICE_CLASS] = {"metadata": {"name": "netdev.google.com"}}
        played.lists.add(WEBHOOKS)
        yield played


IRONWOOD, TWO_SLICES = "gemma4-e2b-ray-tpu7x-16", "llama3-8b-ray-2xv6e-16"
# a preset that needs what a check looks at
NEEDS = {"kuberay": IRONWOOD, "resources": IRONWOOD, "tpu-webhook": IRONWOOD, "dranet": TWO_SLICES}


@pytest.mark.parametrize("check", NEEDS)
def test_a_cluster_that_has_all_is_ok(cluster, check):
    assert only(look(cluster, check, name=NEEDS[check])).status == "ok"


@pytest.mark.parametrize(
    ("check", "preset"),
    [
        ("resources", TWO_SLICES),
        ("dranet", IRONWOOD),
        ("tpu-webhook", "tiny-ray-finetune"),
        ("dranet", "tiny-ray-finetune"),
    ],
)
def test_what_a_preset_does_not_need_is_not_looked_for(cluster, check, preset):
    del cluster.objects[DEVICE_CLASS], cluster.objects[f"{WEBHOOKS}/kuberay"]
    cluster.objects[OPENAPI] = openapi("groupName")
    assert look(cluster, check, "engine=rayjob", name=preset) == []


def test_a_cluster_without_kuberay_is_a_failure(cluster):
    del cluster.objects[RAY]
    assert only(look(cluster, "kuberay")).status == "failure"


def test_a_kuberay_that_drops_the_resources_of_a_group_is_a_failure(cluster):
    cluster.objects[OPENAPI] = openapi("groupName")
    found = only(look(cluster, "resources", name=IRONWOOD))
    assert found.status == "failure" and "older than 1.5" in found.text


def test_without_the_webhook_there_is_a_warning(cluster):
    del cluster.objects[f"{WEBHOOKS}/kuberay"]
    cluster.objects[f"{WEBHOOKS}/jobset"] = {"metadata": {"name": "jobset-mutating-webhook-configuration"}}
    assert only(look(cluster, "tpu-webhook", name=IRONWOOD)).status == "warning"


@pytest.mark.parametrize(
    "minor, status", [("33", "failure"), ("33+", "failure"), ("34", "ok"), ("34+", "ok"), ("35", "ok")]
)
def test_dranet_needs_kubernetes_1_34(cluster, minor, status):
    cluster.objects["/version"] = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}"}
    assert only(look(cluster, "dranet", name=TWO_SLICES)).status == status


def test_dranet_needs_its_device_class(cluster):
    del cluster.objects[DEVICE_CLASS]
    found = only(look(cluster, "dranet", name=TWO_SLICES))
    assert found.status == "failure" and "DeviceClass netdev.google.com" in found.text


@pytest.mark.parametrize(
    "check, verb, resource",
    [("tpu-webhook", "list", "mutatingwebhookconfigurations"), ("dranet", "get", "deviceclasses")],
)
def test_what_may_not_be_looked_at_is_unknown(cluster, check, verb, resource):
    cluster.denied = {(verb, resource)}
    assert only(look(cluster, check, name=NEEDS[check])).status == "unknown"


# -- the pods of a RayJob ---------------------------------------------------------------------------------------------


def rayjob(slices=1):
    """A RayJob on slices of v6e-32, as KubeRay takes it."""
    head = {"containers": [{"name": "ray-head", "image": "r.dev/p/ray:1", "resources": {"limits": {"cpu": "4"}}}]}
    resources = {"requests": {"cpu": "64"}, "limits": {"google.com/tpu": "4"}}
    worker = {
        "nodeSelector": V6E,
        "containers": [{"name": "ray-worker", "image": "r.dev/p/ray:1", "resources": resources}],
    }
    group = {"groupName": "v6e-32", "replicas": slices, "numOfHosts": 8, "template": {"spec": worker}}
    cluster = {"headGroupSpec": {"template": {"spec": head}}, "workerGroupSpecs": [group]}
    meta = {"name": "finetune", "labels": {"posttrain.dev/stage": "finetune"}}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "spec": {"rayClusterSpec": cluster}}


def test_the_pods_of_a_rayjob_are_given_nodes_too(cluster):
    found = look(cluster, "nodes", objects=(rayjob(),))
    assert [f.status for f in found] == ["ok", "ok"]
    assert found[0].text.startswith("finetune/head") and "1 slice of 8 hosts" in found[1].text
    assert look(cluster, "nodes", objects=(rayjob(slices=2),))[1].status == "failure"


def test_gke_tolerates_the_taint_of_chips_by_itself(cluster):
    tainted = cluster.objects["/api/v1/nodes/slice-0-0"]["spec"]["taints"]
    assert tainted and "tolerations" not in str(rayjob())
    assert look(cluster, "nodes", objects=(rayjob(),))[1].status == "ok"


def test_a_rayjob_is_tried_where_rayjobs_are_made(cluster):
    assert only(look(cluster, "dry-run", objects=(rayjob(),))).status == "ok"
    assert cluster.requests[-1] == "POST /apis/ray.io/v1/namespaces/default/rayjobs"


def test_head_and_workers_of_a_rayjob_share_the_quota_of_their_queue(cluster):
    def quota(cpu):
        cluster.add_kueue({"cpu": cpu, "google.com/tpu": 32})
        return only(look(cluster, "queue", "cluster.queue=team", objects=(rayjob(),)))

    assert quota(516).status == "ok"
    assert "has 515 CPU, and all of finetune asks for 516 CPU" in quota(515).text


def test_each_sort_of_pod_may_have_a_flavor_of_its_own(cluster):
    cluster.add_kueue({"google.com/tpu": 32})
    root = doctor_api.KUEUE
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": quota}]}
        for name, quota in (("tpu", 512), ("cpu", 4))
    ]
    cluster.objects[f"{root}/clusterqueues/shared"]["spec"]["resourceGroups"].append(
        {"coveredResources": ["cpu"], "flavors": flavors}
    )
    cluster.objects[f"{root}/resourceflavors/tpu"] = {"metadata": {"name": "tpu"}, "spec": {"nodeLabels": V6E}}
    cluster.objects[f"{root}/resourceflavors/cpu"] = {"metadata": {"name": "cpu"}, "spec": {}}
    assert only(look(cluster, "queue", "cluster.queue=team", objects=(rayjob(),))).status == "ok"
