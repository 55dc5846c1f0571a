"""Why a workload in a cluster failed, or will never start. In: a `Snapshot` and the ends of its logs. Out: one sentence
with the cause and the cure, and the lines that it was read from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.workloads import signatures
from components.workloads.diagnose import diagnose, last_error
from components.workloads.kinds import End, Kind
from components.workloads.logs import log_name
from components.workloads.seen import Container, Pod, Snapshot
from components.workloads.workload import PodOutcome

_NO_IMAGE = {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_NO_CONTAINER = {"CreateContainerConfigError", "CreateContainerError"}
_STARVED = re.compile(r"low on resource: (\S+?)[.,]")
_MOST_FACTS = 6

# seconds for which a state that does not mend itself is borne
SOON_S, LATER_S = 120.0, 600.0

type Explained = tuple[str, list[str]]
type Tails = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Stuck:
    """A state that will not end by itself.

    Attributes:
      what: tells one such state from another.
      reason, evidence: as of a WorkloadError.
      patience_s: how long it is borne, for some end after all.
    """

    what: str
    reason: str
    evidence: list[str]
    patience_s: float


def stuck(seen: Snapshot) -> Stuck | None:
    """Returns why the workload cannot go on, if so."""
    for pod in seen.pods:
        if fault := _unstartable(pod, seen.kind) or _unending(pod, seen.kind):
            return fault
    return None


def _unstartable(pod: Pod, kind: Kind) -> Stuck | None:
    for container in pod.containers:
        said = [f"pod {pod.name}: container {container.name}: {container.reason}: {container.message}"]
        if container.state != "waiting":
            continue
        if container.reason in _NO_IMAGE:
            reason = (
                f"The image {container.image} cannot be pulled: check its name and tag in cluster.images, and grant "
                "roles/artifactregistry.reader to the service account of the nodes."
            )
            return Stuck("image", reason, said, SOON_S)
        if container.reason in _NO_CONTAINER:
            return Stuck("container", _unmade(container), said, SOON_S)
        if container.reason == "CrashLoopBackOff" and (container.sidecar or pod.seat.role in kind.steady):
            reason = (
                f"The container {container.name} ends again and again (exit code {container.last_exit_code}), so the "
                f"work cannot begin: see its log, kept as {pod.seat.role}-{container.name}.txt."
            )
            return Stuck("crash", reason, said, LATER_S)
    return None


def _unmade(container: Container) -> str:
    if "ecret" in container.message:
        return (
            f"A Secret is missing ({container.message}): create it in the workload's namespace, or set "
            "cluster.hf_secret to its name/key."
        )
    return f"The container {container.name} cannot be made ({container.message}): check cluster.env and cluster.images."


def _unending(pod: Pod, kind: Kind) -> Stuck | None:
    if pod.deleted and pod.seat.role not in kind.replaced:
        reason = (
            f"The pod {pod.name} does not end, because its node is gone or does not answer, and so the {kind.title} never "
            f"fails: `kubectl delete pod {pod.name} --force --grace-period=0`, then run again."
        )
        return Stuck("terminating", reason, [f"pod {pod.name}: to be gone by {pod.deleted}"], LATER_S)
    beside = [c.name for c in pod.containers if not c.sidecar and c != pod.command and c.state == "running"]
    if pod.main and pod.command.state == "terminated" and beside:
        reason = (
            f"The command has ended but its pod goes on for the sake of {' and '.join(beside)}: Pathways' proxy and "
            "resource manager must be sidecars (init containers with restartPolicy Always, which takes "
            "Kubernetes 1.29)."
        )
        said = [f"pod {pod.name}: {pod.command.name} ended with exit code {pod.command.exit_code}"]
        return Stuck("sidecars", reason, said, LATER_S)
    return None


def cause(seen: Snapshot, end: End, said: PodOutcome | None, tails: Tails) -> Explained:
    """Returns why a workload failed.

    Args:
      seen: the cluster's view of it.
      end: its controller's view.
      said: the pod's own account, where it could write one.
      tails: last lines of each log that was followed, by `log_name`; the command's own first.

    What the cluster did to the pods stands before what the command says, which then is only what it felt of it.
    """
    reason, evidence = (
        _disrupted(seen, end) or _starved(seen) or _own(said) or _never_started(seen) or _from_logs(seen, tails)
    ) or (f"The {seen.kind.title} failed: {end.reason}.", [])
    return reason, [*evidence, *_facts(seen, end), f"{seen.kind.title} {seen.name}: {end.reason}"]


def _disrupted(seen: Snapshot, end: End) -> Explained | None:
    for pod in seen.pods:
        why = pod.disrupted or (pod.message if pod.reason == "Evicted" else "")
        if not why:
            continue
        said = [f"pod {pod.name}: {why}"]
        if starved := _STARVED.search(why):
            return (
                f"The node ran out of {starved[1]} and evicted the pod: raise the memory or disk of the machine; core "
                "dumps on the boot disk count too.",
                said,
            )
        spent = f", and the {end.restarts} restarts are used up" if end.restarts else ""
        return (
            f"The cluster took the pod away ({why.rstrip('.')}){spent}: it was preempted, or its node was maintained; "
            "`posttrain run --resume` goes on from the last checkpoint.",
            said,
        )
    return None


def _starved(seen: Snapshot) -> Explained | None:
    for pod, container in _containers(seen):
        if "OOMKilled" in (container.reason, container.last_reason):
            what = f"Pathways' {container.name}" if container.sidecar else container.name
            return (
                f"The memory of the machine is full (OOMKilled: {what}): raise memory_gb of the stage or "
                "cluster.cpu_memory_gb.",
                [f"pod {pod.name}: container {container.name}: OOMKilled, restarted {container.restarts} times"],
            )
    return None


def _own(said: PodOutcome | None) -> Explained | None:
    return (said.reason, list(said.evidence)) if said and said.reason else None


def _never_started(seen: Snapshot) -> Explained | None:
    for pod in seen.pods:
        if fault := _unstartable(pod, seen.kind):
            return fault.reason, fault.evidence
    return None


def _from_logs(seen: Snapshot, tails: Tails) -> Explained | None:
    for lines in tails.values():
        if known := signatures.found_in(lines):
            return known
    failed = [
        (tails.get(log_name(pod, container), []), container)
        for pod, container in _containers(seen)
        if container.state == "terminated" and container.exit_code
    ]
    # what failed first is the cause, and the others its victims
    failed.sort(key=lambda one: one[1].ended)
    for lines, _ in failed:
        if error := last_error(lines):
            return error
    return next((diagnose(lines, exit_code=container.exit_code) for lines, container in failed), None)


def _facts(seen: Snapshot, end: End) -> list[str]:
    """What is out of order in the cluster beside the end itself, a line each."""
    ended = [
        f"pod {pod.name}: container {container.name} ended with exit code {container.exit_code} ({container.reason})"
        for pod, container in _containers(seen)
        if container.state == "terminated" and container.exit_code
    ]
    warnings = [
        f"{event.about}: {event.reason}: {event.message}"
        for event in seen.events
        if event.warning and event.message not in end.reason
    ]
    return [*ended, *warnings][:_MOST_FACTS]


def _containers(seen: Snapshot) -> Iterator[tuple[Pod, Container]]:
    """All containers, those of the pod with the command first."""
    for pod in sorted(seen.pods, key=lambda pod: not pod.main):
        for container in pod.containers:
            yield pod, container
