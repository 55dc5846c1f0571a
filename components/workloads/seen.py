"""What a cluster shows of one workload at a moment: its object, pods, events, and its place in the queue.

In: raw objects as the API server gives them. Out: a `Snapshot` that phases.py and faults.py read; nothing here talks
to a cluster except `look`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from components.workloads.api import Manifest
from components.workloads.kinds import Kind, Seat
from components.workloads.objects import EVENTS, PODS, Objects, Resource

TPU = "google.com/tpu"
# a Kueue before 0.15 has only the second
_QUEUE = (Resource("kueue.x-k8s.io", "v1beta2", "workloads"), Resource("kueue.x-k8s.io", "v1beta1", "workloads"))
_EXPLAINED_PODS = 4


@dataclass(frozen=True)
class Container:
    """A container of a pod.

    Attributes:
      sidecar: it runs beside the pod's own containers (an init container that is restarted always).
      state, reason, message: waiting, running or terminated, and why, in the words of Kubernetes.
      exit_code: of a terminated one.
      started, ended: when it began to run, and when its run ended, that before this one where it was restarted; UTC, ISO 8601,
        or an empty text.
      last_reason, last_exit_code: how its run before this one ended, where it was restarted.
    """

    name: str
    image: str
    sidecar: bool = False
    state: str = "waiting"
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    started: str = ""
    ended: str = ""
    restarts: int = 0
    last_reason: str = ""
    last_exit_code: int = 0


@dataclass(frozen=True)
class Pod:
    """A pod.

    Attributes:
      seat: its place in the workload.
      main: it runs the workload's command, in its first container that is no sidecar.
      tpu: it wants TPU chips.
      phase, reason, message: in the words of Kubernetes.
      unscheduled: why the scheduler finds no node, or an empty text.
      disrupted: why the cluster took the pod away (preempted, evicted, node gone), or an empty text.
      deleted: when it should be gone, or an empty text.
    """

    name: str
    uid: str
    seat: Seat
    main: bool
    tpu: bool
    created: str
    phase: str
    reason: str
    message: str
    unscheduled: str
    disrupted: str
    deleted: str
    containers: tuple[Container, ...]

    @property
    def command(self) -> Container:
        """The container that the pod is there for."""
        return next(container for container in self.containers if not container.sidecar)

    @property
    def harmed(self) -> bool:
        """Whether something was done to it that can be why the workload fails."""
        return bool(self.disrupted) or any(
            "OOMKilled" in (container.reason, container.last_reason)
            or (container.state == "terminated" and container.exit_code)
            for container in self.containers
        )

    @property
    def waits(self) -> bool:
        """Whether something in it has yet to start."""
        return self.phase == "Pending" or (
            self.phase == "Running" and any(container.state == "waiting" for container in self.containers)
        )


@dataclass(frozen=True)
class Event:
    """What happened to the object `about`."""

    about: str
    warning: bool
    reason: str
    message: str
    at: str


@dataclass(frozen=True)
class Snapshot:
    """A workload at a moment.

    Attributes:
      kind, manifest: its object.
      pods: the newest in each seat, oldest first.
      events: about the object, its parts and pods that do not run; oldest first.
      queue: the conditions of its entry in Kueue's queue, by type, while it is suspended.
    """

    kind: Kind
    manifest: Manifest
    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    queue: tuple[Manifest, ...] = ()

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.manifest["metadata"]["name"])

    @property
    def main(self) -> Pod | None:
        """The pod that runs the command."""
        return next((pod for pod in self.pods if pod.main), None)

    def about(self, name: str) -> list[Event]:
        """The events about one object."""
        return [event for event in self.events if event.about == name]


def look(objects: Objects, kind: Kind, name: str) -> Snapshot | None:
    """Asks the cluster about a workload; None when its object is not there."""
    manifest = objects.get(kind.resource, name)
    if manifest is None:
        return None
    pods = pods_from(objects.find(PODS, labels=kind.pods_of(name)), kind, manifest)
    seen = Snapshot(kind=kind, manifest=manifest, pods=pods)
    if kind.suspended(manifest):
        return replace(seen, queue=_queue(objects, manifest["metadata"]["uid"]))
    return replace(seen, events=_events(objects, seen))


def pods_from(raw: Iterable[Manifest], kind: Kind, manifest: Manifest) -> tuple[Pod, ...]:
    """The pods of an object, oldest first; of those in one seat only the newest, which has taken it over."""
    pods = sorted((_pod(pod, kind, kind.main_role(manifest)) for pod in raw), key=lambda pod: pod.created)
    return tuple({pod.seat: pod for pod in pods}.values())


def events_from(raw: Iterable[Manifest]) -> tuple[Event, ...]:
    """Events, oldest first."""
    events = (
        Event(
            about=event["involvedObject"]["name"],
            warning=event["type"] == "Warning",
            reason=event.get("reason", ""),
            message=event.get("message", ""),
            at=event.get("lastTimestamp") or event.get("eventTime") or "",
        )
        for event in raw
    )
    return tuple(sorted(events, key=lambda event: event.at))


def _queue(objects: Objects, uid: str) -> tuple[Manifest, ...]:
    for resource in _QUEUE:
        for entry in objects.glance(resource, labels=f"kueue.x-k8s.io/job-uid={uid}"):
            return tuple(entry.get("status", {}).get("conditions", []))
    return ()


def _events(objects: Objects, seen: Snapshot) -> tuple[Event, ...]:
    """The events that tell why not everything runs; nothing is asked while all is well."""
    stuck = [pod.name for pod in seen.pods if pod.waits or pod.phase == "Failed"]
    if not stuck and len(seen.pods) >= seen.kind.pods_wanted(seen.manifest):
        return ()
    about = [seen.name, *seen.kind.parts(seen.manifest), *stuck[:_EXPLAINED_PODS]]
    return events_from(
        event for name in about for event in objects.glance(EVENTS, fields=f"involvedObject.name={name}")
    )


def _pod(pod: Manifest, kind: Kind, main_role: str) -> Pod:
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    seat = kind.seat(pod)
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        seat=seat,
        main=seat.first and seat.role == main_role,
        tpu=any(TPU in container.get("resources", {}).get("limits", {}) for container in spec["containers"]),
        created=meta.get("creationTimestamp", ""),
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        unscheduled=_message(conditions.get("PodScheduled"), "False"),
        disrupted=_message(conditions.get("DisruptionTarget"), "True"),
        deleted=meta.get("deletionTimestamp", ""),
        containers=tuple(_containers(spec, status)),
    )


def _message(condition: Manifest | None, status: str) -> str:
    if condition is None or condition["status"] != status:
        return ""
    return str(condition.get("message") or condition.get("reason", ""))


def _containers(spec: Manifest, status: Manifest) -> Iterable[Container]:
    """The pod's own containers and its sidecars; init containers that only run before them are left out."""
    sidecars = [container for container in spec.get("initContainers", []) if container.get("restartPolicy") == "Always"]
    reports = {
        report["name"]: report
        for report in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    }
    for container in [*sidecars, *spec["containers"]]:
        yield _container(container, container in sidecars, reports.get(container["name"], {}))


def _container(container: Manifest, sidecar: bool, report: Manifest) -> Container:
    states: Manifest = report.get("state") or {"waiting": {}}
    state, facts = next(iter(states.items()))
    last = report.get("lastState", {}).get("terminated", {})
    return Container(
        name=container["name"],
        image=container["image"],
        sidecar=sidecar,
        state=state,
        reason=facts.get("reason", ""),
        message=facts.get("message", ""),
        exit_code=facts.get("exitCode", 0),
        started=facts.get("startedAt", ""),
        ended=facts.get("finishedAt") or last.get("finishedAt", ""),
        restarts=report.get("restartCount", 0),
        last_reason=last.get("reason", ""),
        last_exit_code=last.get("exitCode", 0),
    )
