"""The JobSet of an order: the shape that the workload needs, under the name, labels and queue that find and admit it."""

from __future__ import annotations

from typing import Any

from components.config import ClusterConfig, TpuConfig
from components.workloads import names
from components.workloads.jobset import pathways, plain, slices
from components.workloads.jobset.models import JobSet, JobSetSpec, ObjectMeta
from components.workloads.workload import Cpu, Order, Tpu

API_VERSION = "jobset.x-k8s.io/v1alpha2"
_QUEUE = "kueue.x-k8s.io/queue-name"


def build(order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> JobSet:
    """Returns the JobSet that carries out `order`.

    It has no owner, since the end of a launcher must not end the workload at once: another one may take it up, and
    without one it ends itself. It is not restarted, except where a Spot slice loses a host. A finished one stays for
    `cluster.ttl_s` seconds.
    """
    spec = _spec(order, cluster, tpu)
    spec.ttl_seconds_after_finished = cluster.ttl_s
    return JobSet(
        api_version=API_VERSION,
        kind="JobSet",
        metadata=ObjectMeta(name=order.name, labels=labels(order, cluster), annotations=_annotations(order)),
        spec=spec,
    )


def manifest(order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> dict[str, Any]:
    """Returns the same as the JSON object that is sent."""
    return build(order, cluster, tpu).to_dict()


def _spec(order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> JobSetSpec:
    needs = order.workload.needs
    if isinstance(needs, Cpu):
        return plain.on_cpu(order, cluster, needs)
    assert isinstance(needs, Tpu), "a Ray cluster is no JobSet"
    assert tpu is not None, "a workload on slices comes from a configuration that has them"
    if needs.pathways:
        return pathways.on_slices(order, cluster, tpu, needs)
    return plain.on_slices(order, cluster, tpu, needs)


def labels(order: Order, cluster: ClusterConfig) -> dict[str, str]:
    """Returns the labels by which an object is found again, and by which Kueue admits it."""
    queue = {_QUEUE: cluster.queue} if cluster.queue else {}
    return names.labels(order.workload) | queue


def _annotations(order: Order) -> dict[str, str]:
    """Where every host runs the command, each Job has a node pool to itself; Pathways says it of head and workers."""
    needs = order.workload.needs
    plain = isinstance(needs, Tpu) and not needs.pathways
    exclusive = {slices.EXCLUSIVE: slices.NODE_POOL} if plain else {}
    return names.run_annotation(order.workload) | exclusive
