"""What a workload is doing, in words that a person understands. In: a `Snapshot`. Out: a phase with its reason."""

from __future__ import annotations

import re

from components.workloads import signatures
from components.workloads.seen import Event, Pod, Snapshot

RUNNING = "running"
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_LONGEST = 300
# where the scheduler begins to speak of what it has tried besides
_ASIDE = re.compile(r" (?=no new claims to deallocate,|preemption:)")


def phase(seen: Snapshot) -> str:
    """Returns the phase, such as "waiting for the slice: 0/8 nodes are available: 8 Insufficient google.com/tpu."."""
    if seen.manifest["metadata"].get("deletionTimestamp"):
        return "being deleted"
    if seen.kind.suspended(seen.manifest):
        return _queued(seen)
    for pod in sorted(seen.pods, key=lambda pod: not pod.main):
        if pod.disrupted:
            return f"the cluster takes a pod away: {_short(pod.disrupted)}"
        if pod.waits:
            return _waiting(pod, seen.about(pod.name))
    if len([pod for pod in seen.pods if not pod.deleted]) < seen.kind.pods_wanted(seen.manifest):
        return _missing(seen)
    return RUNNING


class Told:
    """Which phases were said: none is news twice while it lasts, whatever the numbers and the order of its reasons."""

    def __init__(self) -> None:
        self._phase = ""
        self._reasons: set[str] = set()

    def is_news(self, phase: str) -> bool:
        """Whether a phase, or a reason of the same phase, has not been said yet; from here on it has."""
        kind, _, reason = re.sub(r"\d+", "", phase).partition(": ")
        if kind != self._phase:
            self._phase, self._reasons = kind, set()
        known = reason in self._reasons
        self._reasons.add(reason)
        return not known


def _queued(seen: Snapshot) -> str:
    if _QUEUE_LABEL not in seen.manifest["metadata"].get("labels", {}):
        return "suspended"
    conditions = {condition["type"]: condition for condition in seen.queue}
    evicted, reserved = conditions.get("Evicted"), conditions.get("QuotaReserved")
    if evicted and evicted["status"] == "True":
        return f"evicted by Kueue, queued again: {_short(evicted['message'])}"
    if reserved and reserved["status"] == "False":
        return _advised(f"queued in Kueue: {_short(reserved['message'])}", reserved["message"])
    return "queued in Kueue"


def _waiting(pod: Pod, events: list[Event]) -> str:
    warnings = [event.message for event in events if event.warning and event.reason != "FailedScheduling"]
    if pod.unscheduled:
        place = "waiting for the slice" if pod.tpu else "scaling the CPU pool"
        why = " ".join([_ASIDE.split(pod.unscheduled)[0], *warnings[-1:]])
        return _advised(f"{place}: {_short(why)}", why)
    for container in pod.containers:
        if container.state == "waiting" and container.message:
            return f"starting: {container.reason}: {_short(container.message)}"
    pulls = [event.reason for event in events if event.reason in ("Pulling", "Pulled")]
    if pulls[-1:] == ["Pulling"]:
        return "pulling the image"
    return f"starting: {_short(warnings[-1])}" if warnings else "starting"


def _missing(seen: Snapshot) -> str:
    """Some pods are not there yet."""
    warnings = [event.message for event in seen.events if event.warning]
    if any(signatures.SYMPTOM.search(message) for message in warnings):
        return "waiting for the slice: its other workers follow when the first has its place"
    return f"waiting for its pods: {_short(warnings[-1])}" if warnings else "starting"


def _advised(text: str, message: str) -> str:
    known = signatures.found_in([message], signatures.WAITING)
    return f"{text} (if it lasts: {known[0]})" if known else text


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
