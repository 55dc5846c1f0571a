"""The failures that are known of JobSet, Pathways and GKE (research note, table of fifteen), as a cluster shows them.

Rows 2, 3 and 4 are states that may pass: see test_phases. Rows 1 and 11 need a server: see test_launch_faults (a webhook
that does not answer) and test_launch_jobset (an object that is gone). Rows 6, 7, 9, 10 and 15 are texts in logs: see
test_diagnose; here they are read from the logs of the pods.
"""

from dataclasses import replace

import pytest
from cluster_runs import PATHWAYS, created, shown
from played_jobsets import PODS

from components.workloads import faults
from components.workloads.kinds import End
from components.workloads.phases import phase
from components.workloads.workload import PodOutcome

FAILED = End(False, "FailedJobs: jobset failed due to one or more job failures (first failed job: train-worker-0)")


def cause(made, *, end=FAILED, said=None, tails=None) -> str:
    reason, evidence = faults.cause(shown(made), end, said, tails or {})
    assert "\n" not in reason
    assert evidence[-1].endswith(end.reason)
    return reason


def own(reason: str) -> PodOutcome:
    return PodOutcome(name="train-0123456789", succeeded=False, seconds=1, reason=reason)


def stuck(made):
    found = faults.stuck(shown(made))
    assert found is not None
    assert "\n" not in found.reason
    return found


# -- row 5: the image -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", 'failed to pull and unpack image "r/x:1": failed to resolve reference "r/x:1": 403 Forbidden'),
        ("ImagePullBackOff", 'Back-off pulling image "r/x:1": ErrImagePull: manifest for r/x:1 not found'),
        ("InvalidImageName", 'Failed to apply default image tag "R/X": couldn\'t parse image name'),
    ],
)
def test_row_5_an_image_that_cannot_be_had(reason, message):
    made = created()
    made.makes_pods()
    made.waits(reason, message)
    found = stuck(made)
    assert "cannot be pulled" in found.reason
    assert "roles/artifactregistry.reader" in found.reason
    assert message in found.evidence[0]
    assert found.patience_s == faults.SOON_S
    assert "cannot be pulled" in cause(made)


@pytest.mark.parametrize(
    "message", ['secret "hf-secret" not found', "couldn't find key hf_api_token in Secret default/hf-secret"]
)
def test_a_missing_secret_or_key_is_named_with_the_cure(message):
    made = created()
    made.makes_pods()
    made.waits("CreateContainerConfigError", message)
    assert message in stuck(made).reason
    assert "cluster.hf_secret" in stuck(made).reason


def test_another_setting_that_a_container_cannot_be_made_with():
    made = created()
    made.makes_pods()
    made.waits("CreateContainerError", 'exec: "python3": executable file not found in $PATH')
    assert "cluster.images" in stuck(made).reason


# -- rows 6, 7, 9, 10, 15: texts in the logs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error.", "accept the licence"),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.", "(HBM) is full"),
        ("ValueError: Configuration mismatch: Your run specifies scan_layers=True, but", "model.scan_layers"),
        ("ValueError: At most one of rollout_tensor_parallelism, rollout_data_parallelism", "may be -1"),
        ("UNAVAILABLE: DNS resolution failed for train:29000", "GRPC_DNS_RESOLVER=native"),
    ],
)
@pytest.mark.parametrize(
    "log", ["pathways-head-workload-container", "pathways-head-pathways-rm", "worker-pathways-worker"]
)
def test_rows_6_7_9_10_15_a_known_text_in_any_of_the_logs(line, said, log):
    made = created(PATHWAYS)
    made.runs()
    made.ends(1, "Failed")
    assert said in cause(made, tails={"pathways-head-workload-container": ["step 1"], log: ["x", line, "y"]})


def test_what_failed_first_is_the_cause_of_what_failed_after_it():
    made = created(PATHWAYS)
    made.runs()
    made.ends(1, "Failed")
    seen = shown(made)
    first = next(pod for pod in seen.pods if (pod.seat.role, pod.seat.number) == ("worker", "0-3"))
    ended = {pod.name: "2026-01-01T10:00:05Z" for pod in seen.pods} | {first.name: "2026-01-01T10:00:01Z"}
    pods = tuple(
        replace(pod, containers=tuple(replace(one, ended=ended[pod.name]) for one in pod.containers))
        for pod in seen.pods
    )
    tails = {
        "pathways-head-workload-container": ["ConnectionError: a worker does not answer"],
        "worker-0-3-pathways-worker": ["OSError: chip 2 does not answer", "F0000 aborting"],
    }
    reason, _ = faults.cause(replace(seen, pods=pods), FAILED, None, tails)
    assert reason == "It failed: OSError: chip 2 does not answer"


def test_what_the_pod_says_itself_stands_before_the_logs():
    made = created()
    made.runs()
    made.ends(1, "Failed")
    tails = {"main-job-workload-container": ["MemoryError"]}
    assert cause(made, said=own("The marker was never printed."), tails=tails) == "The marker was never printed."


# -- row 8: memory and disk of the host -------------------------------------------------------------------------------


def test_row_8_a_host_whose_memory_is_full():
    made = created()
    made.runs()
    made.ends(137, "Failed", reason="OOMKilled")
    assert "memory of the machine is full (OOMKilled: workload-container)" in cause(made, said=own("It was killed."))


def test_row_8_a_pathways_container_whose_memory_is_full_although_the_command_shows_only_its_symptom():
    made = created(PATHWAYS)
    made.runs()
    made.ends(1, "Failed")
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    made.waits(
        "CrashLoopBackOff",
        "back-off",
        container="pathways-proxy",
        role="pathways-head",
        lastState=killed,
        restartCount=2,
    )
    assert "OOMKilled: Pathways' pathways-proxy" in cause(made, said=own("It failed: IFRT proxy: connection reset"))


