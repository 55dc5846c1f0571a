"""Kueue: the queue exists, takes work, and its quota can ever admit what the run asks for.

A resource that the ClusterQueue does not cover, or too little of it, suspends a JobSet for ever, and only an event of the
Workload says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from components.errors import did_you_mean
from pipelines.doctor import pods
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, warning
from pipelines.doctor.pods import Group

_GROUP = "kueue.x-k8s.io"


def admits(case: Case) -> Iterator[Result]:
    """Looks at the LocalQueue, its ClusterQueue and the quota; without a queue, whether there should be one."""
    served = case.find(f"/apis/{_GROUP}")
    name = case.config.cluster.queue
    if served is None:
        if name:
            cure = "install Kueue, or --set cluster.queue=null"
            yield warning(f"Kueue is not installed, so cluster.queue={name} has no effect", cure)
        return
    root = f"/apis/{served['preferredVersion']['groupVersion']}"
    queues = f"{root}/namespaces/{case.namespace}/localqueues"
    if name is None:
        yield from _without_queue(case, queues)
        return
    local = case.find(f"{queues}/{name}")
    if local is None:
        known = _names(case.get(queues))
        there = f"{did_you_mean(name, known)} There: {', '.join(known) or 'none'}."
        yield failure(
            f"there is no LocalQueue {name} in namespace {case.namespace}.{there}", "--set cluster.queue=NAME"
        )
        return
    yield from _stopped("LocalQueue", local)
    cluster_queue = case.find(f"{root}/clusterqueues/{local['spec']['clusterQueue']}")
    if cluster_queue is None:
        yield failure(
            f"the LocalQueue {name} points to a ClusterQueue {local['spec']['clusterQueue']} that does not exist",
            f"kubectl --namespace {case.namespace} edit localqueue {name}",
        )
        return
    yield from _stopped("ClusterQueue", cluster_queue)
    flavors = {f["metadata"]["name"]: f["spec"] for f in case.get(f"{root}/resourceflavors")["items"]}
    yield from _quota(case, cluster_queue, flavors)


def _without_queue(case: Case, queues: str) -> Iterator[Result]:
    known = _names(case.get(queues))
    if known:
        yield warning(
            f"Kueue has queues in namespace {case.namespace} and cluster.queue is not set: depending on its settings the "
            "run waits for ever, or goes past the queue",
            f"--set cluster.queue={known[0]}",
        )


def _stopped(kind: str, queue: Mapping[str, Any]) -> Iterator[Result]:
    name = queue["metadata"]["name"]
    if (policy := queue["spec"].get("stopPolicy", "None")) != "None":
        yield failure(f"the {kind} {name} is stopped ({policy})", f"kubectl edit {kind.lower()} {name}")
        return
    for condition in queue.get("status", {}).get("conditions", []):
        if condition["type"] == "Active" and condition["status"] == "False":
            yield failure(
                f"the {kind} {name} is not active: {condition['message']}", f"kubectl describe {kind.lower()} {name}"
            )


def _quota(case: Case, queue: Mapping[str, Any], flavors: Mapping[str, Mapping[str, Any]]) -> Iterator[Result]:
    """Every object must fit as a whole, and every sort of pod into one flavor."""
    name, spec = queue["metadata"]["name"], queue["spec"]
    edit = f"kubectl edit clusterqueue {name}"
    borrows = bool(spec.get("cohort") or spec.get("cohortName"))
    seen: set[str] = set()
    for manifest in case.objects:
        groups = pods.groups([manifest])
        for resource in sorted({resource for group in groups for resource in group.requests} - seen):
            if problem := _problem(groups, resource, spec, flavors, borrows):
                seen.add(resource)
                yield failure(f"the ClusterQueue {name} {problem}, so the run would wait for ever", edit)
    if not seen:
        yield ok(f"queue {case.config.cluster.queue} (ClusterQueue {name}) covers all that the run asks for")


def _problem(
    groups: Sequence[Group],
    resource: str,
    spec: Mapping[str, Any],
    flavors: Mapping[str, Mapping[str, Any]],
    borrows: bool,
) -> str | None:
    asking = [group for group in groups if group.requests.get(resource)]
    covering = [part for part in spec.get("resourceGroups", []) if resource in part["coveredResources"]]
    if not covering:
        return f"does not cover {resource}, which {asking[0].of} asks for"
    together: dict[str, Decimal] = {}
    for group in asking:
        quotas = {
            flavor["name"]: _of_flavor(flavor, resource, borrows)
            for part in covering
            for flavor in part["flavors"]
            if _fits(flavors.get(flavor["name"], {}), group)
        }
        largest = max(quotas.values(), default=Decimal())
        if largest < group.total[resource]:
            wants = pods.written(resource, group.total[resource])
            return f"has {pods.written(resource, largest)} in a flavor that fits, and {group.of} asks for {wants}"
        together |= quotas
    total = sum((group.total[resource] for group in asking), Decimal())
    if (has := sum(together.values(), Decimal())) < total:
        whole = asking[0].of.split("/")[0]
        return f"has {pods.written(resource, has)}, and all of {whole} asks for {pods.written(resource, total)}"
    return None


def _of_flavor(flavor: Mapping[str, Any], resource: str, borrows: bool) -> Decimal:
    """The most of a resource that a flavor can give."""
    for entry in flavor["resources"]:
        if entry["name"] == resource:
            if borrows and "borrowingLimit" not in entry:
                return Decimal("Infinity")
            quota = pods.amounts({"nominal": entry["nominalQuota"], "borrowed": entry.get("borrowingLimit", 0)})
            return quota["nominal"] + (quota["borrowed"] if borrows else 0)
    return Decimal()


def _fits(flavor: Mapping[str, Any], group: Group) -> bool:
    """Whether the nodes of a flavor may be those that the pods ask for."""
    labels = flavor.get("nodeLabels") or {}
    return all(group.selector.get(key, value) == value for key, value in labels.items())


def _names(listed: Mapping[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]
