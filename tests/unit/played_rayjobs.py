"""Plays KubeRay, the scheduler and kubelets for one RayJob of a `KubernetesApi`, step by step.

Labels, names and states are those of KubeRay's source (rayjob_controller.go, common/pod.go, common/job.go of 1.6).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from kubernetes_api import CORE, KubernetesApi, Manifest, now

from components import storage
from components.workloads.workload import ORDER_VARIABLE, OUTCOME, Order, PodOutcome

RAYJOBS = "/apis/ray.io/v1/rayjobs"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaimtemplates"
PODS = f"{CORE}/pods"


class PlayedRayJob:
    """A RayJob that was created, as the cluster goes on with it. Every step is one that KubeRay takes."""

    def __init__(self, api: KubernetesApi, manifest: Manifest) -> None:
        self.api = api
        self.manifest = manifest
        self.name = manifest["metadata"]["name"]
        (head,) = manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
        (order,) = [variable["value"] for variable in head["env"] if variable["name"] == ORDER_VARIABLE]
        self.order = Order.model_validate(json.loads(order.replace("$$", "$")), strict=False)
        self._ray_cluster = f"{self.name}-abcde"

    def runs(self, *lines: str) -> None:
        """From its pods to a job whose log the submitter shows."""
        self.makes_ray_cluster()
        self.starts()
        self.submits()
        self.writes(*lines)

    def makes_ray_cluster(self) -> None:
        """Head and workers, which nobody has scheduled yet."""
        self.is_in("Initializing", rayClusterName=self._ray_cluster)
        cluster = self.manifest["spec"]["rayClusterSpec"]
        self._makes_pod("head", cluster["headGroupSpec"]["template"], {"ray.io/node-type": "head"})
        for group in cluster.get("workerGroupSpecs", []):
            for _ in range(group["replicas"] * group["numOfHosts"]):
                self._makes_pod("worker", group["template"], {"ray.io/node-type": "worker"})

    def submits(self) -> None:
        """All pods of the Ray cluster are ready: the submitter hands in the job."""
        labels = {"job-name": self.name}
        self._makes_pod("submitter", self.manifest["spec"]["submitterPodTemplate"], labels)
        self.starts("submitter")
        self.is_in("Running", jobStatus="RUNNING")

    def starts(self, role: str = "") -> None:
        """Its pods, or those of a role, run."""
        self._pods(lambda pod: _states(pod, "Running", {"running": {"startedAt": now()}}), role)

    def waits(self, reason: str, message: str, role: str = "", **report: Any) -> None:
        """Containers cannot start."""
        state = {"waiting": {"reason": reason, "message": message}}
        self._pods(lambda pod: _states(pod, "Pending", state, **report), role)

    def cannot_schedule(self, message: str, role: str) -> None:
        """The scheduler finds no node."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._pods(lambda pod: pod["status"].update(conditions=[condition]), role)

    def writes(self, *lines: str, role: str = "submitter") -> None:
        """The newest pod of a role writes lines."""
        pod = self.pods(role)[-1]
        self.api.write(pod["metadata"]["name"], pod["spec"]["containers"][0]["name"], *lines)

    def succeeds(self) -> None:
        """The command ends well."""
        self.accounts(succeeded=True)
        self.ends("Complete", "SUCCEEDED", message="Job finished successfully.")

    def fails(self, reason: str = "") -> None:
        """The command fails; the pod gives an account where `reason` is said."""
        if reason:
            self.accounts(succeeded=False, reason=reason)
        self.ends("Failed", "FAILED", exit_code=1, reason="AppFailed", message="Job entrypoint command failed")

    def accounts(self, *, succeeded: bool, reason: str = "") -> None:
        """The head writes what it says of its end."""
        account = PodOutcome(name=self.name, succeeded=succeeded, seconds=1.5, reason=reason)
        storage.write_text(storage.join(self.order.directory, OUTCOME), account.model_dump_json())

    def ends(self, state: str, job: str, exit_code: int = 0, **status: str) -> None:
        """The submitter ends, then the RayJob, and KubeRay deletes the Ray cluster."""
        phase = "Failed" if exit_code else "Succeeded"
        why = "Error" if exit_code else "Completed"
        ended = {"exitCode": exit_code, "reason": why, "startedAt": now()}
        self._pods(lambda pod: _states(pod, phase, {"terminated": ended}), "submitter")
        for pod in self.pods("submitter"):
            self.api.write(pod["metadata"]["name"], pod["spec"]["containers"][0]["name"], end=True)
        self.is_in(state, jobStatus=job, **status)
        for pod in [*self.pods("head"), *self.pods("worker")]:
            self.api.drop(PODS, pod["metadata"]["name"])

    def is_in(self, state: str, **status: str) -> None:
        """KubeRay sets the deployment status."""
        new = {"jobDeploymentStatus": state, **status}
        self.api.change(RAYJOBS, self.name, lambda job: job.setdefault("status", {}).update(new))

    def is_gone(self) -> None:
        """Somebody deletes it."""
        self.api.drop(RAYJOBS, self.name)

    def loses(self, role: str, deletion: str) -> None:
        """A pod of a role should be gone, and its node does not say that it is."""
        name = self.pods(role)[-1]["metadata"]["name"]
        self.api.change(PODS, name, lambda pod: pod["metadata"].update(deletionTimestamp=deletion))

    def pods(self, role: str = "") -> list[Manifest]:
        """Its pods, or those of a role."""
        found = [pod for pod in self.api.all(PODS) if pod["metadata"]["name"].startswith(self.name + "-")]
        return [pod for pod in found if f"-{role or ''}" in pod["metadata"]["name"]]

    def _makes_pod(self, role: str, template: Manifest, labels: dict[str, str]) -> None:
        name = f"{self._ray_cluster}-{role}-{uuid.uuid4().hex[:5]}"
        meta = {"name": name, "labels": {**template["metadata"]["labels"], **labels}}
        self.api.put(PODS, {"metadata": meta, "spec": template["spec"], "status": {"phase": "Pending"}})

    def _pods(self, change: Callable[[Manifest], object], role: str) -> None:
        for pod in self.pods(role):
            self.api.change(PODS, pod["metadata"]["name"], change)


def _states(pod: Manifest, phase: str, state: Manifest, **report: Any) -> None:
    reports = [
        {"name": container["name"], "restartCount": 0, "state": state, **report}
        for container in pod["spec"]["containers"]
    ]
    pod["status"] |= {"phase": phase, "conditions": [], "containerStatuses": reports}
