"""What a JobSet says: which pods on which nodes, what the command gets, and how it ends."""

import json
import os
import subprocess
import sys

import jobset_examples as examples
import pytest

from components.config import ClusterConfig
from components.tpu import parse
from components.workloads import jobset, names
from components.workloads.jobset import env
from components.workloads.workload import ORDER_VARIABLE, Cpu, Order, Tpu

SLICES = [name for name, needs in examples.SHAPES.items() if isinstance(needs, Tpu)]
PATHWAYS = [name for name in SLICES if examples.SHAPES[name].pathways]
PLAIN = [name for name in SLICES if name not in PATHWAYS]


def jobs(manifest):
    return {job["name"]: job for job in manifest["spec"]["replicatedJobs"]}


def spec(manifest, job):
    return jobs(manifest)[job]["template"]["spec"]


def on_slices(shape, cluster="default", capacity="on demand"):
    """The pod specification that stands on the hosts of the slices."""
    pods = examples.pods(examples.manifest(shape, cluster, capacity))
    return pods[names.WORKER_JOB if shape in PATHWAYS else names.MAIN_JOB]


def command(manifest):
    return examples.containers(manifest)[names.COMMAND_CONTAINER]


# -- which pods -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["cpu", "converter"])
def test_a_machine_without_accelerator_is_one_pod(shape):
    manifest = examples.manifest(shape)
    assert list(jobs(manifest)) == [names.MAIN_JOB]
    assert jobs(manifest)[names.MAIN_JOB]["replicas"] == spec(manifest, names.MAIN_JOB)["parallelism"] == 1
    assert "google.com/tpu" not in json.dumps(manifest)


@pytest.mark.parametrize("shape", SLICES)
def test_there_is_a_job_for_each_slice_and_a_pod_for_each_host(shape):
    manifest, needs = examples.manifest(shape), examples.SHAPES[shape]
    workers = names.WORKER_JOB if needs.pathways else names.MAIN_JOB
    assert jobs(manifest)[workers]["replicas"] == needs.slices
    assert spec(manifest, workers)["parallelism"] == spec(manifest, workers)["completions"] == needs.slice.hosts
    (container,) = examples.pods(manifest)[workers]["containers"]
    assert container["resources"] == {"limits": {"google.com/tpu": str(needs.slice.chips_per_host)}}


@pytest.mark.parametrize("shape", PLAIN)
def test_without_pathways_every_host_carries_out_the_order_and_knows_its_slice(shape):
    manifest = examples.manifest(shape)
    assert list(examples.containers(manifest)) == [names.COMMAND_CONTAINER]
    slice_ = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/job-index']"}}
    assert examples.environment(command(manifest))[names.SLICE_VARIABLE] == slice_


@pytest.mark.parametrize("shape", PATHWAYS)
def test_with_pathways_one_head_carries_out_the_order_and_starts_first(shape):
    manifest, needs = examples.manifest(shape), examples.SHAPES[shape]
    assert list(jobs(manifest)) == [names.HEAD_JOB, names.WORKER_JOB]
    assert manifest["spec"]["startupPolicy"] == {"startupPolicyOrder": "InOrder"}
    assert manifest["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": [names.HEAD_JOB]}
    assert jobs(manifest)[names.HEAD_JOB]["replicas"] == spec(manifest, names.HEAD_JOB)["parallelism"] == 1
    with_order = [n for n, c in examples.containers(manifest).items() if ORDER_VARIABLE in examples.environment(c)]
    assert with_order == [names.COMMAND_CONTAINER]
    arguments = examples.containers(manifest)[names.MANAGER_CONTAINER]["args"]
    assert f"--instance_count={needs.slices}" in arguments
    assert f"--instance_type={needs.slice.pathways_type}" in arguments


@pytest.mark.parametrize("shape", PATHWAYS)
def test_the_servers_beside_the_head_do_not_keep_it_from_ending(shape):
    sidecars = examples.pods(examples.manifest(shape))[names.HEAD_JOB]["initContainers"]
    assert {c["name"]: c["restartPolicy"] for c in sidecars} == {
        names.PROXY_CONTAINER: "Always",
        names.MANAGER_CONTAINER: "Always",
    }


@pytest.mark.parametrize("shape", SLICES)
def test_a_job_on_a_slice_has_its_node_pool_to_itself(shape):
    manifest = examples.manifest(shape)
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    if shape in PLAIN:
        assert manifest["metadata"]["annotations"][key] == "cloud.google.com/gke-nodepool"
        return
    own = {name: job["template"]["metadata"]["annotations"] for name, job in jobs(manifest).items()}
    assert own == {
        names.HEAD_JOB: {key: "kubernetes.io/hostname"},
        names.WORKER_JOB: {key: "cloud.google.com/gke-nodepool"},
    }
    assert key not in manifest["metadata"]["annotations"]


