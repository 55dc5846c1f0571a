"""The pods that an object would bring: how many, with what requests, on which nodes.

In: manifests of JobSets and RayJobs as the launcher sends them. Out: a `Group` for each sort of pod. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from components.workloads import names

TPU, CPU, MEMORY, DISK = "google.com/tpu", "cpu", "memory", "ephemeral-storage"

type Amounts = Mapping[str, Decimal]


@dataclass(frozen=True)
class Group:
    """Pods that are alike.

    Attributes:
      of: the stage and the part of its object, such as "train/worker".
      sets: how many times the group exists: the slices.
      pods: pods of one set: the hosts of a slice.
      spec: their pod spec.
    """

    of: str
    sets: int
    pods: int
    spec: Mapping[str, Any]

    @property
    def requests(self) -> Amounts:
        """What one pod asks for, in the base unit of each resource: cores, bytes, chips.

        As the scheduler counts: sidecars run beside the containers, other init containers before them.
        """
        running, before = dict[str, Decimal](), dict[str, Decimal]()
        for container in self.spec.get("initContainers", []):
            asked = _asked(container)
            if container.get("restartPolicy") == "Always":
                running = _sum(running, asked)
                before = _most(before, running)
            else:
                before = _most(before, _sum(running, asked))
        for container in self.spec["containers"]:
            running = _sum(running, _asked(container))
        return _most(before, running)

    @property
    def total(self) -> Amounts:
        """What all its pods ask for together."""
        return {name: amount * self.sets * self.pods for name, amount in self.requests.items()}

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels that its nodes must have."""
        return self.spec.get("nodeSelector") or {}

    @property
    def is_slice(self) -> bool:
        """Whether its pods sit on the hosts of a TPU slice."""
        return TPU in self.requests

    @property
    def images(self) -> list[str]:
        """The images of its containers."""
        return [c["image"] for c in [*self.spec.get("initContainers", []), *self.spec["containers"]]]


def groups(objects: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Returns the groups of pods of all objects."""
    return [group for manifest in objects if manifest["kind"] in _KINDS for group in _KINDS[manifest["kind"]](manifest)]


def _of_jobset(manifest: Mapping[str, Any]) -> Iterator[Group]:
    for part in manifest["spec"]["replicatedJobs"]:
        job = part["template"]["spec"]
        yield Group(
            f"{_stage(manifest)}/{part['name']}",
            part.get("replicas", 1),
            job.get("parallelism", 1),
            job["template"]["spec"],
        )


def _of_rayjob(manifest: Mapping[str, Any]) -> Iterator[Group]:
    stage, cluster = _stage(manifest), manifest["spec"]["rayClusterSpec"]
    yield Group(f"{stage}/head", 1, 1, cluster["headGroupSpec"]["template"]["spec"])
    for part in cluster.get("workerGroupSpecs", []):
        of = f"{stage}/{part['groupName']}"
        yield Group(of, part["replicas"], part.get("numOfHosts", 1), part["template"]["spec"])


def _stage(manifest: Mapping[str, Any]) -> str:
    return str(manifest["metadata"]["labels"][names.STAGE])


_KINDS = {"JobSet": _of_jobset, "RayJob": _of_rayjob}


def amounts(quantities: Mapping[str, Any]) -> dict[str, Decimal]:
    """Reads Kubernetes quantities: 100Gi, 500m."""
    from kubernetes.utils.quantity import parse_quantity

    return {name: parse_quantity(quantity) for name, quantity in quantities.items()}


def written(resource: str, amount: Decimal) -> str:
    """An amount for a person: 26 CPU, 140 GB of memory, 4 chips."""
    if resource in (MEMORY, DISK):
        return f"{float(amount) / 1e9:.4g} GB of {'memory' if resource == MEMORY else 'disk'}"
    return f"{float(amount):g} {'chips' if resource == TPU else 'CPU' if resource == CPU else resource}"


def _asked(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _sum(a: Amounts, b: Amounts) -> dict[str, Decimal]:
    return {name: a.get(name, Decimal()) + b.get(name, Decimal()) for name in {**a, **b}}


def _most(a: Amounts, b: Amounts) -> dict[str, Decimal]:
    return {name: max(a.get(name, Decimal()), b.get(name, Decimal())) for name in {**a, **b}}
