"""RayJobs for tests: those that presets send, every shape of one, the tutorials' own, and their judges."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import kubernetes_schemas
import yaml
from kubernetes_schemas import KUBERNETES, crd_problems, kubernetes_problems

from components import config, tpu
from components.config import ClusterConfig, TpuConfig
from components.workloads import rayjob
from components.workloads.workload import Cpu, Order, Output, Ray, Workload
from pipelines import sketch

STORE = "gs://my-bucket/store"
PRESETS = (
    "gemma4-e2b-ray-v6e-16",
    "gemma4-e2b-ray-tpu7x-16",
    "llama3-8b-ray-2xv6e-16",
    "llama3-70b-ray-2xv6e-16",
    "llama3-8b-ray-elastic-spot",
)
CRDS = ("ray.io_rayjobs-v1.4.2.yaml", "ray.io_rayjobs-v1.7.0.yaml")
CLUSTER_CRD = "ray.io_rayclusters-v1.7.0.yaml"

_HEAD, _WORKER = Cpu(cores=4, memory_gb=16), Cpu(cores=8, memory_gb=200)
SHAPES: dict[str, Cpu | Ray] = {
    "no workers": Cpu(cores=2, memory_gb=4.5, disk_gb=20),
    "workers without chips": Ray(head=_HEAD, worker=Cpu(cores=0.5), replicas=2, least=1),
    "a slice": Ray(head=_HEAD, worker=_WORKER, slice=tpu.parse("v6e-16"), replicas=1, least=1, shared_memory_gb=100),
    "a slice of one host": Ray(head=_HEAD, worker=_WORKER, slice=tpu.parse("v6e-8"), replicas=1, least=1),
    "two devices a chip": Ray(head=_HEAD, worker=_WORKER, slice=tpu.parse("tpu7x-16"), replicas=1, least=1),
    "elastic slices": Ray(
        head=_HEAD,
        worker=_WORKER,
        slice=tpu.parse("v6e-16"),
        replicas=4,
        least=2,
        network_devices=2,
        bucket="my-bucket",
        env={"LIBTPU_INIT_ARGS": "--a=$(B)"},
    ),
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "everything": {
        "queue": "user-queue",
        "priority": "high",
        "service_account": "posttrain-workload",
        "hf_secret": "hf-secret/token",
        "images": {"ray-torchtpu": "eu-docker.pkg.dev/p/r/ray@sha256:" + "a" * 64},
        "env": {"RAY_AUTH_MODE": "token", "A": "$(B)"},
    },
    "any CPU pool": {"cpu_pool": None},
}
CAPACITIES: dict[str, dict[str, Any]] = {
    "on demand": {},
    "spot": {"capacity": "spot"},
    "reservation": {"capacity": "reservation", "reservation": "mine", "pools": ["slice-0"]},
}


def order(needs: Cpu | Ray, **workload: Any) -> Order:
    """An order for a workload that needs this."""
    fields: dict[str, Any] = {
        "stage": "finetune",
        "run_id": "gemma4-e2b-ray-v6e-16-20260105-101112-ab12",
        "command": ("python", "-m", "train", "--out=@out@", "--text=$(HOME) {instruction}"),
        "outputs": (Output(name="out", uri=f"{STORE}/runs/r/finetune"),),
        "image": "ray-torchtpu",
        **workload,
    }
    return Order(
        workload=Workload(needs=needs, **fields),
        name="finetune-0123456789",
        directory=f"{STORE}/runs/r/finetune/attempt-1",
        silence_s=900.0,
    )


def manifest(shape: str, cluster: str = "default", capacity: str = "on demand", **workload: Any) -> dict[str, Any]:
    """The RayJob of one variant."""
    needs = SHAPES[shape]
    slice_ = needs.slice if isinstance(needs, Ray) else None
    slices = TpuConfig(slice=slice_.name, pathways=False, **CAPACITIES[capacity]) if slice_ else None
    return rayjob.manifest(order(needs, **workload), ClusterConfig(**CLUSTERS[cluster]), slices)


def variants(shape: str) -> Iterator[dict[str, Any]]:
    """The RayJobs of a shape with every option."""
    for cluster, capacity in itertools.product(CLUSTERS, CAPACITIES):
        yield manifest(shape, cluster, capacity)


def sent(preset: str, *overrides: str) -> dict[str, dict[str, Any]]:
    """What a run of a preset would send, by stage; what must be there before by kind."""
    found = sketch.objects(config.load(preset, overrides), STORE)
    return {one["metadata"].get("labels", {}).get("posttrain.dev/stage", one["kind"]): dict(one) for one in found}


def theirs(file: str) -> dict[str, dict[str, Any]]:
    """A tutorial's manifests by kind."""
    documents = yaml.safe_load_all(kubernetes_schemas.shared_file("manifests", file).read_text())
    return {document["kind"]: document for document in documents}


def templates(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The pod templates of a RayJob: submitter, head, and workers where there are."""
    cluster = job["spec"]["rayClusterSpec"]
    found = {"submitter": job["spec"]["submitterPodTemplate"], "head": cluster["headGroupSpec"]["template"]}
    for group in cluster.get("workerGroupSpecs", []):
        found["workers"] = group["template"]
    return found


def container(job: dict[str, Any], role: str) -> dict[str, Any]:
    """The one container of a role's pods."""
    (found,) = templates(job)[role]["spec"]["containers"]
    return dict(found)


def environment(job: dict[str, Any], role: str) -> dict[str, Any]:
    """Values of a role's variables."""
    return {variable["name"]: variable.get("value") for variable in container(job, role)["env"]}


def judged(jobs: Iterable[dict[str, Any]], crds: Iterable[str] = CRDS) -> list[str]:
    """What KubeRay's CRDs or Kubernetes' schemas of pods have against any of these RayJobs."""
    every = list(jobs)
    problems = [f"{crd}: {problem}" for job in every for crd in crds for problem in crd_problems(job, crd)]
    pods = [
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": role}, "template": template}
        for job in every
        for role, template in templates(job).items()
    ]
    return problems + [
        f"{version}: {problem}" for version in KUBERNETES for problem in kubernetes_problems(pods, version)
    ]


def ray_cluster(job: dict[str, Any]) -> dict[str, Any]:
    """The RayCluster that KubeRay makes of a RayJob."""
    meta = {"name": f"{job['metadata']['name']}-abcde"}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": job["spec"]["rayClusterSpec"]}
