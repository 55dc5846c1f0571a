"""What Google's API knows of a GKE cluster and Kubernetes does not: node pools that have no nodes at the moment.

In: the full name of a cluster, projects/P/locations/L/clusters/C. Out: a `Gke`. What cannot be asked is a UserError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.errors import UserError
from components.workloads import gke

if TYPE_CHECKING:
    from google.cloud.container_v1 import NodePool


@dataclass(frozen=True)
class Pool:
    """A node pool. `most`: nodes that it may grow to in all its zones, 0 where it does not grow by itself."""

    name: str
    machine_type: str
    topology: str
    most: int
    service_account: str


@dataclass(frozen=True)
class Gke:
    """A cluster. `makes_pools`: it adds node pools by itself (Autopilot, or node auto-provisioning)."""

    name: str
    makes_pools: bool
    pools: tuple[Pool, ...]

    def flags(self) -> str:
        """The flags by which gcloud finds the cluster."""
        _, project, _, location, _, cluster = self.name.split("/")
        return f"--cluster={cluster} --location={location} --project={project}"


def describe(name: str) -> Gke:
    """Asks Google's API for the cluster `name`, with the default credentials."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        credentials, _ = google.auth.default(scopes=gke.SCOPES)
    except DefaultCredentialsError as error:
        cure = "run `gcloud auth application-default login` or attach a service account"
        raise UserError(f"No Google credentials to look up {name}: {cure}.") from error
    return read(name, gke._describe(name, credentials))


def read(name: str, cluster: Any) -> Gke:
    """The `Gke` of a `google.cloud.container_v1.Cluster`."""
    return Gke(
        name=name,
        makes_pools=cluster.autopilot.enabled or cluster.autoscaling.enable_node_autoprovisioning,
        pools=tuple(_pool(pool, max(1, len(cluster.locations))) for pool in cluster.node_pools),
    )


def region_of(location: str) -> str:
    """The region of a region or zone: us-east5 of us-east5-b."""
    return "-".join(location.split("-")[:2])


def _pool(pool: NodePool, zones_of_cluster: int) -> Pool:
    zones, scaling = len(pool.locations) or zones_of_cluster, pool.autoscaling
    return Pool(
        name=pool.name,
        machine_type=pool.config.machine_type,
        topology=pool.placement_policy.tpu_topology,
        most=max(scaling.total_max_node_count, scaling.max_node_count * zones) if scaling.enabled else 0,
        service_account=pool.config.service_account,
    )
