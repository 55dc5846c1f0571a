"""Doctor on nodes: slices, the Pathways head, machines that convert; pools that grow from nothing."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
from doctor_api import V6E, Cluster, look
from google.cloud import container_v1

from pipelines.doctor import gke

CLUSTER = "projects/p/locations/us-east5-b/clusters/c"
LARGE = {"cpu": "63", "memory": "240Gi", "ephemeral-storage": "400G"}
HOST = {"google.com/tpu": "4"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with doctor_api.cluster() as played:
        yield played


def of(found, part):
    """The findings about one part of the training, such as worker."""
    return [f for f in found if f"/{part}" in f.text]


def remove(cluster, pool):
    for path in [p for p in cluster.objects if p.startswith(f"/api/v1/nodes/{pool}-")]:
        del cluster.objects[path]


def change(cluster, pool, **what):
    for path, node in cluster.objects.items():
        if path.startswith(f"/api/v1/nodes/{pool}-"):
            node.update({key: {**node[key], **value} for key, value in what.items()})


def test_every_sort_of_pod_finds_its_nodes(cluster):
    found = look(cluster, "nodes")
    assert [f.status for f in found] == ["ok"] * 4, found
    assert "1 slice of 8 hosts (gke-tpu-accelerator=tpu-v6e-slice, gke-tpu-topology=4x8), in slice-0" in found[2].text
    assert "2 nodes with 26 CPU, 150.3 GB of memory, in cpu-np" in found[1].text


def test_pods_that_training_and_evaluation_ask_for_alike_are_looked_at_once(cluster):
    assert len(of(look(cluster, "nodes"), "pathways-head")) == 1


# -- slices -----------------------------------------------------------------------------------------------------------


def test_a_pool_with_too_few_nodes_is_no_slice(cluster):
    del cluster.objects["/api/v1/nodes/slice-0-7"]
    (found,) = of(look(cluster, "nodes"), "worker")
    assert found.status == "failure"
    assert "needs 1 slice of 8 hosts" in found.text and "the cluster has 0: slice-0 has 7" in found.text
    assert "--machine-type=ct6e-standard-4t --tpu-topology=4x8 --num-nodes=8" in found.cure


def test_hosts_of_two_pools_make_no_slice(cluster):
    remove(cluster, "slice-0")
    cluster.add_nodes("a", 4, HOST, V6E)
    cluster.add_nodes("b", 4, HOST, V6E)
    (found,) = of(look(cluster, "nodes"), "worker")
    assert found.status == "failure" and "a has 4, b has 4" in found.text


def test_two_slices_need_two_pools(cluster):
    two = "tpu.slices=2"
    assert of(look(cluster, "nodes", two), "worker")[0].status == "failure"
    cluster.add_nodes("slice-1", 8, HOST, V6E)
    (found,) = of(look(cluster, "nodes", two), "worker")
    assert found.status == "ok" and "2 slices of 8 hosts" in found.text and "slice-0, slice-1" in found.text


def test_every_node_is_a_slice_of_one_host(cluster):
    cluster.add_nodes("single", 2, HOST, {**V6E, "cloud.google.com/gke-tpu-topology": "2x2"})
    one_host = ["tpu.slice=v6e-4", "tpu.slices=2"]
    (found,) = of(look(cluster, "nodes", *one_host), "worker")
    assert found.status == "ok" and "2 slices of 1 hosts" in found.text


def test_a_slice_outside_the_named_pools_does_not_count(cluster):
    assert of(look(cluster, "nodes", "tpu.pools=[slice-0, slice-9]"), "worker")[0].status == "ok"
    assert of(look(cluster, "nodes", "tpu.pools=[slice-9]"), "worker")[0].status == "unknown"


def test_spot_is_asked_for_by_its_label(cluster):
    spot = "tpu.capacity=spot"
    assert of(look(cluster, "nodes", spot), "worker")[0].status == "unknown"
    change(
        cluster,
        "slice-0",
        metadata={"labels": {**V6E, doctor_api.POOL: "slice-0", "cloud.google.com/gke-spot": "true"}},
    )
    assert of(look(cluster, "nodes", spot), "worker")[0].status == "ok"


def test_a_spot_slice_that_was_not_asked_for_is_a_warning(cluster):
    change(
        cluster,
        "slice-0",
        metadata={"labels": {**V6E, doctor_api.POOL: "slice-0", "cloud.google.com/gke-spot": "true"}},
    )
    found = [f for f in look(cluster, "nodes") if f.status == "warning"]
    assert len(found) == 1 and "slice-0 is Spot" in found[0].text and "tpu.capacity=spot" in found[0].cure


def test_a_reservation_is_asked_for_by_its_label(cluster):
    reserved = ["tpu.capacity=reservation", "tpu.reservation=ours"]
    (found,) = of(look(cluster, "nodes", *reserved), "worker")
    assert found.status == "unknown"
    assert "--reservation-affinity=specific --reservation=ours" in found.cure
    labels = {**V6E, doctor_api.POOL: "slice-0", "cloud.google.com/reservation-name": "ours"}
    change(cluster, "slice-0", metadata={"labels": labels})
    assert of(look(cluster, "nodes", *reserved), "worker")[0].status == "ok"


# -- what stands in the way -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "what, why, cure",
    [
        ({"spec": {"unschedulable": True}}, "cordoned", "kubectl uncordon cpu-np-0"),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            "not ready",
            "kubectl describe node cpu-np-0",
        ),
        (
            {"spec": {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}},
            "tainted team=b:NoSchedule",
            "kubectl taint node cpu-np-0 team=b:NoSchedule-",
        ),
        (
            {"spec": {"taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]}},
            "memory-pressure",
            "kubectl describe node cpu-np-0",
        ),
        (
            {"status": {"allocatable": {**LARGE, "cpu": "15"}}},
            "too small (15 CPU, a pod asks for 26 CPU)",
            "--machine-type=n4-standard-48",
        ),
        (
            {"status": {"allocatable": {**LARGE, "memory": "100Gi"}}},
            "too small (107.4 GB of memory, a pod asks for 150.3 GB of memory)",
            "then --set cluster.cpu_pool=NAME",
        ),
    ],
)
def test_nodes_that_do_not_do_tell_why(cluster, what, why, cure):
    change(cluster, "cpu-np", **what)
    (found,) = of(look(cluster, "nodes"), "pathways-head")
    assert found.status == "failure"
    assert f"of 2 nodes in cpu-np, 2 {why}" in found.text and cure in found.cure


def test_a_disk_that_is_too_small_for_the_export_is_told(cluster):
    change(cluster, "cpu-np", status={"allocatable": {**LARGE, "ephemeral-storage": "90G"}})
    found = {f.text.split("/")[0]: f for f in look(cluster, "nodes")}
    assert found["convert"].status == "ok"
    assert (
        found["export"].status == "failure" and "90 GB of disk, a pod asks for 160 GB of disk" in found["export"].text
    )
    assert "--disk-size=290" in found["export"].cure


@pytest.mark.parametrize(
    ("asked", "disk"),
    [
        # GKE's own example of a node: 47.06 GB may be asked for of its disk of 100 (docs/concepts/plan-node-sizes)
        (2, 100),
        (46, 100),
        (48, 110),
        # more than 100 GiB it does not keep, besides the tenth
        (160, 290),
        (180, 310),
        (1000, 1170),
    ],
)
def test_a_boot_disk_is_proposed_of_which_gke_leaves_what_a_pod_asks_for(cluster, asked, disk):
    remove(cluster, "cpu-np")
    (found,) = [
        f for f in look(cluster, "nodes", "convert.disk_gb=1", f"export.disk_gb={asked}") if "create cpu-np" in f.cure
    ]
    assert f"--disk-size={disk} " in found.cure


def test_taints_that_only_dissuade_do_not_matter(cluster):
    change(cluster, "cpu-np", spec={"taints": [{"key": "team", "effect": "PreferNoSchedule"}]})
    assert of(look(cluster, "nodes"), "pathways-head")[0].status == "ok"


def test_one_node_that_does_is_enough_for_a_head(cluster):
    cluster.objects["/api/v1/nodes/cpu-np-0"]["spec"] = {"unschedulable": True}
    assert of(look(cluster, "nodes"), "pathways-head")[0].status == "ok"


def test_one_cordoned_host_is_missing_from_its_slice(cluster):
    cluster.objects["/api/v1/nodes/slice-0-3"]["spec"] = {"unschedulable": True}
    (found,) = of(look(cluster, "nodes"), "worker")
    assert found.status == "failure" and found.cure == "kubectl uncordon slice-0-3"


# -- pools without nodes ----------------------------------------------------------------------------------------------


def known(*pools, **cluster):
    """Google's API, which knows these node pools."""
    found = container_v1.Cluster(
        locations=["us-east5-b"], node_pools=[container_v1.NodePool(**pool) for pool in pools], **cluster
    )
    return lambda name: gke.read(name, found)


