"""What all pods share, and the container in which the command runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from components.config import ClusterConfig
from components.workloads import names
from components.workloads.images import image
from components.workloads.jobset import env, slices
from components.workloads.jobset.models import (
    Container,
    EnvVar,
    JobSpec,
    ObjectMeta,
    PodFailurePolicy,
    PodSpec,
    PodTemplate,
    Resources,
)
from components.workloads.workload import ORDER_VARIABLE, Order, Workload

# From SIGTERM to SIGKILL: time for the pod to say how it ended.
_GRACE_S = 30
# The pod itself ends a command at its deadline and says so. Kubernetes' own deadline is for a pod that cannot, and its
# clock starts with the Job: an hour more is for bringing up the machines, pulling an image of 10 GB, fetching the
# inputs and storing the outputs.
_OUTSIDE_THE_COMMAND_S = 3600


def command_container(
    order: Order, cluster: ClusterConfig, machine: Iterable[EnvVar], resources: Resources
) -> Container:
    """The container that carries out the order; `machine` is the environment that its kind of pod needs.

    The image pull policy is left to Kubernetes: it fetches an image again only where the tag is latest or missing.
    """
    order_variable = {ORDER_VARIABLE: order.model_dump_json()}
    return Container(
        name=names.COMMAND_CONTAINER,
        image=image(order.workload.image, cluster),
        command=["python3", "-m", "components.workloads.inside"],
        env=env.merged(machine, env.texts(cluster.env), _token(order.workload, cluster), env.texts(order_variable)),
        resources=resources,
    )


def template(
    workload: Workload, cluster: ClusterConfig, spec: PodSpec, annotations: Mapping[str, str] | None = None
) -> PodTemplate:
    """Completes `spec` with what all pods of a workload share."""
    spec.service_account_name = cluster.service_account
    spec.priority_class_name = cluster.priority
    spec.termination_grace_period_seconds = _GRACE_S
    metadata = ObjectMeta(labels=names.labels(workload), annotations=dict(annotations) if annotations else None)
    return PodTemplate(metadata=metadata, spec=spec)


def job(
    workload: Workload,
    pod: PodTemplate,
    *,
    hosts: int = 1,
    backoff_limit: int = 0,
    pod_failure_policy: PodFailurePolicy | None = None,
) -> JobSpec:
    """A Job with one pod for each host, `backoff_limit` of which may fail in all."""
    return JobSpec(
        completion_mode="Indexed",
        parallelism=hosts,
        completions=hosts,
        backoff_limit=backoff_limit,
        active_deadline_seconds=active_deadline_s(workload),
        pod_failure_policy=pod_failure_policy,
        template=pod,
    )


def active_deadline_s(workload: Workload) -> int:
    """Seconds after which the cluster ends a workload whose pod could not."""
    return math.ceil(workload.deadline_s) + _OUTSIDE_THE_COMMAND_S


def cpu_node_selector(cluster: ClusterConfig) -> dict[str, str] | None:
    """The node pool for pods that need no chips."""
    return {slices.NODE_POOL: cluster.cpu_pool} if cluster.cpu_pool else None


def _token(workload: Workload, cluster: ClusterConfig) -> list[EnvVar]:
    """The Hugging Face token, for what reads from the hub, and for MaxText, which asks for one in any case."""
    wanted = workload.needs_hub or workload.image == "training"
    return [env.of_secret("HF_TOKEN", cluster.hf_secret)] if cluster.hf_secret and wanted else []
