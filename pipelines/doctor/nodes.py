"""Nodes for every sort of pod of the run: the hosts of the slices, the Pathways head, the machines that convert.

Compares what the pods ask for (labels, tolerations, requests) with the nodes of the cluster, and where it has none with
the node pools that Google's API knows and that grow from nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from pipelines.doctor import pods, pools
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, unknown, warning
from pipelines.doctor.pods import Group

SPOT = "cloud.google.com/gke-spot"
_OWN_TAINT = "node.kubernetes.io/"


class Obstacle(NamedTuple):
    """Why a pod cannot be placed on a node. Without a cure of its own another pool must be made."""

    why: str
    cure: str = ""


@dataclass(frozen=True)
class Node:
    """A node that has the labels which a group of pods asks for."""

    name: str
    labels: Mapping[str, str]
    obstacle: Obstacle | None

    @property
    def pool(self) -> str:
        """Its node pool; outside GKE every node is one of its own."""
        return self.labels.get(pools.POOL, self.name)


def for_pods(case: Case) -> Iterator[Result]:
    """Says for every sort of pod whether the cluster has, or would make, the nodes that it needs."""
    absent: dict[str, list[Group]] = {}
    for group in _sorts(pods.groups(case.objects)):
        nodes = _nodes(case, group)
        if not nodes:
            absent.setdefault(_labels(group), []).append(group)
        elif group.is_slice:
            yield from _slices(case, group, nodes)
        else:
            yield _machines(case, group, nodes)
    for groups in absent.values():
        yield _absent(case, groups)


def _sorts(groups: Iterable[Group]) -> list[Group]:
    """The groups without those that ask for the same as another one, as evaluation does for what training does."""
    found: dict[str, Group] = {}
    for group in groups:
        asked = [group.spec.get(key) for key in ("nodeSelector", "affinity", "tolerations")]
        found.setdefault(repr([group.sets, group.pods, group.requests, asked]), group)
    return list(found.values())


def _nodes(case: Case, group: Group) -> list[Node]:
    selector = ",".join(f"{key}={value}" for key, value in group.selector.items())
    found = case.get("/api/v1/nodes", labelSelector=selector)["items"]
    return [
        Node(item["metadata"]["name"], labels, _obstacle(item, group))
        for item in found
        if _attracted(labels := item["metadata"].get("labels", {}), group)
    ]


def _attracted(labels: Mapping[str, str], group: Group) -> bool:
    """Whether the required node affinity of the pods admits a node with these labels."""
    affinity = (group.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    return any(all(_meets(labels, e) for e in term.get("matchExpressions") or []) for term in terms)


def _meets(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            raise AssertionError(f"the launcher writes no node affinity with {operator}")


def _obstacle(item: Mapping[str, Any], group: Group) -> Obstacle | None:
    name, spec, status = item["metadata"]["name"], item["spec"], item["status"]
    conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
    if conditions.get("Ready", "True") != "True":
        return Obstacle("not ready", f"kubectl describe node {name}")
    if spec.get("unschedulable"):
        return Obstacle("cordoned", f"kubectl uncordon {name}")
    for taint in spec.get("taints", []):
        if taint["effect"] != "PreferNoSchedule" and not _tolerated(taint, group):
            if taint["key"].startswith(_OWN_TAINT):  # Kubernetes itself took the node out, and puts it back
                return Obstacle(taint["key"].removeprefix(_OWN_TAINT), f"kubectl describe node {name}")
            written = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
            return Obstacle(f"tainted {written}", f"kubectl taint node {name} {written}-, or name another pool")
    room = pods.amounts(status["allocatable"])
    for resource, asked in group.requests.items():
        if (has := room.get(resource, Decimal())) < asked:
            return Obstacle(
                f"too small ({pods.written(resource, has)}, a pod asks for {pods.written(resource, asked)})"
            )
    return None


def _tolerated(taint: Mapping[str, str], group: Group) -> bool:
    if taint["key"] in group.requests:  # GKE tolerates the taint of a resource for every pod that asks for it
        return True
    return any(
        t.get("key") in (None, taint["key"])
        and t.get("effect") in (None, taint["effect"])
        and (t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", ""))
        for t in group.spec.get("tolerations") or []
    )


def _slices(case: Case, group: Group, nodes: Sequence[Node]) -> Iterator[Result]:
    """A slice of several hosts is one node pool with as many nodes; of one host it is any node."""
    usable = Counter(node.pool for node in nodes if node.obstacle is None)
    whole = {pool: count // group.pods for pool, count in usable.items() if count >= group.pods}
    has = sum(whole.values()) if group.pods == 1 else len(whole)
    hosts = f"of {group.pods} hosts ({_labels(group)})"
    if has < group.sets:
        yield failure(
            f"{group.of} needs {_slices_in_words(group.sets)} {hosts}, the cluster has {has}: {_state(nodes)}",
            _cure(nodes) or pools.make(case, [group], beside=True),
        )
        return
    yield ok(f"{group.of}: {_slices_in_words(has)} {hosts}, in {', '.join(sorted(whole))}")
    spot = sorted({node.pool for node in nodes if node.labels.get(SPOT) == "true"})
    if case.config.tpu and case.config.tpu.capacity != "spot" and spot:
        yield warning(
            f"{', '.join(spot)} is Spot: a preemption would end the run",
            "--set tpu.capacity=spot to be restarted after one, or name other pools in tpu.pools",
        )


def _machines(case: Case, group: Group, nodes: Sequence[Node]) -> Result:
    usable = [node for node in nodes if node.obstacle is None]
    if usable:
        return ok(f"{group.of}: {len(usable)} nodes with {pools.wanted(group)}, in {_names(usable)}")
    return failure(f"{group.of} fits no node: {_state(nodes)}", _cure(nodes) or pools.make(case, [group], beside=True))


def _state(nodes: Sequence[Node]) -> str:
    """What stands in the way, the commonest first; else how many nodes the pools have."""
    why = Counter(node.obstacle.why for node in nodes if node.obstacle)
    if why:
        return f"of {len(nodes)} nodes in {_names(nodes)}, " + "; ".join(f"{n} {are}" for are, n in why.most_common(2))
    return ", ".join(f"{pool} has {count}" for pool, count in sorted(Counter(node.pool for node in nodes).items()))


def _cure(nodes: Sequence[Node]) -> str:
    return next((node.obstacle.cure for node in nodes if node.obstacle), "")


def _absent(case: Case, groups: Sequence[Group]) -> Result:
    """The cluster has no node with the labels that these ask for at the moment: would it make some?"""
    first = groups[0]
    missing = f"{', '.join(group.of for group in groups)}: no node has {_labels(first)}"
    cure = pools.make(case, groups, beside=False)
    if case.gke is None:
        return unknown(f"{missing}; only a pool that grows from nothing, or Autopilot, would add them", cure)
    growing = [f"{pool.name} (to {pool.most})" for pool in case.gke.pools if pools.would_grow(pool, case, first)]
    if growing:
        return warning(f"{missing}; {', '.join(growing)} grows when the run asks, which takes minutes", "")
    if case.gke.makes_pools:
        return unknown(
            f"{missing}; the cluster adds node pools by itself, as far as its limits and your quota go", cure
        )
    return failure(f"{missing}, and no node pool would grow to have them", cure)


def _slices_in_words(count: int) -> str:
    return f"{count} slice{'' if count == 1 else 's'}"


def _labels(group: Group) -> str:
    return ", ".join(f"{key.rsplit('/', 1)[-1]}={value}" for key, value in group.selector.items()) or "the right labels"


def _names(nodes: Sequence[Node]) -> str:
    return ", ".join(sorted({node.pool for node in nodes}))
