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
      steady: roles of pods without which nothing works, so that a container which ends again and again ends the work.
      replaced: roles of pods that are made anew when they are lost, while the work may go on.
    """

    title: str
    resource: Resource
    steady: frozenset[str]
    replaced: frozenset[str]

    def manifest(self, order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> Manifest:
        """The object to create for an order."""

    def companions(self, order: Order) -> list[tuple[Resource, Manifest]]:
        """What must be in the namespace before the object, the same for every run: made where missing, never removed."""

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
    steady = frozenset({names.MAIN_JOB, names.HEAD_JOB})
    replaced: frozenset[str] = frozenset()

    def manifest(self, order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> Manifest:
        """See Kind."""
        from components.workloads import jobset

        return jobset.manifest(order, cluster, tpu)

    def companions(self, order: Order) -> list[tuple[Resource, Manifest]]:
        """See Kind."""
        return []

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


class RayJob:
    """ray.io/v1 of KubeRay, from version 1.4: states of ray-operator/apis/ray/v1/rayjob_types.go."""

    title = "RayJob"
    resource = Resource("ray.io", "v1", "rayjobs")
    steady = frozenset({"head", "submitter"})
    replaced = frozenset({"worker"})  # Ray Train goes on without, or begins again with what is there

    def manifest(self, order: Order, cluster: ClusterConfig, tpu: TpuConfig | None) -> Manifest:
        """See Kind."""
        from components.workloads import rayjob

        return rayjob.manifest(order, cluster, tpu)

    def companions(self, order: Order) -> list[tuple[Resource, Manifest]]:
        """See Kind."""
        from components.workloads import rayjob

        return [(_CLAIM_TEMPLATES, template) for template in rayjob.companions(order)]

    def pods_of(self, name: str) -> str:
        """See Kind. The pods of the Ray cluster and the submitter's have no label of KubeRay in common."""
        return f"{names.OBJECT}={name}"

    def seat(self, pod: Manifest) -> Seat:
        """See Kind. Which worker a pod replaces is not told; Ray sends what workers print to the command's log."""
        role = pod["metadata"]["labels"].get("ray.io/node-type", "submitter")
        if role == "worker":
            return Seat(role=role, number=pod["metadata"]["name"], first=False)
        return Seat(role=role, number="0", first=True)

    def main_role(self, manifest: Manifest) -> str:
        """See Kind. The command runs on the head; the submitter's pod shows its log, and outlives the Ray cluster."""
        return "submitter"

    def pods_wanted(self, manifest: Manifest) -> int:
        """See Kind. Besides the workers the head and the submitter, which comes when all others are there."""
        groups = manifest["spec"]["rayClusterSpec"].get("workerGroupSpecs", [])
        return 2 + sum(int(group["replicas"]) * int(group["numOfHosts"]) for group in groups)

    def parts(self, manifest: Manifest) -> list[str]:
        """See Kind. The submitter's Job has the name of the RayJob."""
        name = manifest.get("status", {}).get("rayClusterName", "")
        return [name] if name else []

    def suspended(self, manifest: Manifest) -> bool:
        """See Kind."""
        return bool(manifest["spec"].get("suspend"))

    def end(self, manifest: Manifest) -> End | None:
        """See Kind. A job that was stopped is Complete too; Failed is no end while KubeRay will try again, for then it
        becomes Retrying in the same update.
        """
        status = manifest.get("status", {})
        state, job = status.get("jobDeploymentStatus", ""), status.get("jobStatus", "")
        if state not in ("Complete", "Failed", "ValidationFailed"):
            return None
        said = ": ".join(filter(None, (status.get("reason") or job, status.get("message", ""))))
        return End(succeeded=(state, job) == ("Complete", "SUCCEEDED"), reason=said or state)


_CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates")
KINDS: dict[str, Kind] = {"jobset": JobSet(), "rayjob": RayJob()}