SLICE = {
    "name": "slice-0",
    "config": {"machine_type": "ct6e-standard-4t"},
    "placement_policy": {"tpu_topology": "4x8"},
    "autoscaling": {"enabled": True, "max_node_count": 8},
}


def workers(cluster, describe):
    remove(cluster, "slice-0")
    (found,) = of(look(cluster, "nodes", f"cluster.gke={CLUSTER}", describe=describe), "worker")
    return found


def test_without_googles_api_a_pool_without_nodes_is_unknown(cluster):
    remove(cluster, "slice-0")
    (found,) = of(look(cluster, "nodes"), "worker")
    assert found.status == "unknown"
    assert found.cure.startswith("gcloud container node-pools create NAME --cluster=CLUSTER --location=LOCATION")


def test_one_pool_is_proposed_for_all_pods_that_want_it(cluster):
    remove(cluster, "cpu-np")
    (found,) = [f for f in look(cluster, "nodes") if f.status == "unknown"]
    assert found.text.startswith("convert/main-job, train/pathways-head, export/main-job: no node has")
    # 26 cores for the head, 200 GB of memory and 160 GB of disk for the export, and what GKE keeps
    assert "node-pools create cpu-np" in found.cure and "--machine-type=n4-highmem-32 --disk-size=290" in found.cure


