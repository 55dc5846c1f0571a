"""Plays the JobSet controller, the scheduler, kubelets and Kueue for one JobSet of a `KubernetesApi`, step by step."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes_api import CORE, JOBSETS, QUEUE, KubernetesApi, Manifest, Request, now

from components import storage
from components.workloads.workload import ORDER_VARIABLE, OUTCOME, Order, PodOutcome

PODS = f"{CORE}/pods"


class PlayedJobSet:
    """A JobSet that was created, as the cluster goes on with it. Every step is one that a real cluster takes."""

    def __init__(self, api: KubernetesApi, manifest: Manifest) -> None:
        self.api = api
        self.manifest = manifest
        self.name = manifest["metadata"]["name"]
        self.order = _order(manifest)

    def runs(self, *lines: str) -> None:
        """From its pods to running containers; the command writes `lines`."""
        self.makes_pods()
        self.starts()
        self.writes(*lines)

    def succeeds(self) -> None:
        """The command ends well: the pod gives its account and the JobSet is Completed."""
        self.accounts(succeeded=True)
        self.ends()
        self.is_over("Completed", "AllJobsCompleted", "jobset completed successfully")

    def fails(self, reason: str = "", exit_code: int = 1) -> None:
        """The command fails; the pod gives an account where `reason` is said."""
        if reason:
            self.accounts(succeeded=False, reason=reason)
        self.ends(exit_code, "Failed")
        self.has_failed()

    def has_failed(self) -> None:
        """The JobSet controller gives it up."""
        self.is_over(
            "Failed", "FailedJobs", f"jobset failed due to one or more job failures (first failed job: {self.name})"
        )

    def makes_pods(self, *, only: str = "") -> None:
        """Its pods, which nobody has scheduled yet."""
        for job in self.manifest["spec"]["replicatedJobs"]:
            for index in range(job["replicas"]):
                for host in range(job["template"]["spec"]["parallelism"]):
                    if not only or job["name"] == only:
                        self._makes_pod(job, index, host)

    def cannot_schedule(self, message: str, role: str = "") -> None:
        """The scheduler finds no node."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._pods(lambda pod: pod["status"].update(conditions=[condition]), role)

    def has_event(self, about: str, reason: str, message: str, *, warning: bool = True) -> None:
        """An event about an object."""
        self.api.put(
            f"{CORE}/events",
            {
                "metadata": {"name": f"{about}.{uuid.uuid4().hex[:8]}"},
                "involvedObject": {"name": about},
                "type": "Warning" if warning else "Normal",
                "reason": reason,
                "message": message,
                "lastTimestamp": now(),
            },
        )

    def waits(self, reason: str, message: str, role: str = "", container: str = "", **report: Any) -> None:
        """The containers of its pods, or one of them, cannot start."""
        state = {"waiting": {"reason": reason, "message": message}}
        self._pods(lambda pod: _states(pod, "Pending", state, container, **report), role)

    def starts(self, role: str = "") -> None:
        """Its pods run."""
        self._pods(lambda pod: _states(pod, "Running", {"running": {"startedAt": now()}}), role)

    def writes(self, *lines: str, role: str = "", host: int = 0, container: str = "") -> None:
        """The command (or another container, on another host of the first slice) writes lines."""
        pod = self._pod(role or self._main, host)
        name = container or pod["spec"]["containers"][0]["name"]
        self.api.write(pod["metadata"]["name"], name, *lines)

    def accounts(self, *, succeeded: bool, reason: str = "", name: str = "") -> None:
        """The pod writes what it says of its end."""
        account = PodOutcome(name=name or self.name, succeeded=succeeded, seconds=1.5, reason=reason)
        storage.write_text(storage.join(self.order.directory, OUTCOME), account.model_dump_json())

    def ends(self, exit_code: int = 0, phase: str = "Succeeded", *, container: str = "", reason: str = "") -> None:
        """The containers of its pods, or one of them, end."""
        facts = {"exitCode": exit_code, "reason": reason or ("Error" if exit_code else "Completed"), "startedAt": now()}
        facts["finishedAt"] = now()
        self._pods(lambda pod: _states(pod, phase, {"terminated": facts}, container))
        for pod in self.pods():
            for ended in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
                self.api.write(pod["metadata"]["name"], ended["name"], end=True)

    def host_fails(self, role: str, host: int, *, again: bool = False) -> None:
        """The container of one pod fails, for good or to be started `again` by kubelet."""
        pod = self._pod(role, host)["metadata"]["name"]
        (container,) = self._pod(role, host)["spec"]["containers"]
        facts = {"terminated": {"exitCode": 134, "reason": "Error", "startedAt": now(), "finishedAt": now()}}
        running, report = {"running": {"startedAt": now()}}, {"lastState": facts, "restartCount": 1}
        if again:
            self.api.begin_anew(pod, container["name"])
            self.api.change(PODS, pod, lambda pod: _states(pod, "Running", running, **report))
        else:
            self.api.write(pod, container["name"], end=True)
            self.api.change(PODS, pod, lambda pod: _states(pod, "Failed", facts))

    def is_disrupted(self, reason: str, message: str) -> None:
        """The cluster takes its pods away."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        self._pods(lambda pod: pod["status"].update(conditions=[condition]))

    def loses_its_pods(self) -> None:
        """Its pods are deleted, as evicted ones are, and those of a JobSet that fails."""
        for pod in self.pods():
            self.api.drop(PODS, pod["metadata"]["name"])

    def is_evicted(self, message: str) -> None:
        """Kubelet evicts its pods; one before 1.26 sets no condition."""
        self._pods(lambda pod: pod["status"].update(reason="Evicted", message=message))

    def is_deleted_for(self, seconds: float) -> None:
        """Its pods should have been gone for so long, but kubelet does not say that they are."""
        since = datetime.now(UTC) - timedelta(seconds=seconds)
        self._pods(lambda pod: pod["metadata"].update(deletionTimestamp=since.strftime("%Y-%m-%dT%H:%M:%SZ")))

    def is_over(self, state: str, reason: str, message: str) -> None:
        """The JobSet controller sets the terminal state."""
        # an older condition that no longer holds stands last, as one may
        conditions = [
            {"type": state, "status": "True", "reason": reason, "message": message},
            {"type": "Suspended", "status": "False", "reason": "ResumeJobs", "message": "jobset is resumed"},
        ]
        self._itself(lambda jobset: jobset.update(status={"terminalState": state, "conditions": conditions}))

    def is_queued(self, message: str, evicted: str = "") -> None:
        """Kueue suspends it; with `evicted`, the reason of an eviction, after it had run."""
        self.api.resources.add(f"{QUEUE}/workloads")
        self.loses_its_pods()
        conditions = [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}]
        if evicted:
            conditions.append({"type": "Evicted", "status": "True", "reason": "Preempted", "message": evicted})
        entry = {
            "metadata": {
                "name": f"jobset-{self.name}",
                "labels": {"kueue.x-k8s.io/job-uid": self.manifest["metadata"]["uid"]},
            },
            "status": {"conditions": conditions},
        }
        self.api.put(f"{QUEUE}/workloads", entry)
        self._itself(lambda jobset: jobset["spec"].update(suspend=True))

    def is_admitted(self) -> None:
        """Kueue lets it go on."""
        self._itself(lambda jobset: jobset["spec"].update(suspend=False))

    def is_gone(self) -> None:
        """Somebody deletes it."""
        self.api.drop(f"{JOBSETS}/jobsets", self.name)

    def is_seen(self) -> None:
        """Waits until a launcher has looked at it: a look that began after this moment is over."""
        looks = len(self._looks())
        while len(self._looks()) < looks + 2 and self.api.all(f"{JOBSETS}/jobsets"):
            time.sleep(0.02)

    def pods(self) -> list[Manifest]:
        """Its pods."""
        return [pod for pod in self.api.all(PODS) if pod["metadata"]["name"].startswith(self.name + "-")]

    @property
    def _main(self) -> str:
        names = [job["name"] for job in self.manifest["spec"]["replicatedJobs"]]
        return "pathways-head" if "pathways-head" in names else names[0]

    def _pod(self, role: str, host: int) -> Manifest:
        """The pod of a host of the first slice."""
        place = {
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "jobset.sigs.k8s.io/job-index": "0",
            "batch.kubernetes.io/job-completion-index": str(host),
        }
        return next(pod for pod in self.pods() if place.items() <= pod["metadata"]["labels"].items())

    def _looks(self) -> list[Request]:
        return self.api.made("GET", f"/jobsets/{self.name}$")

    def _makes_pod(self, job: Manifest, index: int, host: int) -> None:
        template = job["template"]["spec"]["template"]
        labels = {
            "jobset.sigs.k8s.io/jobset-name": self.name,
            "jobset.sigs.k8s.io/replicatedjob-name": job["name"],
            "jobset.sigs.k8s.io/job-index": str(index),
            "batch.kubernetes.io/job-completion-index": str(host),
        }
        name = f"{self.name}-{job['name']}-{index}-{host}-{uuid.uuid4().hex[:5]}"
        meta = {"name": name, "labels": {**template.get("metadata", {}).get("labels", {}), **labels}}
        self.api.put(PODS, {"metadata": meta, "spec": template["spec"], "status": {"phase": "Pending"}})

    def _pods(self, change: Callable[[Manifest], object], role: str = "") -> None:
        for pod in self.pods():
            if role in ("", pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]):
                self.api.change(PODS, pod["metadata"]["name"], change)

    def _itself(self, change: Callable[[Manifest], object]) -> None:
        self.api.change(f"{JOBSETS}/jobsets", self.name, change)


def _states(pod: Manifest, phase: str, state: Manifest, only: str = "", **report: Any) -> None:
    """Puts the containers of a pod into a state; with `only` one of them, and the others stay."""
    status = pod["status"]
    status |= {"phase": phase, "conditions": []}
    for kind, reports in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
        before = {entry["name"]: entry for entry in status.get(reports, [])}
        status[reports] = [
            {"name": name, "restartCount": 0, "state": state, **report} if only in ("", name) else before[name]
            for name in (container["name"] for container in pod["spec"].get(kind, []))
        ]


def _order(manifest: Manifest) -> Order:
    """What the JobSet's pod is told to do."""
    for job in manifest["spec"]["replicatedJobs"]:
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            for variable in container.get("env", []):
                if variable["name"] == ORDER_VARIABLE:
                    return Order.model_validate(json.loads(variable["value"]), strict=False)
    raise AssertionError("no pod of the JobSet has an order")
