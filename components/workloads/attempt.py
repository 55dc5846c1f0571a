"""One attempt at a workload, from its object's creation to its end.

In: an order and where to carry it out. Out: the outcome; `WorkloadError` with a diagnosis when it failed, `Abandoned`
when it had ended itself for want of a launcher, `Vanished` when its object was gone before its end was seen. An object
that is there already is taken up.
"""

from __future__ import annotations

import fnmatch
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from components import storage
from components.config import ClusterConfig, TpuConfig
from components.errors import WorkloadError
from components.progress import duration, say
from components.workloads import faults, names, phases, reader
from components.workloads.api import Manifest
from components.workloads.kinds import End, Kind
from components.workloads.logs import Logs
from components.workloads.objects import Objects
from components.workloads.seen import Pod, Snapshot
from components.workloads.watch import Watch
from components.workloads.workload import LOG, OUTCOME, OUTCOMES, Order, Outcome, PodOutcome

# beyond the deadline, at which the pod ends its command itself: for fetching its inputs and storing its outputs
SLACK_S = 1800.0


class Abandoned(WorkloadError):
    """It ended itself, because it had no launcher."""


class Vanished(WorkloadError):
    """The object was gone before its end was seen."""


@dataclass(frozen=True)
class Site:
    """Where and as what an order is carried out."""

    objects: Objects
    kind: Kind
    cluster: ClusterConfig
    tpu: TpuConfig | None


def place(site: Site, order: Order, uid: str | None) -> str:
    """Creates the object of an order, or finds it; returns its uid.

    Args:
      site, order: what and where.
      uid: of the object, where it is known to have been created.
    """
    stage = order.workload.stage
    if uid is not None:
        say(stage, f"taking up {site.kind.title} {order.name}")
        return uid
    if _began(order) and site.objects.get(site.kind.resource, order.name) is None:
        raise _vanished(site, order)
    for resource, manifest in site.kind.companions(order):
        site.objects.create(resource, manifest)
    created = site.objects.create(site.kind.resource, site.kind.manifest(order, site.cluster, site.tpu))
    if created is not None:
        say(stage, f"created {site.kind.title} {order.name} in namespace {site.cluster.namespace}")
        return str(created["metadata"]["uid"])
    found = site.objects.get(site.kind.resource, order.name)
    if found is None:
        raise _vanished(site, order)
    if not _ours(found, order):
        raise WorkloadError(
            stage,
            f"There is another {site.kind.title} named {order.name} in namespace {site.cluster.namespace}, which is "
            "not of this run: delete it, or set cluster.namespace.",
        )
    say(stage, f"taking up {site.kind.title} {order.name}")
    return str(found["metadata"]["uid"])


def remove(site: Site, order: Order) -> None:
    """Deletes the object of an order, if it is there."""
    found = site.objects.get(site.kind.resource, order.name)
    if found is not None and _ours(found, order):
        site.objects.delete(site.kind.resource, order.name, found["metadata"]["uid"])


def follow(site: Site, order: Order, uid: str, watch: Watch, logs: Logs) -> Outcome:
    """Follows an object to its end; says its phases and hands over the lines of its command."""
    try:
        seen, end = _until_its_end(site, order, uid, watch, logs)
    except WorkloadError:
        _hear_the_last_words(watch, logs)
        raise
    _hear_the_last_words(watch, logs)
    if not end.succeeded:
        said = _first_failure(order)
        failure = Abandoned if said and said.abandoned else WorkloadError
        raise failure(order.workload.stage, *faults.cause(seen, end, said, logs.tails()))
    said = _account(order)
    if said is None or not said.succeeded:
        raise WorkloadError(order.workload.stage, *_not_whole(site, order, said))
    return Outcome(seconds=said.seconds, log=storage.join(order.directory, LOG))


def _hear_the_last_words(watch: Watch, logs: Logs) -> None:
    logs.finish()
    watch.hand_over()


