"""All checks: the name under which a finding is printed, and the function that looks."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.doctor import bucket, cluster, hub, jobset, machines, nodes, queue, ray, rights, slices, weights
from pipelines.doctor.case import Look

# Of every configuration.
ANYWHERE: Mapping[str, Look] = {
    "output": weights.free,
    "inputs": weights.usable,
    "hub": hub.readable,
    "weights": weights.converted,
}
# Of one whose workloads are pods, without asking the cluster.
PODS: Mapping[str, Look] = {
    "slice": slices.divided,
    "hbm": slices.holds_weights,
    "machines": machines.large_enough,
    "images": cluster.images,
    "bucket": bucket.permissions,
}
# Whether there is a cluster to ask; without it the others have nothing to say.
REACHABLE = "api"
CLUSTER: Mapping[str, Look] = {
    REACHABLE: cluster.reachable,
    "gke": cluster.described,
    "namespace": cluster.namespace,
    "rights": rights.allowed,
    "account": cluster.service_account,
    "priority": cluster.priority,
    "secret": cluster.secret,
    "queue": queue.admits,
    "nodes": nodes.for_pods,
    "region": bucket.region,
    "identity": bucket.identity,
}
# By the engine, after those of the cluster.
ENGINES: Mapping[str, Mapping[str, Look]] = {
    "process": {},
    "jobset": {"jobset": jobset.served, "dry-run": jobset.accepted},
    "rayjob": {
        "kuberay": ray.served,
        "resources": ray.group_resources,
        "tpu-webhook": ray.tpu_webhook,
        "dranet": ray.dranet,
        "dry-run": jobset.accepted,
    },
}
# What takes seconds, and is asked before every run.
QUICK = ("slice", "bucket", REACHABLE, "namespace", "rights", "jobset", "kuberay", "account", "secret")


def of(engine: str) -> dict[str, Look]:
    """The checks of a configuration with this engine, in their order."""
    if engine == "process":
        return dict(ANYWHERE)
    return {**ANYWHERE, **PODS, **CLUSTER, **ENGINES[engine]}
