"""Orders, clusters and slices for the tests of JobSets: every shape, and every option of the configuration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from components import tpu
from components.config import ClusterConfig, TpuConfig
from components.workloads import jobset, names
from components.workloads.workload import Cpu, Input, Order, Output, Tpu, Workload

RUN_ID = "gemma4-26b-v6e-32-20260105-101112-ab12"


def order(needs: Cpu | Tpu, **workload: Any) -> Order:
    """An order for a workload that needs this machine."""
    fields = {
        "stage": "train",
        "run_id": RUN_ID,
        "command": ("python", "-m", "train_rl", "--out", "@out@", 'additional={"a": "$(HOME)"}'),
        "env": {"REWARDS": '{"exact_answer": 1.0}'},
        "inputs": (Input(name="model", uri="gs://bucket/models/m", only=("*.json",)),),
        "outputs": (Output(name="out", uri="gs://bucket/runs/r/train"),),
        **workload,
    }
    work = Workload(needs=needs, **fields)
    name = names.object_name(work.run_id, work.stage, 1)
    return Order(workload=work, name=name, directory="gs://bucket/runs/r/train/attempt-1", silence_s=900)


def slices(text: str, **more: Any) -> Tpu:
    """Slices as a person writes their kind."""
    return Tpu(slice=tpu.parse(text), **more)


SHAPES: dict[str, Cpu | Tpu] = {
    "cpu": Cpu(),
    "converter": Cpu(cores=15.5, memory_gb=256, disk_gb=160.5),
    "plain": slices("v6e-32", pathways=False),
    "plain, two slices": slices("v6e-64", slices=2, pathways=False),
    "plain, one host works": slices("v6e-32", pathways=False, one_host=True),
    "plain, one host": slices("v6e-8", pathways=False),
    "pathways": slices("v6e-32"),
    "pathways, two slices": slices("v6e-64", slices=2),
    "pathways, one host": slices("v6e:2x2"),
    "pathways, tpu7x": slices("tpu7x-16"),
    "pathways, v5p": slices("v5p-128", slices=4),
    "pathways, largest": slices("v6e-256", slices=16),
}

CLUSTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "any CPU pool": {"cpu_pool": None},
    "queue": {"queue": "user-queue"},
    "priority": {"priority": "high"},
    "service account": {"service_account": "posttrain-workload"},
    "secret": {"hf_secret": "hf-secret/hf_api_token"},
    "images": {"images": {"training": "eu-docker.pkg.dev/p/r/training@sha256:" + "a" * 64, "proxy": "p:1"}},
    "environment": {"env": {"LIBTPU_INIT_ARGS": "--a=$(B) $$", "PYTHONUNBUFFERED": "0"}},
}
CLUSTERS["everything"] = {key: value for options in CLUSTERS.values() for key, value in options.items()}

CAPACITIES: dict[str, dict[str, Any]] = {
    "on demand": {},
    "spot": {"capacity": "spot"},
    "reservation": {"capacity": "reservation", "reservation": "my-reservation"},
    "pools": {"pools": ["slice-0", "slice-1"]},
    "flags": {"pathways_flags": {"FLAGS_pathways_enforce_subset_devices_form_subslice": "false"}},
    "spot, pools, flags": {"capacity": "spot", "pools": ["slice-0"], "pathways_flags": {"XLA_FLAGS": "--x=$(y)"}},
}


def manifest(shape: str, cluster: str = "default", capacity: str = "on demand", **workload: Any) -> dict[str, Any]:
    """The manifest of one variant."""
    needs = SHAPES[shape]
    config = None
    if isinstance(needs, Tpu):
        config = TpuConfig(slice=needs.slice.name, slices=needs.slices, **CAPACITIES[capacity])
    return jobset.manifest(order(needs, **workload), ClusterConfig(**CLUSTERS[cluster]), config)


def variants(shape: str) -> Iterator[dict[str, Any]]:
    """The manifests of a shape with every option."""
    capacities = CAPACITIES if isinstance(SHAPES[shape], Tpu) else ["on demand"]
    for cluster, capacity in itertools.product(CLUSTERS, capacities):
        yield manifest(shape, cluster, capacity)


def pods(jobset_manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The pod specifications by the name of their replicated job."""
    jobs = jobset_manifest["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"]["spec"] for job in jobs}


def containers(jobset_manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All containers by name, those of all pods."""
    every = [c for pod in pods(jobset_manifest).values() for c in [*pod.get("initContainers", []), *pod["containers"]]]
    return {container["name"]: container for container in every}


def environment(container: dict[str, Any]) -> dict[str, Any]:
    """Value or source of each variable."""
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}
