"""What a person reads while a workload waits: where it stands, the reason in the cluster's own words, and the cure."""

import pytest
from cluster_runs import PATHWAYS, created, shown

from components.workloads.phases import Told, phase

QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
NO_TPU = (
    "0/12 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 10 Insufficient google.com/tpu. "
    "preemption: 0/12 nodes are available: 12 No preemption victims found for incoming pod."
)


def test_an_object_without_pods_is_starting():
    assert phase(shown(created())) == "starting"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "queued in Kueue"),
        (
            "couldn't assign flavors to pod set pathways-head: resource cpu unavailable in ClusterQueue",
            "resource cpu unavailable in ClusterQueue (if it lasts: the queue does not cover that resource: add it",
        ),
        (
            "couldn't assign flavors to pod set worker: insufficient unused quota for google.com/tpu in flavor any, 32 "
            "more needed",
            "32 more needed (if it lasts: it starts when others in the queue end)",
        ),
        (
            "couldn't assign flavors to pod set worker: insufficient quota for google.com/tpu in flavor any, previously "
            "considered podsets requests (0) + current podset request (64) > maximum capacity (32)",
            "maximum capacity (32) (if it lasts: the queue's quota is too small for it",
        ),
        ("LocalQueue user-queue doesn't exist", "(if it lasts: check cluster.queue and cluster.namespace)"),
    ],
)
def test_a_queued_workload_says_what_the_queue_lacks(message, said):
    made = created(PATHWAYS, **QUEUE)
    made.is_queued(message)
    assert phase(shown(made)).startswith("queued in Kueue")
    assert said in phase(shown(made))


def test_an_evicted_workload_says_why_it_is_queued_again():
    made = created(PATHWAYS, **QUEUE)
    made.is_queued("Waiting", evicted="Preempted to accommodate a workload (UID: x) due to prioritization")
    assert phase(shown(made)) == (
        "evicted by Kueue, queued again: Preempted to accommodate a workload (UID: x) due to prioritization"
    )


def test_a_workload_that_somebody_suspended_without_a_queue_is_suspended():
    made = created()
    made.is_queued("")
    assert phase(shown(made)) == "suspended"


def test_a_head_without_a_node_scales_the_cpu_pool():
    made = created(PATHWAYS)
    made.makes_pods(only="pathways-head")
    made.cannot_schedule(
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert phase(shown(made)).startswith(
        "scaling the CPU pool: 0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. (if it lasts"
    )
    assert "cluster.cpu_pool" in phase(shown(made))


def test_workers_without_a_node_wait_for_the_slice_with_the_schedulers_reason_and_the_cure():
    made = created(PATHWAYS)
    made.makes_pods()
    made.starts("pathways-head")
    made.cannot_schedule(NO_TPU, "worker")
    assert phase(shown(made)) == (
        "waiting for the slice: 0/12 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 10 "
        "Insufficient google.com/tpu. (if it lasts: check the reservation, the quota and the size limit of the node "
        "pool; a slice is had whole or not at all)"
    )


def test_workers_wait_for_the_hosts_that_another_workload_has():
    made = created(PATHWAYS)
    made.makes_pods()
    made.starts("pathways-head")
    made.cannot_schedule(
        "0/11 nodes are available: 3 node(s) didn't match Pod's node affinity/selector, 8 node(s) didn't have free ports "
        "for the requested pod ports. no new claims to deallocate, preemption: 0/11 nodes are available: 11 Preemption "
        "is not helpful for scheduling.",
        "worker",
    )
    assert phase(shown(made)).endswith(
        "8 node(s) didn't have free ports for the requested pod ports. (if it lasts: another workload has these hosts: it "
        "starts when that one ends)"
    )


def test_a_stockout_that_the_autoscaler_reports_is_said():
    made = created(PATHWAYS)
    made.makes_pods()
    made.starts("pathways-head")
    made.cannot_schedule("0/12 nodes are available: 12 Insufficient google.com/tpu.", "worker")
    worker = next(pod for pod in made.pods() if "worker" in pod["metadata"]["name"])
    made.has_event(
        worker["metadata"]["name"],
        "FailedScaleUp",
        "Node scale up in zones us-east5-b associated with this pod failed: GCE out of resources. Pod is at risk of not "
        "being scheduled.",
    )
    assert "GCE out of resources" in phase(shown(made))
    assert "the zone has no such capacity" in phase(shown(made))


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "vpod.kb.io" denied the request: follower pod node selector not set',
        'admission webhook "vpod.kb.io" denied the request: leader pod not yet scheduled, not creating follower pod. '
        "this is an expected, transient error",
    ],
)
def test_workers_that_are_held_back_are_no_error_but_wait_for_the_slice(message):
    made = created(PATHWAYS)
    made.makes_pods(only="pathways-head")
    made.starts()
    made.has_event(f"{made.name}-worker-0", "FailedCreate", f"Error creating: {message}")
    assert phase(shown(made)) == "waiting for the slice: its other workers follow when the first has its place"


