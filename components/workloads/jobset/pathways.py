"""Pathways: one head pod runs the command and drives all hosts of all slices through two servers beside it.

The head has the proxy, which JAX talks to, and the resource manager, which the workers register with; both are native
sidecars, so that the pod ends when the command does. The head must be up before the workers, and the JobSet succeeds
with the head. Ports, flags, amounts and environment are those that Google's cluster-toolkit gives
(pkg/orchestrator/gke/templates/pathways_jobset.tmpl), with the environment of the tutorials' commands.
"""

from __future__ import annotations

from components import storage
from components.config import ClusterConfig, TpuConfig
from components.workloads import names
from components.workloads.images import image
from components.workloads.jobset import env, pods, slices
from components.workloads.jobset.models import (
    Container,
    ContainerPort,
    Coordinator,
    EnvVar,
    FailurePolicy,
    JobSetSpec,
    JobTemplate,
    Network,
    ObjectMeta,
    PodSpec,
    ReplicatedJob,
    Resources,
    SecurityContext,
    StartupPolicy,
    SuccessPolicy,
    quantities,
)
from components.workloads.workload import Order, Tpu

_PROXY_PORT, _MANAGER_PORT, _WORKER_PORT = 29000, 29001, 29005
# cluster-toolkit's bound up to v1.96; its later one of 4000 burns chips on an error that stays
_RETRIES_PER_HOST = 4
# the label with the DNS name of the head
_HEAD = "jobset.sigs.k8s.io/coordinator"


def on_slices(order: Order, cluster: ClusterConfig, tpu: TpuConfig, needs: Tpu) -> JobSetSpec:
    """Head, then workers: a Job of workers for each slice."""
    return JobSetSpec(
        network=Network(enable_dns_hostnames=True, publish_not_ready_addresses=True),
        coordinator=Coordinator(replicated_job=names.HEAD_JOB, job_index=0, pod_index=0),
        # deprecated in favour of dependsOn; the JobSet 0.10.1 that the toolkit installs has both
        startup_policy=StartupPolicy(startup_policy_order="InOrder"),
        success_policy=SuccessPolicy(operator="All", target_replicated_jobs=[names.HEAD_JOB]),
        failure_policy=FailurePolicy(max_restarts=0, restart_strategy="Recreate", rules=slices.failure_rules(tpu)),
        replicated_jobs=[_head(order, cluster, tpu, needs), _workers(order, cluster, tpu, needs)],
    )


def _head(order: Order, cluster: ClusterConfig, tpu: TpuConfig, needs: Tpu) -> ReplicatedJob:
    command = pods.command_container(order, cluster, _command_env(tpu), _command_resources())
    command.security_context = SecurityContext(privileged=True)
    spec = PodSpec(
        restart_policy="Never",
        host_network=True,
        dns_policy="ClusterFirstWithHostNet",
        node_selector=pods.cpu_node_selector(cluster),
        init_containers=[_proxy(order, cluster, tpu), _manager(order, cluster, tpu, needs)],
        containers=[command],
    )
    job = pods.job(
        order.workload,
        pods.template(order.workload, cluster, spec),
        pod_failure_policy=slices.pod_failure_policy(tpu),
    )
    alone = ObjectMeta(annotations={slices.EXCLUSIVE: "kubernetes.io/hostname"})
    return ReplicatedJob(name=names.HEAD_JOB, replicas=1, template=JobTemplate(metadata=alone, spec=job))


def _workers(order: Order, cluster: ClusterConfig, tpu: TpuConfig, needs: Tpu) -> ReplicatedJob:
    slice_ = needs.slice
    spec = PodSpec(
        # a worker that fails is started again on its host, which keeps the slice
        restart_policy="OnFailure",
        host_network=True,
        dns_policy="ClusterFirstWithHostNet",
        node_selector=slices.node_selector(slice_, tpu),
        affinity=slices.affinity(tpu),
        tolerations=slices.tolerations(tpu),
        containers=[_worker(order, cluster, tpu, slices.host_resources(slice_))],
    )
    job = pods.job(
        order.workload,
        pods.template(order.workload, cluster, spec, slices.topology_annotation(slice_)),
        hosts=slice_.hosts,
        backoff_limit=slice_.hosts * _RETRIES_PER_HOST,
    )
    own_pool = ObjectMeta(annotations={slices.EXCLUSIVE: slices.NODE_POOL})
    return ReplicatedJob(
        name=names.WORKER_JOB, replicas=needs.slices, template=JobTemplate(metadata=own_pool, spec=job)
    )


