"""Workloads without Pathways: one pod on a CPU machine, or every host of the slices running the command."""

from __future__ import annotations

from components.config import ClusterConfig, TpuConfig
from components.workloads import names
from components.workloads.amounts import cores, gigabytes
from components.workloads.jobset import env, pods, slices, volumes
from components.workloads.jobset.models import (
    FailurePolicy,
    JobSetSpec,
    JobTemplate,
    PodSpec,
    ReplicatedJob,
    Resources,
    quantities,
)
from components.workloads.workload import Cpu, Order, Tpu


def on_cpu(order: Order, cluster: ClusterConfig, needs: Cpu) -> JobSetSpec:
    """One pod, with a disk of its own below /tmp, where the pod puts inputs and outputs."""
    spec = PodSpec(
        restart_policy="Never",
        node_selector=pods.cpu_node_selector(cluster),
        containers=[pods.command_container(order, cluster, [], _cpu_resources(needs, cluster))],
    )
    volumes.add_scratch(spec, needs.disk_gb)
    job = pods.job(order.workload, pods.template(order.workload, cluster, spec))
    return JobSetSpec(
        failure_policy=FailurePolicy(max_restarts=0),
        replicated_jobs=[ReplicatedJob(name=names.MAIN_JOB, replicas=1, template=JobTemplate(spec=job))],
    )


def on_slices(order: Order, cluster: ClusterConfig, tpu: TpuConfig, needs: Tpu) -> JobSetSpec:
    """A Job for each slice and a pod for each host.

    GKE's webhook tells JAX on every host its place (TPU_WORKER_*, MEGASCALE_*). The host network is what cluster-toolkit
    gives such pods (pkg/orchestrator/gke/templates/jobset.tmpl).
    """
    slice_ = needs.slice
    place = [env.of_label(names.SLICE_VARIABLE, "jobset.sigs.k8s.io/job-index")]
    spec = PodSpec(
        restart_policy="Never",
        host_network=True,
        dns_policy="ClusterFirstWithHostNet",
        node_selector=slices.node_selector(slice_, tpu),
        affinity=slices.affinity(tpu),
        tolerations=slices.tolerations(tpu),
        containers=[pods.command_container(order, cluster, place, slices.host_resources(slice_))],
    )
    volumes.add_shared_memory(spec)
    job = pods.job(
        order.workload,
        pods.template(order.workload, cluster, spec, slices.topology_annotation(slice_)),
        hosts=slice_.hosts,
        pod_failure_policy=slices.pod_failure_policy(tpu),
    )
    return JobSetSpec(
        failure_policy=FailurePolicy(max_restarts=0, rules=slices.failure_rules(tpu)),
        replicated_jobs=[ReplicatedJob(name=names.MAIN_JOB, replicas=needs.slices, template=JobTemplate(spec=job))],
    )


def _cpu_resources(needs: Cpu, cluster: ClusterConfig) -> Resources:
    memory = gigabytes(needs.memory_gb)
    requests = {"cpu": cores(needs.cores), "memory": memory}
    # Kueue admits nothing that asks for a resource that its queue does not cover, and queues seldom cover disks
    if not cluster.queue:
        requests["ephemeral-storage"] = gigabytes(needs.disk_gb)
    return Resources(requests=quantities(requests), limits=quantities({"memory": memory}))
