"""The kinds of Kubernetes objects that can run a workload: what differs between them, and nothing else.

A kind knows where its objects live, how one is built from an order, which pods belong to it, and when it has ended. All
else (launching, watching, logs, phases, diagnosis) is the same for every kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from components.config import ClusterConfig, TpuConfig
from components.workloads import names
from components.workloads.api import Manifest
from components.workloads.objects import Resource
from components.workloads.workload import Order

_LABEL = "jobset.sigs.k8s.io/"
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class End:
    """How an object ended: `reason` is what its controller says, `restarts` how often it had begun anew."""

    succeeded: bool
    reason: str
    restarts: int = 0


@dataclass(frozen=True)
class Seat:
    """The place of a pod in its workload; a pod that replaces another has the same.

    Attributes:
      role: what it is there for.
      number: tells it from the others of its role.
      first: it is the first of its role, whose log is worth keeping.
    """

    role: str
    number: str
    first: bool


class Kind(Protocol):
    """A kind of object that runs a workload.

    Attributes:
      title: what a person calls it.
      resource: where its objects are.
    """

    title: str
    resource: Resource

    def manifest(self, order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> Manifest:
        """The object to create for an order."""

    def pods_of(self, name: str) -> str:
        """The label selector of the pods of the object `name`."""

    def seat(self, pod: Manifest) -> Seat:
        """The place that a pod has."""

    def main_role(self, manifest: Manifest) -> str:
        """The role whose first pod runs the workload's command."""

    def pods_wanted(self, manifest: Manifest) -> int:
        """How many pods the object has when all of them run."""

    def parts(self, manifest: Manifest) -> list[str]:
        """Names of the objects between this one and its pods: events about pods that cannot be made name them."""

    def suspended(self, manifest: Manifest) -> bool:
        """Whether it waits to be admitted."""

    def end(self, manifest: Manifest) -> End | None:
        """How it ended; None while it has not."""


class JobSet:
    """jobset.x-k8s.io/v1alpha2, from version 0.10.1: labels and states of api/jobset/v1alpha2/jobset_types.go."""

    title = "JobSet"
    resource = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")

    def manifest(self, order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> Manifest:
        """See Kind."""
        from components.workloads import jobset

        return jobset.manifest(order, cluster, tpu)

    def pods_of(self, name: str) -> str:
        """See Kind."""
        return f"{_LABEL}jobset-name={name}"

    def seat(self, pod: Manifest) -> Seat:
        """See Kind. The first pod of a role is host 0 of slice 0."""
        labels = pod["metadata"]["labels"]
        number = f"{labels[f'{_LABEL}job-index']}-{labels[_COMPLETION_INDEX]}"
        return Seat(role=labels[f"{_LABEL}replicatedjob-name"], number=number, first=number == "0-0")

    def main_role(self, manifest: Manifest) -> str:
        """See Kind."""
        jobs = [job["name"] for job in manifest["spec"]["replicatedJobs"]]
        return names.HEAD_JOB if names.HEAD_JOB in jobs else names.MAIN_JOB

    def pods_wanted(self, manifest: Manifest) -> int:
        """See Kind."""
        jobs = manifest["spec"]["replicatedJobs"]
        return sum(job["replicas"] * job["template"]["spec"]["parallelism"] for job in jobs)

    def parts(self, manifest: Manifest) -> list[str]:
        """See Kind."""
        return [f"{manifest['metadata']['name']}-{job['name']}-0" for job in manifest["spec"]["replicatedJobs"]]

    def suspended(self, manifest: Manifest) -> bool:
        """See Kind."""
        return bool(manifest["spec"].get("suspend"))

    def end(self, manifest: Manifest) -> End | None:
        """See Kind. `terminalState` decides; a condition says why."""
        status = manifest.get("status", {})
        state: Literal["Completed", "Failed", ""] = status.get("terminalState", "")
        if not state:
            return None
        said = [c for c in status.get("conditions", []) if c["type"] == state and c["status"] == "True"]
        reason = "; ".join(f"{condition['reason']}: {condition['message']}" for condition in said)
        return End(succeeded=state == "Completed", reason=reason or state, restarts=status.get("restarts", 0))


KINDS: dict[str, Kind] = {"jobset": JobSet()}