def _proxy(order: Order, cluster: ClusterConfig, tpu: TpuConfig) -> Container:
    return Container(
        name=names.PROXY_CONTAINER,
        image=image("proxy", cluster),
        restart_policy="Always",
        ports=_ports(_PROXY_PORT),
        args=[f"--server_port={_PROXY_PORT}", _manager_address(), _scratch(order)],
        env=env.merged([_head_address()], _server_env(tpu)),
        resources=Resources(limits=quantities({"cpu": "16", "memory": "100Gi"})),
    )


def _manager(order: Order, cluster: ClusterConfig, tpu: TpuConfig, needs: Tpu) -> Container:
    own = [*_identity(), env.of_label("HOST_ADDRESS", _HEAD), *env.texts({"TPU_SKIP_MDS_QUERY": "true"})]
    return Container(
        name=names.MANAGER_CONTAINER,
        image=image("pathways", cluster),
        restart_policy="Always",
        ports=_ports(_MANAGER_PORT, 29002),
        args=[
            f"--server_port={_MANAGER_PORT}",
            _scratch(order),
            "--node_type=resource_manager",
            f"--instance_count={needs.slices}",
            f"--instance_type={needs.slice.pathways_type}",
        ],
        env=env.merged(own, _server_env(tpu)),
        resources=Resources(limits=quantities({"cpu": "8", "memory": "32Gi"})),
    )


def _worker(order: Order, cluster: ClusterConfig, tpu: TpuConfig, resources: Resources) -> Container:
    own = [
        *env.texts({"XCLOUD_ENVIRONMENT": "GCP", "MEGASCALE_GRPC_ENABLE_XOR_TRACER": "false"}),
        env.of_label("MEGASCALE_NUM_SLICES", "jobset.sigs.k8s.io/replicatedjob-replicas"),
        *_identity(),
        env.of_label("MEGASCALE_SLICE_ID", "jobset.sigs.k8s.io/job-index"),
        _head_address(),
        env.of_label("MEGASCALE_COORDINATOR_ADDRESS", _HEAD),
    ]
    return Container(
        name=names.WORKER_CONTAINER,
        image=image("pathways", cluster),
        ports=_ports(_WORKER_PORT, 29006, 8471, 8080),
        args=[f"--server_port={_WORKER_PORT}", _manager_address(), _scratch(order)],
        env=env.merged(own, _server_env(tpu)),
        resources=resources,
    )


def _command_env(tpu: TpuConfig) -> list[EnvVar]:
    return [
        _head_address(),
        *env.texts({"JAX_PLATFORMS": "proxy,cpu"}),
        EnvVar(name="JAX_BACKEND_TARGET", value=f"grpc://$(PATHWAYS_HEAD):{_PROXY_PORT}"),
        *env.texts(
            {"XCLOUD_ENVIRONMENT": "GCP", "ENABLE_PATHWAYS_PERSISTENCE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        ),
        env.of_address("VLLM_HOST_IP"),
        *env.texts({"PYTHONUNBUFFERED": "1"}),
        *_server_env(tpu),
    ]


def _server_env(tpu: TpuConfig) -> list[EnvVar]:
    """What all four programs of Pathways get; gRPC's own resolver fails on the cluster's DNS (flyte#2884)."""
    common = {"ABSL_FLAGS": "--pathways_pipe_unreachable_timeout=60s", "GRPC_DNS_RESOLVER": "native"}
    return env.texts({**common, **tpu.pathways_flags})


def _command_resources() -> Resources:
    requests, limits = {"cpu": "2", "memory": "8Gi"}, {"cpu": "24", "memory": "100Gi"}
    return Resources(requests=quantities(requests), limits=quantities(limits))


def _head_address() -> EnvVar:
    return env.of_label("PATHWAYS_HEAD", _HEAD)


def _identity() -> list[EnvVar]:
    return [
        env.of_annotation("JOBSET_NAME", "jobset.sigs.k8s.io/jobset-name"),
        env.of_annotation("REPLICATED_JOB_NAME", "jobset.sigs.k8s.io/replicatedjob-name"),
    ]


def _manager_address() -> str:
    return f"--resource_manager_address=$(PATHWAYS_HEAD):{_MANAGER_PORT}"


def _scratch(order: Order) -> str:
    return f"--gcs_scratch_location={env.literal(storage.join(order.directory, 'pathways'))}/"


def _ports(*numbers: int) -> list[ContainerPort]:
    return [ContainerPort(container_port=number) for number in numbers]
