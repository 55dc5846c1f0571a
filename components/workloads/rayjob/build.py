"""The RayJob of an order: the Ray cluster that the workload needs, under the name, labels and queue that find and admit it."""

from __future__ import annotations

from typing import Any

from components.config import ClusterConfig, TpuConfig
from components.workloads import names
from components.workloads.jobset.build import labels
from components.workloads.jobset.pods import active_deadline_s
from components.workloads.rayjob import pods
from components.workloads.rayjob.models import Head, Metadata, RayCluster, RayJob, RayJobSpec, Workers
from components.workloads.workload import Cpu, Order, Ray

# of images/ray-torchtpu and images/ray-maxtext
RAY_VERSION = "2.60.0"
# The command runs on the head, in the environment of the head's container; the driver of Ray is what it starts there.
_ENTRYPOINT = "python3 -m components.workloads.inside"
_GROUP = "workers"


def manifest(order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> dict[str, Any]:
    """Returns the RayJob that carries out `order`, as the JSON object that is sent.

    It has no owner, since the end of a launcher must not end the workload at once. It is not tried again, for training
    goes on from its checkpoint with the next attempt. At its end the Ray cluster goes at once, so that no slice is held;
    the RayJob and the submitter's pod with the log stay until the RayJob is removed.
    """
    job = RayJob(
        metadata=Metadata(
            name=order.name, labels=labels(order, cluster), annotations=names.run_annotation(order.workload)
        ),
        spec=RayJobSpec(
            entrypoint=_ENTRYPOINT,
            backoff_limit=0,
            shutdown_after_job_finishes=True,
            active_deadline_seconds=active_deadline_s(order.workload),
            submitter_pod_template=pods.submitter(order, cluster),
            ray_cluster_spec=_ray_cluster(order, cluster, tpu),
        ),
    )
    return job.model_dump(by_alias=True, exclude_none=True)


def companions(order: Order) -> list[dict[str, Any]]:
    """Returns what must be in the namespace before the RayJob, the same for every run: how its workers claim interfaces.

    It is a template of resource.k8s.io/v1, which Kubernetes serves from 1.34 on.
    """
    needs = order.workload.needs
    if not isinstance(needs, Ray) or not needs.network_devices:
        return []
    request = {"deviceClassName": "netdev.google.com", "allocationMode": "ExactCount", "count": needs.network_devices}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": pods.claim_name(needs.network_devices)},
            "spec": {"spec": {"devices": {"requests": [{"name": "req-netdev", "exactly": request}]}}},
        }
    ]


def _ray_cluster(order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> RayCluster:
    needs = order.workload.needs
    assert isinstance(needs, Cpu | Ray), "what drives slices without Ray is no RayJob"
    ray = needs if isinstance(needs, Ray) else None
    machine = needs.head if isinstance(needs, Ray) else needs
    # no work of Ray's on the head: it has the command to run
    head = Head(ray_start_params={"num-cpus": "0"}, template=pods.head(order, cluster, machine, ray))
    workers = [_workers(order, cluster, tpu, ray)] if ray else None
    return RayCluster(ray_version=RAY_VERSION, head_group_spec=head, worker_group_specs=workers)


def _workers(order: Order, cluster: ClusterConfig, tpu: TpuConfig | None, ray: Ray) -> Workers:
    """KubeRay keeps `replicas` of them alive and makes new pods for lost ones; `least` only says what may be missing."""
    resources, parameters = None, {}
    if ray.slice:
        each = pods.devices_per_chip(ray.slice)
        if each > 1:  # only then, since KubeRay before 1.5 does not know the field
            resources = {"TPU": str(ray.slice.chips_per_host * each)}
        parameters = {"metrics-export-port": "8082"}  # as the tutorial: 8080, KubeRay's own, and 8081 are MEGASCALE's
    return Workers(
        group_name=_GROUP,
        replicas=ray.replicas,
        min_replicas=ray.least,
        max_replicas=ray.replicas,
        num_of_hosts=ray.slice.hosts if ray.slice else 1,
        ray_start_params=parameters,
        resources=resources,
        template=pods.worker(order, cluster, tpu, ray),
    )