def test_jobs_that_cannot_be_made_say_why():
    made = created()
    made.has_event(made.name, "JobCreationFailed", 'jobs.batch "x" is forbidden: exceeded quota: compute')
    assert phase(shown(made)) == 'waiting for its pods: jobs.batch "x" is forbidden: exceeded quota: compute'


def test_an_image_that_is_being_pulled_is_said_until_it_is_there():
    made = created()
    made.makes_pods()
    made.waits("ContainerCreating", "")
    (pod,) = made.pods()
    made.has_event(pod["metadata"]["name"], "Pulling", 'Pulling image "x"', warning=False)
    assert phase(shown(made)) == "pulling the image"
    made.has_event(pod["metadata"]["name"], "Pulled", 'Successfully pulled image "x"', warning=False)
    assert phase(shown(made)) == "starting"


def test_a_volume_that_cannot_be_mounted_is_said():
    made = created()
    made.makes_pods()
    made.waits("ContainerCreating", "")
    (pod,) = made.pods()
    made.has_event(pod["metadata"]["name"], "FailedMount", 'MountVolume.SetUp failed for volume "x"')
    assert phase(shown(made)) == 'starting: MountVolume.SetUp failed for volume "x"'


def test_a_container_that_cannot_start_is_said():
    made = created()
    made.makes_pods()
    made.waits("CreateContainerConfigError", 'secret "hf" not found')
    assert phase(shown(made)) == 'starting: CreateContainerConfigError: secret "hf" not found'


def test_it_runs_when_all_pods_do():
    made = created(PATHWAYS)
    made.makes_pods(only="pathways-head")
    made.starts()
    assert phase(shown(made)) == "starting"
    made.makes_pods(only="worker")
    assert phase(shown(made)) == "starting"
    made.starts()
    assert phase(shown(made)) == "running"


def test_a_pod_that_the_cluster_takes_away_is_said():
    made = created()
    made.runs()
    made.is_disrupted("EvictionByEvictionAPI", "Eviction API: evicting")
    assert phase(shown(made)) == "the cluster takes a pod away: Eviction API: evicting"


def test_an_object_that_is_being_deleted_says_so():
    made = created()
    made.runs()
    made.api.change(
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
        made.name,
        lambda jobset: jobset["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
    )
    assert phase(shown(made)) == "being deleted"


def test_a_phase_is_news_once_while_it_lasts_however_its_numbers_change():
    told = Told()
    lines = [
        "waiting for the slice: 0/3 nodes are available",
        "waiting for the slice: 0/12 nodes are available",
        "waiting for the slice: the zone has no such capacity",
        "waiting for the slice: 0/5 nodes are available",
        "running",
        "running",
        "waiting for the slice: 0/3 nodes are available",
    ]
    assert [told.is_news(line) for line in lines] == [True, False, True, False, True, False, True]
