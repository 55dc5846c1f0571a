"""Doctor on Kueue: a queue that exists, takes work, and can ever admit the run."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
from doctor_api import KUEUE, V6E, Cluster, look, only

QUEUE = "cluster.queue=team"
ENOUGH = {"google.com/tpu": 32, "cpu": 26, "memory": "220G"}
LOCAL, SHARED = f"{KUEUE}/namespaces/default/localqueues/team", f"{KUEUE}/clusterqueues/shared"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with doctor_api.cluster() as played:
        yield played


def test_a_queue_with_enough_quota_is_ok(cluster):
    cluster.add_kueue(ENOUGH)
    found = only(look(cluster, "queue", QUEUE))
    assert found.status == "ok" and "queue team (ClusterQueue shared)" in found.text


@pytest.mark.parametrize("resource", ["google.com/tpu", "cpu", "memory"])
def test_a_resource_that_is_not_covered_is_a_failure_that_names_it(cluster, resource):
    cluster.add_kueue({name: quota for name, quota in ENOUGH.items() if name != resource})
    found = only(look(cluster, "queue", QUEUE))
    assert found.status == "failure" and f"does not cover {resource}" in found.text
    assert found.cure == "kubectl edit clusterqueue shared"


@pytest.mark.parametrize(
    "quota, said",
    [
        ({"google.com/tpu": 16}, "has 16 chips in a flavor that fits"),
        ({"cpu": "25500m"}, "has 25.5 CPU in a flavor that fits"),
        ({"memory": "100Gi"}, "has 107.4 GB of memory in a flavor that fits"),
    ],
)
def test_too_little_quota_is_a_failure_with_both_figures(cluster, quota, said):
    cluster.add_kueue({**ENOUGH, **quota})
    found = only(look(cluster, "queue", QUEUE))
    assert found.status == "failure" and said in found.text and "asks for" in found.text


def test_two_slices_ask_for_twice_the_chips(cluster):
    cluster.add_kueue(ENOUGH)
    found = only(look(cluster, "queue", QUEUE, "tpu.slices=2"))
    assert found.status == "failure" and "asks for 64 chips" in found.text


def test_quota_of_other_nodes_does_not_count(cluster):
    other = {**V6E, "cloud.google.com/gke-tpu-topology": "8x8"}
    cluster.add_kueue(ENOUGH, flavor=other)
    assert "has 0 chips in a flavor that fits" in look(cluster, "queue", QUEUE)[0].text
    cluster.add_kueue(ENOUGH, flavor=V6E)
    assert only(look(cluster, "queue", QUEUE)).status == "ok"


@pytest.mark.parametrize("cohort", ["cohort", "cohortName"])
def test_a_queue_may_borrow_from_its_cohort_up_to_a_limit(cluster, cohort):
    cluster.add_kueue({**ENOUGH, "google.com/tpu": 0}, **{cohort: "all"})
    assert only(look(cluster, "queue", QUEUE)).status == "ok"
    resources = cluster.objects[SHARED]["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    resources[0]["borrowingLimit"] = 8
    assert "has 8 chips" in only(look(cluster, "queue", QUEUE)).text


def test_a_queue_that_does_not_exist_is_a_failure_with_those_that_do(cluster):
    cluster.add_kueue(ENOUGH)
    found = only(look(cluster, "queue", "cluster.queue=taem"))
    assert found.status == "failure" and "Did you mean 'team'? There: team." in found.text


def test_a_queue_without_its_cluster_queue_is_a_failure(cluster):
    cluster.add_kueue(ENOUGH)
    del cluster.objects[SHARED]
    assert "ClusterQueue shared that does not exist" in only(look(cluster, "queue", QUEUE)).text


@pytest.mark.parametrize("path, kind", [(LOCAL, "LocalQueue"), (SHARED, "ClusterQueue")])
@pytest.mark.parametrize(
    "change, said",
    [
        ({"spec": {"stopPolicy": "Hold"}}, "is stopped (Hold)"),
        (
            {"status": {"conditions": [{"type": "Active", "status": "False", "message": "no flavor any"}]}},
            "is not active: no flavor any",
        ),
    ],
)
def test_a_queue_that_takes_no_work_is_a_failure(cluster, path, kind, change, said):
    cluster.add_kueue(ENOUGH)
    for key, value in change.items():
        cluster.objects[path][key] = {**cluster.objects[path].get(key, {}), **value}
    failures = [f for f in look(cluster, "queue", QUEUE) if f.status == "failure"]
    assert len(failures) == 1 and f"the {kind} " in failures[0].text and said in failures[0].text


def test_kueue_that_is_not_installed_makes_the_queue_a_warning(cluster):
    found = only(look(cluster, "queue", QUEUE))
    assert found.status == "warning" and "cluster.queue=null" in found.cure
    assert look(cluster, "queue") == []


def test_no_queue_where_the_namespace_has_one_is_a_warning(cluster):
    cluster.add_kueue(ENOUGH)
    found = only(look(cluster, "queue"))
    assert (found.status, found.cure) == ("warning", "--set cluster.queue=team")
    del cluster.objects[LOCAL]
    assert look(cluster, "queue") == []