# -- on which nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SLICES)
def test_hosts_are_found_by_accelerator_and_topology(shape):
    slice_ = examples.SHAPES[shape].slice
    pod = on_slices(shape)
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": slice_.accelerator,
        "cloud.google.com/gke-tpu-topology": slice_.topology,
    }
    assert pod["tolerations"] == [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "affinity" not in pod


@pytest.mark.parametrize("shape", SLICES)
def test_named_node_pools_are_the_only_ones(shape):
    (term,) = on_slices(shape, capacity="pools")["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    pools = {"key": "cloud.google.com/gke-nodepool", "operator": "In", "values": ["slice-0", "slice-1"]}
    assert term == {"matchExpressions": [pools]}


@pytest.mark.parametrize("shape", SLICES)
def test_a_reservation_is_named(shape):
    selector = on_slices(shape, capacity="reservation")["nodeSelector"]
    assert selector["cloud.google.com/reservation-name"] == "my-reservation"


@pytest.mark.parametrize("shape", SLICES)
def test_spot_hosts_are_asked_for_and_tolerated(shape):
    pod = on_slices(shape, capacity="spot")
    assert pod["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
    spot = {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    assert spot in pod["tolerations"]


@pytest.mark.parametrize("shape", ["cpu", "converter", *PATHWAYS])
def test_pods_without_chips_go_to_the_cpu_pool_where_one_is_named(shape):
    job = names.HEAD_JOB if shape in PATHWAYS else names.MAIN_JOB
    assert examples.pods(examples.manifest(shape, capacity="spot"))[job]["nodeSelector"] == {
        "cloud.google.com/gke-nodepool": "cpu-np"
    }
    assert "nodeSelector" not in examples.pods(examples.manifest(shape, "any CPU pool"))[job]


def test_a_cpu_machine_has_the_memory_and_the_disk_that_are_asked_for():
    manifest = examples.manifest("converter")
    assert command(manifest)["resources"] == {
        "requests": {"cpu": "15500m", "memory": "256G", "ephemeral-storage": "160500M"},
        "limits": {"memory": "256G"},
    }
    (volume,) = examples.pods(manifest)[names.MAIN_JOB]["volumes"]
    assert volume == {"name": "scratch", "emptyDir": {"sizeLimit": "160500M"}}
    assert command(manifest)["volumeMounts"] == [{"name": "scratch", "mountPath": "/tmp"}]


@pytest.mark.parametrize("shape", PLAIN)
def test_a_command_on_a_host_of_a_slice_has_shared_memory_as_large_as_its_memory(shape):
    manifest = examples.manifest(shape)
    (volume,) = on_slices(shape)["volumes"]
    assert volume == {"name": "dshm", "emptyDir": {"medium": "Memory"}}
    assert command(manifest)["volumeMounts"] == [{"name": "dshm", "mountPath": "/dev/shm"}]


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_under_a_queue_a_workload_asks_only_for_what_queues_cover(shape):
    manifest = examples.manifest(shape, "queue")
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "user-queue"
    resources = [container["resources"] for container in examples.containers(manifest).values()]
    asked = {name for part in resources for amounts in part.values() for name in amounts}
    assert asked <= {"cpu", "memory", "google.com/tpu"}


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_priority_and_service_account_hold_for_every_pod(shape):
    for pod in examples.pods(examples.manifest(shape, "everything")).values():
        assert (pod["priorityClassName"], pod["serviceAccountName"]) == ("high", "posttrain-workload")


# -- what the command gets --------------------------------------------------------------------------------------------


def expand(text, variables):
    """What a container gets for a value, as Kubernetes makes it (third_party/forked/golang/expansion/expand.go)."""
    result, cursor = "", 0
    while cursor < len(text):
        following = text[cursor + 1 : cursor + 2]
        if text[cursor] != "$" or not following:
            result, cursor = result + text[cursor], cursor + 1
        elif following == "$":
            result, cursor = result + "$", cursor + 2
        elif following == "(" and (end := text.find(")", cursor)) > 0:
            name = text[cursor + 2 : end]
            result, cursor = result + variables.get(name, f"$({name})"), end + 1
        else:
            result, cursor = result + "$" + following, cursor + 2
    return result


@pytest.mark.parametrize(
    "text", ["$(A)", "$$(A)", "$$$(A)", "$A", "a$", "a$$", "$(", "$$(", "$()", "$(A) $(B)", "${A}", '{"a": "$(A)"}', ""]
)
def test_a_text_reaches_the_container_as_it_is(text):
    assert expand(env.literal(text), {"A": "wrong"}) == text


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_the_pod_reads_the_very_order(shape):
    order = examples.order(examples.SHAPES[shape])
    container = command(examples.manifest(shape))
    assert container["command"] == ["python3", "-m", "components.workloads.inside"]
    assert "args" not in container
    text = expand(examples.environment(container)[ORDER_VARIABLE], {"HOME": "wrong"})
    assert Order.model_validate_json(text) == order


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_environment_of_the_cluster_reaches_the_command_alone_and_wins_over_ours(shape):
    for name, container in examples.containers(examples.manifest(shape, "environment", "flags")).items():
        variables = examples.environment(container)
        if name == names.COMMAND_CONTAINER:
            assert expand(variables["LIBTPU_INIT_ARGS"], {"B": "wrong"}) == "--a=$(B) $$"
            assert variables["PYTHONUNBUFFERED"] == "0"
        else:
            assert "LIBTPU_INIT_ARGS" not in variables


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_no_environment_of_the_cluster_replaces_the_order(shape):
    needs = examples.SHAPES[shape]
    cluster = ClusterConfig(env={ORDER_VARIABLE: "{}"})
    tpu = examples.TpuConfig(slice=needs.slice.name) if isinstance(needs, Tpu) else None
    order = examples.order(needs)
    manifest = jobset.manifest(order, cluster, tpu)
    assert Order.model_validate_json(expand(examples.environment(command(manifest))[ORDER_VARIABLE], {})) == order


@pytest.mark.parametrize("shape", PATHWAYS)
def test_references_between_variables_stay_references_to_earlier_ones(shape):
    for container in examples.containers(examples.manifest(shape, "everything", "flags")).values():
        order = [variable["name"] for variable in container["env"]]
        for variable in container["env"]:
            if variable.get("value", "").startswith("grpc://$(PATHWAYS_HEAD)"):
                assert order.index("PATHWAYS_HEAD") < order.index(variable["name"])
                assert expand(variable["value"], {"PATHWAYS_HEAD": "head"}) == "grpc://head:29000"


@pytest.mark.parametrize("shape", PATHWAYS)
def test_flags_of_pathways_reach_all_its_programs_and_the_command(shape):
    for container in examples.containers(examples.manifest(shape, capacity="flags")).values():
        flag = "FLAGS_pathways_enforce_subset_devices_form_subslice"
        assert examples.environment(container)[flag] == "false"


@pytest.mark.parametrize("shape", PATHWAYS)
def test_scratch_files_of_pathways_lie_with_the_attempt(shape):
    for container in examples.containers(examples.manifest(shape)).values():
        if container["name"] != names.COMMAND_CONTAINER:
            place = "--gcs_scratch_location=gs://bucket/runs/r/train/attempt-1/pathways/"
            assert place in container["args"]


# -- secrets ----------------------------------------------------------------------------------------------------------

TOKEN = {"secretKeyRef": {"name": "hf-secret", "key": "hf_api_token"}}


@pytest.mark.parametrize(
    ("workload", "gets_it"),
    [
        ({"image": "training"}, True),
        ({"image": "converter"}, False),
        ({"image": "converter", "needs_hub": True}, True),
        ({"image": "serving"}, False),
    ],
)
@pytest.mark.parametrize("shape", ["cpu", "plain", "pathways"])
def test_the_token_comes_from_the_secret_to_who_needs_it(shape, workload, gets_it):
    for name, container in examples.containers(examples.manifest(shape, "secret", **workload)).items():
        wanted = TOKEN if gets_it and name == names.COMMAND_CONTAINER else None
        assert examples.environment(container).get("HF_TOKEN") == wanted


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_without_a_secret_there_is_no_token(shape):
    manifest = examples.manifest(shape, needs_hub=True)
    assert "HF_TOKEN" not in examples.environment(command(manifest))


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_a_token_in_the_launchers_environment_is_in_no_manifest(shape, monkeypatch):
    sentinel = "hf_SENTINELSENTINELSENTINEL"
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN"):
        monkeypatch.setenv(variable, sentinel)
    assert os.environ["HF_TOKEN"] == sentinel
    assert all(sentinel not in json.dumps(manifest) for manifest in examples.variants(shape))


# -- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_a_failure_is_final(shape):
    manifest = examples.manifest(shape)
    assert manifest["spec"]["failurePolicy"]["maxRestarts"] == 0
    assert "rules" not in manifest["spec"]["failurePolicy"]
    running_the_command = names.HEAD_JOB if shape in PATHWAYS else names.MAIN_JOB
    assert spec(manifest, running_the_command)["backoffLimit"] == 0
    assert examples.pods(manifest)[running_the_command]["restartPolicy"] == "Never"


@pytest.mark.parametrize("shape", PATHWAYS)
def test_workers_may_fail_a_bounded_number_of_times(shape):
    workers = spec(examples.manifest(shape), names.WORKER_JOB)
    assert workers["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert workers["backoffLimit"] == 4 * workers["parallelism"]


@pytest.mark.parametrize("shape", SLICES)
def test_on_spot_a_lost_host_restarts_without_counting(shape):
    manifest = examples.manifest(shape, capacity="spot")
    assert manifest["spec"]["failurePolicy"]["rules"] == [
        {
            "name": "hostMaintenance",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
        }
    ]
    lost = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    for job in jobs(manifest).values():
        never = job["template"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"
        assert job["template"]["spec"].get("podFailurePolicy") == ({"rules": [lost]} if never else None)


@pytest.mark.parametrize("shape", SLICES)
@pytest.mark.parametrize("capacity", ["on demand", "reservation"])
def test_where_hosts_are_not_taken_back_there_is_no_such_rule(shape, capacity):
    assert "DisruptionTarget" not in json.dumps(examples.manifest(shape, capacity=capacity))


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_kubernetes_ends_every_job_some_time_after_the_deadline_of_the_command(shape):
    manifest = examples.manifest(shape, deadline_s=7200.5)
    assert {job["template"]["spec"]["activeDeadlineSeconds"] for job in jobs(manifest).values()} == {7201 + 3600}


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_a_finished_object_stays_for_a_day_and_belongs_to_nobody(shape):
    manifest = examples.manifest(shape)
    assert manifest["spec"]["ttlSecondsAfterFinished"] == 24 * 3600
    assert "ownerReferences" not in json.dumps(manifest)


# -- how it is found and made -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_object_and_pods_carry_the_labels_of_their_run(shape):
    manifest = examples.manifest(shape)
    workload = examples.order(examples.SHAPES[shape]).workload
    found = [manifest["metadata"], *(spec(manifest, job)["template"]["metadata"] for job in jobs(manifest))]
    assert all(metadata["labels"] == names.labels(workload) for metadata in found)
    assert manifest["metadata"]["annotations"][names.RUN_ID] == examples.RUN_ID


@pytest.mark.parametrize("shape", examples.SHAPES)
def test_the_same_order_gives_the_same_bytes(shape):
    first, second = (json.dumps(examples.manifest(shape, "everything", "on demand")) for _ in range(2))
    assert first == second


def test_images_are_those_of_the_cluster():
    manifest = examples.manifest("pathways", "images")
    images = {name: container["image"] for name, container in examples.containers(manifest).items()}
    assert images[names.COMMAND_CONTAINER] == "eu-docker.pkg.dev/p/r/training@sha256:" + "a" * 64
    assert images[names.PROXY_CONTAINER] == "p:1"
    assert images[names.WORKER_CONTAINER] == images[names.MANAGER_CONTAINER]
    assert all("imagePullPolicy" not in c for c in examples.containers(manifest).values())  # Kubernetes' own is right


def test_building_needs_no_client_of_kubernetes():
    code = "import sys, components.workloads.jobset; sys.exit('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_there_for_who_cannot_afford_the_models():
    code = "import sys, components.workloads.names; sys.exit('kubeflow_trainer_api' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_slice_that_is_parsed_is_the_one_that_is_asked_for():
    order = examples.order(Tpu(slice=parse("v6e:2x4/4t"), pathways=False))
    manifest = jobset.manifest(order, ClusterConfig(), examples.TpuConfig(slice="v6e:2x4/4t"))
    assert spec(manifest, names.MAIN_JOB)["parallelism"] == 2
    assert command(manifest)["resources"]["limits"] == {"google.com/tpu": "4"}


def test_half_a_core_and_half_a_gigabyte_are_written_in_thousandths():
    manifest = jobset.manifest(examples.order(Cpu(cores=0.5, memory_gb=1.25, disk_gb=2)), ClusterConfig(), None)
    assert command(manifest)["resources"]["requests"] == {"cpu": "500m", "memory": "1250M", "ephemeral-storage": "2G"}
