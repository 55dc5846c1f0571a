"""RayJobs on a real Kubernetes with KubeRay's operator: those of the TPU presets accepted and placed, host by host, on slices
that are played; fine-tuning really run on the node that runs pods, and its launcher killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components import config, storage
from components.plan import AnyPlan
from components.prepare import prepare
from components.results import RunRecord
from components.workloads import launch, names
from components.workloads.workload import Cpu, Output, Ray, Workload
from pipelines import sketch
from tests.cluster import support
from tests.cluster.harness import REAL_POOL, Bucket, Cluster, wait_until
from tests.cluster.support import Launcher

# of each preset: the slice, how many, and the label of its nodes besides
PRESETS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "gemma4-e2b-ray-v6e-16": ("v6e-16", 1, ()),
    "gemma4-e2b-ray-tpu7x-16": ("tpu7x-16", 1, ()),
    "llama3-8b-ray-2xv6e-16": ("v6e-16", 2, ()),
    "llama3-70b-ray-2xv6e-16": ("v6e-16", 2, ()),
    "llama3-8b-ray-elastic-spot": ("v6e-16", 2, ("--label", "cloud.google.com/gke-spot=true")),
}
POOL = "cloud.google.com/gke-nodepool"
SMALL = ["ray.head_cpu=0.2", "ray.head_memory_gb=3", "ray.worker_cpu=0.3", "ray.worker_memory_gb=3"]


pytestmark = pytest.mark.usefixtures("kuberay")


# -- on played slices -------------------------------------------------------------------------------------------------


@pytest.fixture
def interfaces(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Gives every node of a pool two network interfaces to claim, as DRANET does: `interfaces(pool)`."""
    driver, kind = "netdev.google.com", "DeviceClass"
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    version = {"apiVersion": "resource.k8s.io/v1"}
    cluster.apply({**version, "kind": kind, "metadata": {"name": driver}, "spec": {"selectors": [selector]}})
    made: list[str] = []

    def add(pool: str) -> None:
        nodes = cluster.json("get", "nodes", "-l", f"{POOL}={pool}")["items"]
        for name in (node["metadata"]["name"] for node in nodes):
            spec = {
                "driver": driver,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "eth1"}, {"name": "eth2"}],
            }
            cluster.apply({**version, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec})
            made.append(name)

    yield add
    cluster.kubectl("delete", "resourceslice", *made, "--ignore-not-found")
    cluster.kubectl("delete", "deviceclass", driver)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_rayjob_of_a_preset_is_accepted_and_its_workers_are_placed_one_on_each_host(
    cluster, namespace, played_slice, interfaces, preset
):
    kind, slices, label = PRESETS[preset]
    pools = [played_slice(kind, *label) for _ in range(slices)]
    for pool in pools:
        interfaces(pool)
    cpu_pool = played_slice("cpu")
    settings = [f"cluster.namespace={namespace}", f"cluster.cpu_pool={cpu_pool}"]
    objects = sketch.objects(config.load(preset, settings), "gs://bucket/store")
    for manifest in objects:
        cluster.apply(dict(manifest), "-n", namespace, "--dry-run=server")
    for manifest in objects:
        if manifest["kind"] == "ResourceClaimTemplate" or _has_workers(manifest):
            cluster.apply(dict(manifest), "-n", namespace)
        if _has_workers(manifest):
            break  # the other stages have the same pods
    nodes = cluster.json("get", "nodes", "-l", f"{POOL} in ({','.join(pools)})")["items"]
    hosts = [node["metadata"]["name"] for node in nodes]

    def placed(role: str) -> list[str]:
        pods = cluster.json("get", "pods", "-n", namespace, "-l", f"ray.io/node-type={role}")["items"]
        return [pod["spec"]["nodeName"] for pod in support.running(pods)]

    wait_until(lambda: len(placed("worker")) == len(hosts) and placed("head"), 120)
    assert sorted(placed("worker")) == sorted(hosts)
    assert [name.startswith(cpu_pool) for name in placed("head")] == [True]


