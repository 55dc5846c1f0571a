"""The pods of a RayJob: the head, which runs the command, the workers, and the submitter, which follows its log."""

from __future__ import annotations

from collections.abc import Mapping

from components.config import ClusterConfig, TpuConfig
from components.tpu import Slice
from components.workloads import names
from components.workloads.amounts import cores, gigabytes
from components.workloads.images import image
from components.workloads.jobset import env, pods, slices
from components.workloads.jobset.models import (
    Container,
    ContainerPort,
    EnvVar,
    ObjectMeta,
    PodClaim,
    PodSpec,
    PodTemplate,
    ResourceClaim,
    Resources,
    SecurityContext,
    quantities,
)
from components.workloads.jobset.volumes import add_scratch, add_shared_memory
from components.workloads.rayjob import volumes
from components.workloads.workload import ORDER_VARIABLE, Cpu, Order, Ray

HEAD_CONTAINER, WORKER_CONTAINER, SUBMITTER_CONTAINER = "ray-head", "ray-worker", "ray-job-submitter"
# Of Ray in every pod. Ray's own authentication wants a token that KubeRay before 1.5 cannot hand out.
_RAY = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
# Both TensorCores of a chip are devices of their own for Ray, where the generation has two.
_DEVICES_PER_CHIP = "RAY_TPU_RESOURCE_PER_CHIP"
_NETWORK = "netdev"


def head(order: Order, cluster: ClusterConfig, machine: Cpu, ray: Ray | None) -> PodTemplate:
    """The head. It carries out the order when the submitter has handed in the job."""
    own = {ORDER_VARIABLE: order.model_dump_json()}
    container = _container(HEAD_CONTAINER, order, cluster, [_devices(ray), own], _machine(machine))
    container.ports = [
        ContainerPort(name=name, container_port=port)
        for name, port in (("gcs-server", 6379), ("dashboard", 8265), ("client", 10001))
    ]
    spec = PodSpec(node_selector=pods.cpu_node_selector(cluster), containers=[container])
    add_scratch(spec, machine.disk_gb)
    return _template(order, cluster, spec, ray)


def worker(order: Order, cluster: ClusterConfig, tpu: TpuConfig | None, ray: Ray) -> PodTemplate:
    """A worker: a host of a slice, or a machine without chips."""
    container = _container(WORKER_CONTAINER, order, cluster, [_devices(ray), ray.env], _worker_resources(ray))
    spec = PodSpec(containers=[container])
    if ray.slice and tpu:
        spec.node_selector = slices.node_selector(ray.slice, tpu)
        spec.affinity = slices.affinity(tpu)
        spec.tolerations = slices.tolerations(tpu)
        # the TPU's device files are root's
        container.security_context = SecurityContext(privileged=True)
    else:
        spec.node_selector = pods.cpu_node_selector(cluster)
    if ray.network_devices:
        spec.resource_claims = [PodClaim(name=_NETWORK, resource_claim_template_name=claim_name(ray.network_devices))]
    add_shared_memory(spec, ray.shared_memory_gb)
    return _template(order, cluster, spec, ray)


def submitter(order: Order, cluster: ClusterConfig) -> PodTemplate:
    """The pod that hands in the job and follows its log; KubeRay gives it its command."""
    resources = Resources(
        requests=quantities({"cpu": "100m", "memory": "512Mi"}), limits=quantities({"cpu": "1", "memory": "1Gi"})
    )
    container = _container(SUBMITTER_CONTAINER, order, cluster, [], resources)
    spec = PodSpec(restart_policy="Never", node_selector=pods.cpu_node_selector(cluster), containers=[container])
    return _template(order, cluster, spec, None)


def claim_name(devices: int) -> str:
    """The template by which a pod claims so many network interfaces."""
    return f"posttrain-netdev-{devices}"


def devices_per_chip(slice_: Slice) -> int:
    """How many devices Ray is to see in a chip."""
    return slice_.devices // slice_.chips


def _container(
    name: str,
    order: Order,
    cluster: ClusterConfig,
    variables: list[Mapping[str, str]],
    resources: Resources,
) -> Container:
    groups: list[list[EnvVar]] = [env.texts(group) for group in (_RAY, cluster.env, *variables)]
    return Container(
        name=name, image=image(order.workload.image, cluster), env=env.merged(*groups), resources=resources
    )


def _template(order: Order, cluster: ClusterConfig, spec: PodSpec, ray: Ray | None) -> PodTemplate:
    fuse = ray.bucket if ray else None
    if fuse:
        volumes.add_bucket(spec, fuse)
    template = pods.template(order.workload, cluster, spec)
    labels = {**names.labels(order.workload), names.OBJECT: order.name}
    template.metadata = ObjectMeta(labels=labels, annotations=volumes.FUSE_ANNOTATIONS if fuse else None)
    return template


def _devices(ray: Ray | None) -> dict[str, str]:
    each = devices_per_chip(ray.slice) if ray and ray.slice else 1
    return {_DEVICES_PER_CHIP: str(each)} if each > 1 else {}


def _machine(machine: Cpu, chips: Mapping[str, str] | None = None) -> Resources:
    """A limit of the cores would only slow down what could use idle ones; Ray counts those that are requested."""
    limits = {"memory": gigabytes(machine.memory_gb), **(chips or {})}
    return Resources(requests=quantities({"cpu": cores(machine.cores), **limits}), limits=quantities(limits))


def _worker_resources(ray: Ray) -> Resources:
    resources = _machine(ray.worker, {"google.com/tpu": str(ray.slice.chips_per_host)} if ray.slice else None)
    if ray.network_devices:
        resources.claims = [ResourceClaim(name=_NETWORK)]
    return resources
