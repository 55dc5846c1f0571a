"""The JobSets of the TPU presets, as the launcher sends them, on slices that are played: the API server, the scheduler, the
JobSet controller and Kueue are real, the nodes and what runs on them are not.

A played pod runs until the test ends it, and writes nothing: its account, outcome.json, is the test's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components import storage
from components.evaluate import evaluate
from components.plan import Plan
from components.record import ArtifactRecord, Kind
from components.train import train
from components.workloads.workload import OUTCOME, PodOutcome, Workload
from tests.cluster import support
from tests.cluster.harness import Bucket, Cluster, wait_until
from tests.cluster.support import Launcher

GEMMA, QWEN = "gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"
HEAD, WORKER, MAIN = "pathways-head", "worker", "main-job"
POOL = "cloud.google.com/gke-nodepool"
RUN_FOR = "real-cluster/run-for"  # what KWOK goes by
FAILS = "pod-container-running-failed.stage.kwok.x-k8s.io"


class Stage:
    """The slices of a test, and the runs on them."""

    def __init__(self, cluster: Cluster, namespace: str, bucket: Bucket, add: Callable[..., str], folder: Path) -> None:
        self.cluster, self.namespace, self.bucket = cluster, namespace, bucket
        self._add, self._folder = add, folder
        self.cpu_pool = f"cpu-{namespace}"
        self.launchers: list[Launcher] = []

    def add_slice(self, kind: str, *options: str) -> str:
        return self._add(kind, *options)

    def add_machines(self) -> None:
        """The node pool of the heads."""
        self._add("cpu", "--nodes", "2", pool=self.cpu_pool)

    def plan(self, preset: str, *settings: str) -> Plan:
        return support.plan(self.bucket, self.namespace, preset, f"cluster.cpu_pool={self.cpu_pool}", *settings)

    def launch(self, plan: Plan, workload: Workload) -> Launcher:
        self.launchers.append(Launcher(plan, workload, self.cluster, self._folder))
        return self.launchers[-1]

    def running(self, plan: Plan, role: str, number: int) -> list[dict[str, Any]]:
        """Waits until so many pods of a role run, and returns them."""

        def found() -> list[dict[str, Any]]:
            return support.running(support.pods(self.cluster, plan, role))

        wait_until(lambda: len(found()) == number, 60)
        return found()

    def tell(self, pods: list[dict[str, Any]], what: str, *facts: str) -> None:
        """`annotate` or `label` some pods."""
        names = [pod["metadata"]["name"] for pod in pods]
        self.cluster.kubectl(what, "pods", "-n", self.namespace, *names, "--overwrite", *facts)

    def succeed(self, plan: Plan, role: str) -> None:
        """The command, in the first pod of a role, gives its account and ends well."""
        (jobset,) = support.jobsets(self.cluster, plan)
        order = support.order(jobset)
        account = PodOutcome(name=order.name, succeeded=True, seconds=1.5)
        storage.write_text(storage.join(order.directory, OUTCOME), account.model_dump_json())
        self.tell(support.pods(self.cluster, plan, role), "annotate", f"{RUN_FOR}=0s")

    def fail(self, pods: list[dict[str, Any]], exit_code: int, reason: str) -> None:
        """The containers of some pods end badly."""
        self.tell(pods, "annotate", f"{FAILS}/exit-code={exit_code}", f"{FAILS}/reason={reason}")
        self.tell(pods, "label", f"{FAILS}=true")

    def shut_down(self, pod: dict[str, Any]) -> None:
        """The node of a pod shuts down, and its kubelet says so of the pod: nodeshutdown_manager.go in Kubernetes."""
        message = "Pod was terminated in response to imminent node shutdown."
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
        status = {"phase": "Failed", "reason": "Terminated", "message": message, "conditions": [condition]}
        patch = ("patch", "pod", pod["metadata"]["name"], "-n", self.namespace, "--subresource=status", "-p")
        self.cluster.kubectl(*patch, json.dumps({"status": status}))


@pytest.fixture
def stage(
    cluster: Cluster, namespace: str, bucket: Bucket, played_slice: Callable[..., str], tmp_path: Path
) -> Iterator[Stage]:
    """A namespace whose pods run until they are told to end; launchers that a test leaves are killed."""
    name = f"{namespace}-runs-on"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    annotated = f'Object{{metadata: Object.metadata{{annotations: {{"{RUN_FOR}": "3600s"}}}}}}'
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "resourceRules": [pods],
            },
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": annotated}},
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }
    cluster.apply(policy)
    cluster.apply(binding)
    probe = (
        "run",
        "probe",
        "--image=none",
        "--dry-run=server",
        "-n",
        namespace,
        "-o",
        "jsonpath={.metadata.annotations}",
    )
    wait_until(lambda: RUN_FOR in cluster.kubectl(*probe), 30)
    made = Stage(cluster, namespace, bucket, played_slice, tmp_path)
    yield made
    for launcher in made.launchers:
        launcher.process.kill()
    cluster.kubectl("delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", name)


def record(kind: Kind, uri: str) -> ArtifactRecord:
    return ArtifactRecord(kind=kind, format="", data_uri=uri, extra={"items": "items"})


def training(plan: Plan) -> Workload:
    base, model = record("maxtext-checkpoint", plan.converted_dir), record("hf-model", plan.model_dir)
    return train.workload(plan, base, model, record("dataset", f"{plan.store}/dataset"))


def evaluation(plan: Plan) -> Workload:
    base, model = record("maxtext-checkpoint", plan.converted_dir), record("hf-model", plan.model_dir)
    trained = record("rl-checkpoint", plan.stage_dir("train"))
    return evaluate.workload(plan, base, trained, model, record("dataset", f"{plan.store}/dataset"))


def nodes_by_job(cluster: Cluster, pods: list[dict[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """The node pool and node of each pod, by the index of its Job, which is that of its slice."""
    pools = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(POOL) for node in cluster.json("get", "nodes")["items"]
    }
    found = defaultdict(list)
    for pod in pods:
        node = pod["spec"]["nodeName"]
        found[pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"]].append((pools[node], node))
    return found


def assert_a_slice_each(cluster: Cluster, pods: list[dict[str, Any]], slices: int, hosts: int) -> None:
    """Every Job of workers has a node pool to itself, and every worker a host."""
    placed = nodes_by_job(cluster, pods)
    pools = [{pool for pool, _ in nodes} for nodes in placed.values()]
    assert len(placed) == slices
    assert all(len(of_one) == 1 for of_one in pools), placed
    assert len(set().union(*pools)) == slices, placed
    assert all(len({node for _, node in nodes}) == hosts for nodes in placed.values()), placed


@pytest.mark.parametrize("preset, kind, hosts", [(GEMMA, "v6e-32", 8), (QWEN, "v6e-64", 16)])
def test_a_preset_has_its_head_first_then_a_worker_on_each_host_of_one_slice(stage, preset, kind, hosts):
    for _ in range(2):
        stage.add_slice(kind)
    plan = stage.plan(preset)
    launcher = stage.launch(plan, training(plan))
    launcher.says("scaling the CPU pool: ")
    assert support.pods(stage.cluster, plan, WORKER) == []
    stage.add_machines()
    (head,) = stage.running(plan, HEAD, 1)
    workers = stage.running(plan, WORKER, hosts)
    assert head["spec"]["nodeName"].startswith(stage.cpu_pool)
    assert_a_slice_each(stage.cluster, workers, slices=1, hosts=hosts)
    launcher.says("] running")
    stage.succeed(plan, HEAD)
    assert launcher.result()["outcome"]["seconds"] == 1.5
    assert support.jobsets(stage.cluster, plan) == []

    launcher = stage.launch(plan, evaluation(plan))
    stage.running(plan, HEAD, 1)
    assert_a_slice_each(stage.cluster, stage.running(plan, WORKER, hosts), slices=1, hosts=hosts)
    stage.succeed(plan, HEAD)
    assert launcher.result()["outcome"]["seconds"] == 1.5


def test_two_slices_are_two_node_pools(stage):
    stage.add_machines()
    for _ in range(2):
        stage.add_slice("v6e-32")
    plan = stage.plan(GEMMA, "tpu.slices=2")
    launcher = stage.launch(plan, training(plan))
    assert_a_slice_each(stage.cluster, stage.running(plan, WORKER, 16), slices=2, hosts=8)
    stage.succeed(plan, HEAD)
    assert launcher.result()["outcome"]["seconds"] == 1.5


def test_a_worker_that_fails_once_too_often_fails_the_run(stage):
    stage.add_machines()
    stage.add_slice("v6e-32")
    plan = stage.plan(GEMMA)
    launcher = stage.launch(plan, training(plan))
    workers = stage.running(plan, WORKER, 8)
    (job,) = {pod["metadata"]["ownerReferences"][0]["name"] for pod in workers}
    # its restarts, 4 for each host, are used up
    stage.cluster.kubectl("patch", "job", job, "-n", stage.namespace, "-p", '{"spec": {"backoffLimit": 0}}')
    stage.fail(workers[3:4], 137, "OOMKilled")
    failed = launcher.result()
    assert failed["reason"].startswith("The memory of the machine is full (OOMKilled: pathways-worker)")
    assert any(workers[3]["metadata"]["name"] in line for line in failed["evidence"])


def test_a_head_that_fails_fails_the_run(stage):
    stage.add_machines()
    stage.add_slice("v6e-32")
    plan = stage.plan(GEMMA)
    launcher = stage.launch(plan, training(plan))
    stage.running(plan, WORKER, 8)
    heads = support.pods(stage.cluster, plan, HEAD)
    stage.fail(heads, 3, "Error")
    failed = launcher.result()
    assert failed["reason"] == "It ended with exit code 3."
    assert (
        f"pod {heads[0]['metadata']['name']}: container workload-container ended with exit code 3 (Error)"
        in (failed["evidence"])
    )
    wait_until(lambda: not support.running(support.pods(stage.cluster, plan)), 60)


def test_a_completed_jobset_without_an_account_of_its_pod_is_no_success(stage):
    stage.add_machines()
    stage.add_slice("v6e-32")
    plan = stage.plan(GEMMA)
    launcher = stage.launch(plan, training(plan))
    stage.running(plan, WORKER, 8)
    stage.tell(support.pods(stage.cluster, plan, HEAD), "annotate", f"{RUN_FOR}=0s")
    assert "left no account of its work" in launcher.result()["reason"]


def test_a_run_waits_for_a_slice_that_another_one_has_and_goes_on_when_it_is_free(stage):
    stage.add_machines()
    stage.add_slice("v6e-32")
    first, second = stage.plan(GEMMA), stage.plan(GEMMA)
    launchers = [stage.launch(first, training(first))]
    stage.running(first, WORKER, 8)
    launchers.append(stage.launch(second, training(second)))
    launchers[1].says("waiting for the slice: 0/")
    launchers[1].says("8 node(s) didn't have free ports for the requested pod ports")
    launchers[1].says("another workload has these hosts: it starts when that one ends")
    stage.succeed(first, HEAD)
    assert "outcome" in launchers[0].result()
    stage.running(second, WORKER, 8)
    launchers[1].says("] running")
    stage.succeed(second, HEAD)
    assert "outcome" in launchers[1].result()


def test_in_kueue_a_run_is_queued_then_admitted_then_evicted_and_admitted_again(stage, queue):
    stage.add_machines()
    stage.add_slice("v6e-32")
    name = queue(stage.namespace)
    occupant = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "occupant", "labels": {"kueue.x-k8s.io/queue-name": name}},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "none",
                            "resources": {"limits": {"google.com/tpu": "32"}, "requests": {"cpu": "1", "memory": "1G"}},
                        }
                    ],
                }
            },
        },
    }
    stage.cluster.apply(occupant, "-n", stage.namespace)
    admitted = ("get", "job", "occupant", "-n", stage.namespace, "-o", "jsonpath={.spec.suspend}")
    wait_until(lambda: stage.cluster.kubectl(*admitted) == "false", 60)

    plan = stage.plan(GEMMA, f"cluster.queue={name}")
    launcher = stage.launch(plan, training(plan))
    launcher.says("queued in Kueue: ")
    assert "insufficient unused quota for google.com/tpu" in launcher.said
    assert support.pods(stage.cluster, plan) == []

    stage.cluster.kubectl("delete", "job", "occupant", "-n", stage.namespace)
    stage.running(plan, WORKER, 8)
    launcher.says("] running")

    (jobset,) = support.jobsets(stage.cluster, plan)
    of_it = ("-n", stage.namespace, "-l", f"kueue.x-k8s.io/job-uid={jobset['metadata']['uid']}")
    entry = stage.cluster.kubectl("get", "workloads.kueue.x-k8s.io", *of_it, "-o", "name").strip()
    activate = ("patch", entry, "-n", stage.namespace, "--type=merge", "-p")
    stage.cluster.kubectl(*activate, '{"spec": {"active": false}}')
    launcher.says("evicted by Kueue, queued again: ")
    wait_until(lambda: not support.pods(stage.cluster, plan), 60)
    stage.cluster.kubectl(*activate, '{"spec": {"active": true}}')
    stage.running(plan, WORKER, 8)
    wait_until(lambda: launcher.said.rstrip().endswith("] running"), 60)
    stage.succeed(plan, HEAD)
    assert "outcome" in launcher.result()


def test_without_pathways_every_host_runs_the_command_and_one_that_fails_fails_the_run(stage):
    for _ in range(2):
        stage.add_slice("v6e-32")
    plan = stage.plan(GEMMA, "tpu.pathways=false")
    launcher = stage.launch(plan, training(plan))
    assert_a_slice_each(stage.cluster, stage.running(plan, MAIN, 8), slices=1, hosts=8)
    stage.succeed(plan, MAIN)
    assert "outcome" in launcher.result()

    launcher = stage.launch(plan, evaluation(plan))
    hosts = stage.running(plan, MAIN, 8)
    stage.fail(hosts[5:6], 9, "Error")
    failed = launcher.result()
    assert failed["reason"] == "It ended with exit code 9."
    assert any(hosts[5]["metadata"]["name"] in line for line in failed["evidence"])


def test_on_spot_a_run_stays_on_spot_nodes_and_begins_anew_when_one_is_taken_away(stage):
    stage.add_slice("v6e-32")
    spot = stage.add_slice("v6e-32", "--label", "cloud.google.com/gke-spot=true")
    plan = stage.plan(GEMMA, "tpu.pathways=false", "tpu.capacity=spot")
    launcher = stage.launch(plan, training(plan))
    before = stage.running(plan, MAIN, 8)
    assert all(pod["spec"]["nodeName"].startswith(spot) for pod in before)

    stage.shut_down(before[3])
    old = {pod["metadata"]["uid"] for pod in before}

    def anew() -> bool:
        found = support.running(support.pods(stage.cluster, plan, MAIN))
        return len(found) == 8 and not old & {pod["metadata"]["uid"] for pod in found}

    wait_until(anew, 60)
    stage.succeed(plan, MAIN)
    assert "outcome" in launcher.result()


def test_a_node_that_is_not_spot_and_is_taken_away_fails_the_run(stage):
    stage.add_slice("v6e-32")
    plan = stage.plan(GEMMA, "tpu.pathways=false")
    launcher = stage.launch(plan, training(plan))
    stage.shut_down(stage.running(plan, MAIN, 8)[3])
    assert launcher.result()["reason"].startswith(
        "The cluster took the pod away (Pod was terminated in response to imminent node shutdown)"
    )