def _until_its_end(site: Site, order: Order, uid: str, watch: Watch, logs: Logs) -> tuple[Snapshot, End]:
    told, borne = phases.Told(), _Patience()
    harmed: dict[str, Pod] = {}  # kept, for a controller deletes the pods of what fails, and Kubernetes evicted ones
    for seen in watch.looks():
        if seen is None or seen.manifest["metadata"]["uid"] != uid:
            raise _vanished(site, order)
        if reader.is_gone():
            raise SystemExit(128 + signal.SIGPIPE)
        logs.see(seen)
        if end := site.kind.end(seen.manifest):
            gone = harmed.keys() - {pod.uid for pod in seen.pods}
            return replace(seen, pods=(*(harmed[pod] for pod in gone), *seen.pods)), end
        if told.is_news(phase := phases.phase(seen)):
            say(order.workload.stage, phase)
        if phase == phases.RUNNING:  # what was lost before has been made up for
            harmed.clear()
        harmed |= {pod.uid: pod for pod in seen.pods if pod.harmed}
        if fault := borne.exhausted(faults.stuck(seen)) or _overdue(seen, order):
            site.objects.delete(site.kind.resource, order.name, uid)
            raise WorkloadError(order.workload.stage, fault.reason, fault.evidence)
    raise AssertionError("the watch goes on for ever")


class _Patience:
    """For how long the same state has lasted that will not end by itself."""

    def __init__(self) -> None:
        self._what, self._since = "", 0.0

    def exhausted(self, fault: faults.Stuck | None) -> faults.Stuck | None:
        """Returns the fault when it has lasted too long."""
        now = time.monotonic()
        if fault is None or fault.what != self._what:
            self._what, self._since = fault.what if fault else "", now
        return fault if fault and now - self._since >= fault.patience_s else None


def _overdue(seen: Snapshot, order: Order) -> faults.Stuck | None:
    """What is wrong when the command has run beyond its deadline. Time in the queue does not count."""
    command = seen.main.command if seen.main else None
    if command is None or command.state != "running":
        return None
    ran = time.time() - datetime.fromisoformat(command.started).timestamp()
    if ran < order.workload.deadline_s + SLACK_S:
        return None
    reason = (
        f"It ran longer than its deadline of {duration(order.workload.deadline_s)}: raise deadline_s of the stage or make "
        "it smaller."
    )
    return faults.Stuck("deadline", reason, [f"{command.name}: running since {command.started}"], 0)


def _account(order: Order) -> PodOutcome | None:
    """What the first pod of this very order wrote of its end."""
    return next(_accounts(order, OUTCOME), None)


def _first_failure(order: Order) -> PodOutcome | None:
    """What the host wrote that failed first: others then fail too, or are told to end."""
    failed = [account for account in _accounts(order, OUTCOMES) if account.reason]
    return min(failed, key=lambda account: (account.interrupted, account.ended), default=None)


def _accounts(order: Order, pattern: str) -> Iterator[PodOutcome]:
    """What pods of this very order wrote of their ends, in files whose names match."""
    for file in storage.list_files(order.directory):
        if fnmatch.fnmatch(file.name, pattern):
            account = PodOutcome.model_validate_json(storage.read_bytes(storage.join(order.directory, file.name)))
            if account.name == order.name:
                yield account


def _not_whole(site: Site, order: Order, said: PodOutcome | None) -> tuple[str, list[str]]:
    if said is not None:
        return said.reason, list(said.evidence)
    return (
        f"The {site.kind.title} is Completed but its pod left no account of its work, so nothing shows that the outputs "
        f"are whole: see {LOG} beside {OUTCOME}, and whether the image in cluster.images is this project's.",
        [f"missing: {storage.join(order.directory, OUTCOME)}"],
    )


def _began(order: Order) -> bool:
    """Whether a pod of this order has left a trace."""
    return any(file.name in (OUTCOME, LOG) for file in storage.list_files(order.directory))


def _ours(found: Manifest, order: Order) -> bool:
    """Whether an object was made for the run and stage of this order."""
    labels: dict[str, str] = found["metadata"].get("labels", {})
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    wanted, marked = names.labels(order.workload).items(), names.run_annotation(order.workload).items()
    return wanted <= labels.items() and marked <= annotations.items()


def _vanished(site: Site, order: Order) -> Vanished:
    said = _account(order)
    return Vanished(
        order.workload.stage,
        f"The {site.kind.title} {order.name} was gone before its end was seen: somebody deleted it, or it had ended and "
        f"its time to live was over; `posttrain run --resume` continues.",
        [f"its pod's account: {said.model_dump_json()}"] if said else [],
    )