@pytest.mark.parametrize("resource", ["ephemeral-storage", "memory"])
def test_row_8_a_pod_that_was_evicted_because_its_node_ran_out(resource):
    made = created()
    made.runs()
    made.ends(137, "Failed")
    message = f"The node was low on resource: {resource}. Threshold quantity: 10Gi, available: 8Gi."
    made.is_evicted(message)
    assert f"ran out of {resource}" in cause(made, said=own("The pod was told to end."))
    made.is_disrupted("TerminationByKubelet", message)
    assert f"ran out of {resource}" in cause(made, said=own("The pod was told to end."))


# -- row 12: a node that is gone --------------------------------------------------------------------------------------


def test_row_12_a_pod_that_never_ends_because_its_node_is_gone():
    made = created()
    made.runs()
    made.is_deleted_for(900)
    found = stuck(made)
    assert "kubectl delete pod" in found.reason
    assert "--force --grace-period=0" in found.reason
    assert found.patience_s == faults.LATER_S


def test_pods_that_are_being_deleted_after_a_failure_are_not_its_cause():
    made = created()
    made.runs()
    made.ends(3, "Failed")
    made.is_deleted_for(1)
    assert "exit code 3" in cause(made)


# -- row 13: preemption -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"),
        ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
        ("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown."),
        ("EvictionByEvictionAPI", "Eviction API: evicting"),
    ],
)
def test_row_13_a_pod_that_the_cluster_took_away(reason, message):
    made = created(PATHWAYS)
    made.runs()
    made.ends(143, "Failed")
    made.is_disrupted(reason, message)
    said = cause(made, said=own("The pod was told to end."))
    assert message.rstrip(".") in said
    assert "--resume" in said
    assert "used up" not in said


def test_row_13_a_pod_that_was_replaced_is_not_the_cause_of_what_comes_later():
    made = created(PATHWAYS)
    made.runs()
    made.ends(143, "Failed")
    made.is_disrupted("PreemptionByScheduler", "preempting to accommodate a higher priority pod")
    for pod in made.pods():  # the Job keeps the failed ones beside the new ones
        made.api.change(
            PODS, pod["metadata"]["name"], lambda pod: pod["metadata"].update(creationTimestamp="2026-01-01T00:00:00Z")
        )
    made.makes_pods()
    assert phase(shown(made)) == "starting"
    assert "took the pod away" not in cause(made, said=own("Out of memory."))


def test_row_13_restarts_that_preemptions_have_used_up():
    made = created(PATHWAYS)
    made.runs()
    made.ends(143, "Failed")
    made.is_disrupted("PreemptionByScheduler", "preempting to accommodate a higher priority pod")
    end = End(False, "ReachedMaxRestarts: jobset failed due to reaching max number of restarts", restarts=3)
    assert "the 3 restarts are used up" in cause(made, end=end)
    # without a restart allowed, the controller says the same of the first failure
    assert "used up" not in cause(made, end=replace(end, restarts=0))


# -- row 14: what runs beside the command -----------------------------------------------------------------------------


def test_row_14_a_head_that_never_completes_because_pathways_are_plain_containers():
    made = created(PATHWAYS)
    head = next(job for job in made.manifest["spec"]["replicatedJobs"] if job["name"] == "pathways-head")
    spec = head["template"]["spec"]["template"]["spec"]
    plain = [{**sidecar} for sidecar in spec.pop("initContainers")]
    for container in plain:
        del container["restartPolicy"]
    spec["containers"] += plain
    made.runs()
    made.ends(0, "Running", container="workload-container")
    found = stuck(made)
    assert "pathways-proxy and pathways-rm" in found.reason
    assert "restartPolicy Always" in found.reason


def test_sidecars_that_are_still_there_when_the_command_has_ended_are_no_fault():
    made = created(PATHWAYS)
    made.runs()
    made.ends(0, "Running", container="workload-container")
    assert faults.stuck(shown(made)) is None


# -- others -----------------------------------------------------------------------------------------------------------


def test_a_sidecar_that_ends_again_and_again_is_named():
    made = created(PATHWAYS)
    made.makes_pods()
    made.starts()
    last = {"terminated": {"exitCode": 2, "reason": "Error"}}
    made.waits(
        "CrashLoopBackOff",
        "back-off 5m0s",
        role="pathways-head",
        container="pathways-rm",
        lastState=last,
        restartCount=7,
    )
    found = stuck(made)
    assert "pathways-rm ends again and again (exit code 2)" in found.reason
    assert found.patience_s == faults.LATER_S


def test_a_workload_that_merely_waits_or_runs_is_not_stuck():
    made = created(PATHWAYS)
    assert faults.stuck(shown(made)) is None
    made.makes_pods()
    made.cannot_schedule("0/8 nodes are available: 8 Insufficient google.com/tpu.")
    assert faults.stuck(shown(made)) is None
    made.starts()
    assert faults.stuck(shown(made)) is None


def test_an_end_that_nothing_explains_is_said_in_the_controllers_words():
    assert cause(created()) == f"The JobSet failed: {FAILED.reason}."


def test_what_is_out_of_order_in_the_cluster_is_shown_as_evidence():
    made = created()
    made.runs()
    made.ends(3, "Failed")
    made.has_event(made.name, "FailedMount", "volume x")
    made.has_event(made.name, "FailedJobs", FAILED.reason.partition(": ")[2])
    _, evidence = faults.cause(shown(made), FAILED, own("It failed."), {})
    assert [line for line in evidence if "ended with exit code 3" in line]
    assert [line for line in evidence if "FailedMount: volume x" in line]
    assert len([line for line in evidence if "FailedJobs" in line]) == 1