def test_a_pool_that_grows_to_a_whole_slice_is_a_warning(cluster):
    found = workers(cluster, known(SLICE))
    assert found.status == "warning" and "slice-0 (to 8) grows when the run asks" in found.text


@pytest.mark.parametrize(
    "change",
    [
        {"autoscaling": {"enabled": False}},
        {"autoscaling": {"enabled": True, "max_node_count": 4}},
        {"placement_policy": {"tpu_topology": "8x8"}},
        {"config": {"machine_type": "ct5p-hightpu-4t"}},
    ],
)
def test_a_pool_that_would_not_become_the_slice_is_a_failure(cluster, change):
    found = workers(cluster, known({**SLICE, **change}))
    assert found.status == "failure"
    assert "--cluster=c --location=us-east5-b --project=p --machine-type=ct6e-standard-4t" in found.cure


@pytest.mark.parametrize(
    "own", [{"autopilot": {"enabled": True}}, {"autoscaling": {"enable_node_autoprovisioning": True}}]
)
def test_a_cluster_that_adds_pools_by_itself_leaves_it_unknown(cluster, own):
    found = workers(cluster, known(**own))
    assert found.status == "unknown" and "adds node pools by itself" in found.text


def test_a_pool_of_the_wanted_name_grows_for_the_head(cluster):
    remove(cluster, "cpu-np")
    scaling = {"enabled": True, "total_max_node_count": 3}
    describe = known({"name": "cpu-np", "config": {"machine_type": "n4-standard-64"}, "autoscaling": scaling})
    gke_setting = f"cluster.gke={CLUSTER}"
    (found,) = of(look(cluster, "nodes", gke_setting, describe=describe), "pathways-head")
    assert found.status == "warning" and "cpu-np (to 3)" in found.text
    (found,) = of(look(cluster, "nodes", gke_setting, "cluster.cpu_pool=other", describe=describe), "pathways-head")
    assert found.status == "failure" and "node-pools create other --cluster=c" in found.cure


def test_a_pool_in_several_zones_grows_in_each():
    cluster = container_v1.Cluster(locations=["a", "b", "c"], node_pools=[container_v1.NodePool(**SLICE)])
    assert gke.read(CLUSTER, cluster).pools[0].most == 24
    pool = container_v1.NodePool(**SLICE, locations=["a"])
    assert gke.read(CLUSTER, container_v1.Cluster(locations=["a", "b"], node_pools=[pool])).pools[0].most == 8


def test_without_google_credentials_the_cluster_cannot_be_looked_up(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(doctor_api.UserError, match="No Google credentials to look up"):
        gke.describe(CLUSTER)