def _has_workers(manifest: Any) -> bool:
    return manifest["kind"] == "RayJob" and bool(manifest["spec"]["rayClusterSpec"].get("workerGroupSpecs"))


# -- on the node that really runs pods --------------------------------------------------------------------------------


def test_the_tiny_fine_tuning_runs_as_rayjobs_and_leaves_none(cluster, namespace, bucket, ray_image, tmp_path):
    settings = [
        "engine=rayjob",
        f"cluster.namespace={namespace}",
        f"cluster.cpu_pool={REAL_POOL}",
        "cluster.cpu_cores=0.5",
        "cluster.poll_s=2",
        f"cluster.images={{ray-torchtpu: {ray_image}}}",
        f"cluster.env={json.dumps(bucket.env)}",
        *SMALL,
    ]
    options = [part for setting in settings for part in ("--set", setting)]
    command = ["run", "tiny-ray-finetune", "--output", "run", "--store", f"{bucket.uri}/store", *options]
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *command],
        env=cluster.env, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    record = RunRecord.model_validate_json((tmp_path / "run" / "run.json").read_text())
    assert record.status == "succeeded"
    measured = record.metrics
    assert (measured["collectives_devices"], measured["collectives_all_reduce_sum"]) == (2, 3)
    assert measured["loss_last"] < measured["loss_first"] / 2
    assert measured["parity_max_abs_diff"] == 0
    assert cluster.json("get", "rayjobs,rayclusters", "-n", namespace)["items"] == []
    log = (tmp_path / "run" / "log.txt").read_text()
    assert [sum(f"epoch {epoch}/3 | " in line for line in _printed(log)) for epoch in (1, 2, 3)] == [1, 1, 1]


def _printed(log: str) -> list[str]:
    """The lines of workers."""
    return [line for line in log.splitlines() if "(RayTrainWorker" in line]


AT_WORK = """
import socket, sys, time, ray
ray.init()
@ray.remote
def where():
    return socket.gethostname()
print("worker:", ray.get(where.remote()), flush=True)
for tick in range(int(sys.argv[2])):
    print("tick", tick, flush=True)
    time.sleep(0.5)
open(sys.argv[1] + "/file", "w").write("whole")
"""
FAILS = """
import ray
ray.init()
@ray.remote
def work():
    raise ValueError("the third batch has no rows")
ray.get(work.remote())
"""


class Bench:
    """Runs of one small Ray program each."""

    def __init__(self, cluster: Cluster, namespace: str, bucket: Bucket, image: str, folder: Path) -> None:
        self.cluster, self.namespace, self.bucket, self._image, self._folder = cluster, namespace, bucket, image, folder
        self.launchers: list[Launcher] = []

    def plan(self, *settings: str) -> AnyPlan:
        own = [
            "engine=rayjob",
            f"cluster.namespace={self.namespace}",
            f"cluster.cpu_pool={REAL_POOL}",
            "cluster.poll_s=2",
            f"cluster.env={json.dumps(self.bucket.env)}",
            f"cluster.images={{ray-torchtpu: {self._image}}}",
        ]
        found = config.load("tiny-ray-finetune", [*own, *settings])
        run_id, store = prepare.new_run_id("tiny"), storage.join(self.bucket.uri, "store")
        return prepare.make_plan(
            found, run_id=run_id, run_dir=storage.join(store, "runs", run_id), store=store, where="kfp"
        )

    def launch(self, plan: AnyPlan, program: str, *arguments: str) -> Launcher:
        workload = Workload(
            stage="finetune",
            run_id=plan.run_id,
            command=("python", "-c", program, "@result@", *arguments),
            outputs=(Output(name="result", uri=storage.join(plan.run_dir, "result")),),
            needs=Ray(
                head=Cpu(cores=0.2, memory_gb=2),
                worker=Cpu(cores=0.3, memory_gb=2),
                replicas=1,
                least=1,
            ),
            image="ray-torchtpu",
        )
        self.launchers.append(Launcher(plan, workload, self.cluster, self._folder))
        return self.launchers[-1]

    def rayjobs(self, plan: AnyPlan) -> list[dict[str, Any]]:
        selector = names.run_selector(plan.run_id)
        found: list[dict[str, Any]] = self.cluster.json("get", "rayjobs", "-n", self.namespace, "-l", selector)["items"]
        return found

    def ray_pods(self, plan: AnyPlan) -> list[dict[str, Any]]:
        """The pods of the Ray cluster, without the submitter's."""
        pods = support.pods(self.cluster, plan)
        return [pod for pod in pods if "ray.io/node-type" in pod["metadata"]["labels"]]


