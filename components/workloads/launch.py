"""The engines of the cluster: runs a workload as a Kubernetes object, and ends or shows what a run has there.

In: a plan and a workload. Out: its outcome. A launcher may be killed at any moment and started again: the ledger and the
object's name, which follows from run, stage and attempt, lead it back to what it had begun. It never owns the object in
the sense of Kubernetes, for the cluster would then end a training because a launcher's pod was lost.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from components.errors import UserError, WorkloadError
from components.plan import AnyPlan
from components.progress import say
from components.stage import STAGES
from components.workloads import api, kube, ledger, names, phases
from components.workloads.attempt import Abandoned, Site, Vanished, follow, place, remove
from components.workloads.heartbeat import Heartbeat
from components.workloads.kinds import KINDS
from components.workloads.ledger import Begun, Closed
from components.workloads.logs import Logs
from components.workloads.objects import PODS, Objects
from components.workloads.seen import Snapshot, look
from components.workloads.watch import Watch
from components.workloads.workload import OnLine, Order, Outcome, Workload

_HASTE_S = 10.0  # for ending things: whoever is being killed has no time
_GONE_S = 30.0


def run(plan: AnyPlan, workload: Workload, on_line: OnLine) -> Outcome:
    """Runs a workload to its end, or takes it up where an earlier launcher left it.

    Args:
      plan: the run; its configuration names the engine, the cluster and the slices.
      workload: what to run.
      on_line: gets every line of the command, in this thread.

    Raises:
      UserError: the cluster cannot be reached or refuses.
      WorkloadError: it failed, was cancelled, or its object has vanished.
    """
    stage_dir = plan.stage_dir(workload.stage)
    if outcome := ledger.succeeded(stage_dir, workload):
        say(workload.stage, "had succeeded already")
        return outcome
    objects = _objects(plan)
    if attempt := ledger.opened(stage_dir):
        try:
            return _attempt(plan, workload, objects, attempt, on_line)
        except Abandoned:
            say(workload.stage, f"{attempt.name} had ended itself while it had no launcher: trying again")
    return _attempt(plan, workload, objects, ledger.begin(stage_dir, workload, plan.config.engine), on_line)


def _attempt(plan: AnyPlan, workload: Workload, objects: Objects, attempt: Begun, on_line: OnLine) -> Outcome:
    cluster = plan.config.cluster
    site = Site(objects, KINDS[attempt.kind], cluster, plan.config.tpu)
    silence_s = None if cluster.detached else float(cluster.silence_s)
    order = Order(workload=workload, name=attempt.name, directory=attempt.directory, silence_s=silence_s)
    watch = Watch(objects, site.kind, order.name, poll_s=cluster.poll_s, stage=workload.stage, on_line=on_line)
    heartbeat = Heartbeat(workload.stage, order.directory, cluster.silence_s)
    with heartbeat, watch, Logs(objects, order.directory, watch.hear) as logs, _signals_exit():
        try:
            return _carried_out(site, order, attempt, watch, logs)
        except (SystemExit, BrokenPipeError):  # ended by a signal, or whoever reads this is gone
            if cluster.detached:
                say(workload.stage, f"detached: {order.name} goes on; `posttrain run --resume` takes it up again")
            else:
                _end(site, order, attempt)
            raise


def _carried_out(site: Site, order: Order, attempt: Begun, watch: Watch, logs: Logs) -> Outcome:
    try:
        uid = place(site, order, ledger.uid(attempt))
        ledger.created(attempt, uid)
        before = ledger.closed(attempt)
        if before and before.state == "cancelled":  # while there was no object yet that could be deleted
            remove(site, order)
        outcome = follow(site, order, uid, watch, logs)
    except WorkloadError as error:
        state: ledger.State = "vanished" if isinstance(error, Vanished) else "failed"
        end = ledger.close(attempt, Closed(state=state, reason=error.reason))
        if end.outcome:  # another launcher of this run saw the end first, and has cleared up
            return end.outcome
        if end.state == "cancelled":
            raise WorkloadError(order.workload.stage, "It was cancelled.") from error
        raise
    ledger.close(attempt, Closed(state="succeeded", outcome=outcome))
    site.objects.delete(site.kind.resource, order.name, uid)
    return outcome


def _end(site: Site, order: Order, attempt: Begun) -> None:
    """Ends the workload, for its launcher is being ended."""
    hasty = replace(site, objects=replace(site.objects, patience_s=_HASTE_S))
    try:
        remove(hasty, order)
        what = f"deleted {site.kind.title} {order.name}"
    except UserError as error:
        what = f"{site.kind.title} {order.name} ends itself, for it could not be deleted: {error}"
    ledger.close(attempt, Closed(state="cancelled"))
    say(order.workload.stage, what)


@contextlib.contextmanager
def _signals_exit() -> Iterator[None]:
    """While inside, SIGTERM and SIGINT end the work with SystemExit, so that what was begun can be ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, _frame: object) -> None:
        for again in previous:  # what follows must not be interrupted by a second one
            signal.signal(again, signal.SIG_IGN)
        raise SystemExit(128 + signum)

    previous = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)}
    for signum in previous:
        signal.signal(signum, handle)
    try:
        yield
    finally:
        for signum, old in previous.items():
            signal.signal(signum, old)


def cancel(plan: AnyPlan) -> list[str]:
    """Closes what a run has under way, deletes every object of it, and waits up to 30 s for its pods to end.

    Returns a line for each thing done. Launchers that are alive see that their attempt was cancelled.
    """
    objects = _objects(plan)
    done = []
    for stage in STAGES:
        if attempt := ledger.opened(plan.stage_dir(stage)):
            ledger.close(attempt, Closed(state="cancelled"))
    pods = []
    for kind in KINDS.values():
        for found in objects.find(kind.resource, labels=names.run_selector(plan.run_id)):
            name = found["metadata"]["name"]
            objects.delete(kind.resource, name, found["metadata"]["uid"])
            done.append(f"deleted {kind.title} {name}")
            pods.append(kind.pods_of(name))
    until = time.monotonic() + _GONE_S
    while (left := _pods(objects, pods)) and time.monotonic() < until:
        time.sleep(min(1.0, plan.config.cluster.poll_s))
    return [*done, *(f"pod {name} is still ending" for name in left)]


def _pods(objects: Objects, selectors: list[str]) -> list[str]:
    return [pod["metadata"]["name"] for selector in selectors for pod in objects.find(PODS, labels=selector)]


def status(plan: AnyPlan) -> list[str]:
    """Returns a line for each object that a run has in the cluster: what it is and what it does."""
    objects = _objects(plan)
    return [
        _status(seen)
        for kind in KINDS.values()
        for found in objects.find(kind.resource, labels=names.run_selector(plan.run_id))
        if (seen := look(objects, kind, found["metadata"]["name"]))
    ]


def _status(seen: Snapshot) -> str:
    stage = seen.manifest["metadata"]["labels"][names.STAGE]
    end = seen.kind.end(seen.manifest)
    if end is None:
        doing = phases.phase(seen)
    else:
        doing = "completed" if end.succeeded else f"failed: {end.reason}"
    return f"{stage}: {seen.kind.title} {seen.name}: {doing}"


def _objects(plan: AnyPlan) -> Objects:
    cluster = plan.config.cluster
    return Objects(kube.connect(cluster), cluster.namespace, api.PATIENCE_S)