@pytest.fixture
def bench(cluster: Cluster, namespace: str, bucket: Bucket, ray_image: str, tmp_path: Path) -> Iterator[Bench]:
    """Launchers that a test leaves are killed."""
    made = Bench(cluster, namespace, bucket, ray_image, tmp_path)
    yield made
    for launcher in made.launchers:
        launcher.process.kill()


def ticks(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("tick ")]


def test_a_launcher_that_is_killed_is_followed_by_one_that_takes_the_rayjob_up(bench):
    plan = bench.plan()
    launcher = bench.launch(plan, AT_WORK, "60")
    launcher.says("tick 5\n", 240)
    (before,) = bench.rayjobs(plan)
    launcher.process.kill()
    launcher.process.join()
    again = bench.launch(plan, AT_WORK, "60")
    again.says("taking up RayJob")
    assert "outcome" in again.result(240)
    assert bench.rayjobs(plan) == []
    assert f"created RayJob {before['metadata']['name']}" in again.said
    assert again.said.count("created RayJob") == 1
    assert storage.read_text(storage.join(plan.run_dir, "result", "file")) == "whole"
    attempt = storage.join(plan.stage_dir("finetune"), "attempt-1")
    assert ticks(storage.read_text(storage.join(attempt, "log.txt"))) == [f"tick {number}" for number in range(60)]


def test_a_run_that_is_cancelled_has_no_pod_any_more(bench, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", bench.cluster.kubeconfig)
    plan = bench.plan()
    launcher = bench.launch(plan, AT_WORK, "100000")
    launcher.says("tick 5\n", 240)
    began = time.monotonic()
    (done,) = launch.cancel(plan)
    assert done.startswith("deleted RayJob")
    wait_until(lambda: not bench.rayjobs(plan) and not support.pods(bench.cluster, plan), 60)
    print(f"gone after {time.monotonic() - began:.1f} s")
    assert launcher.result()["reason"] == "It was cancelled."


def test_a_ray_cluster_whose_launcher_is_gone_for_good_goes_after_the_silence_bound(bench):
    plan = bench.plan("cluster.silence_s=30")
    launcher = bench.launch(plan, AT_WORK, "100000")
    launcher.says("tick 5\n", 240)
    launcher.process.kill()
    began = time.monotonic()
    wait_until(lambda: not bench.ray_pods(plan), 120)
    print(f"free after {time.monotonic() - began:.1f} s")

    again = bench.launch(plan, AT_WORK, "3")
    again.says("had ended itself while it had no launcher: trying again")
    assert "outcome" in again.result(240)


def test_a_command_that_fails_is_not_tried_again_and_says_why(bench):
    plan = bench.plan()
    failed = bench.launch(plan, FAILS).result(240)
    assert "the third batch has no rows" in failed["reason"]
    (left,) = bench.rayjobs(plan)
    assert (left["status"]["jobDeploymentStatus"], left["status"]["failed"]) == ("Failed", 1)
    wait_until(lambda: not bench.ray_pods(plan), 60)
