"""What the launcher must be allowed to do in the cluster: the one list.

`configs/cluster/rbac.yaml` grants it and `posttrain doctor` asks for it; a test compares the two. What doctor itself
looks at beyond that is optional: a check that is not permitted says so, and the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from components.config import PRESETS, AnyConfig
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok


class Right(NamedTuple):
    """Verbs on a resource of the workloads' namespace; `name` where only the object of that name is meant."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""


_EVERYTHING = ("create", "get", "list", "watch", "delete")
# to start, find again, follow and remove what an engine makes
ENGINES: Mapping[str, tuple[Right, ...]] = {
    "jobset": (Right("jobset.x-k8s.io", "jobsets", _EVERYTHING),),
    "rayjob": (
        Right("ray.io", "rayjobs", _EVERYTHING),
        Right("ray.io", "rayclusters", _EVERYTHING),
        Right("resource.k8s.io", "resourceclaimtemplates", ("create", "get", "delete")),
    ),
}
# to see how far it is, what it prints, and why it does not start
PODS = (
    Right("batch", "jobs", ("get", "list", "watch")),
    Right("", "pods", ("get", "list", "watch")),
    Right("", "pods/log", ("get",)),
    Right("", "events", ("list",)),
)
QUEUES = (
    Right("kueue.x-k8s.io", "workloads", ("get", "list", "watch")),
    Right("kueue.x-k8s.io", "localqueues", ("get", "list", "watch")),
)


def needed(config: AnyConfig) -> tuple[Right, ...]:
    """The rights that a run of this configuration needs."""
    cluster = config.cluster
    queue = QUEUES if cluster.queue else ()
    secret = (Right("", "secrets", ("get",), cluster.hf_secret.split("/")[0]),) if cluster.hf_secret else ()
    return (*ENGINES[config.engine], *PODS, *queue, *secret)


def allowed(case: Case) -> Iterator[Result]:
    """Asks the API server, verb by verb, whether the caller may do what the launcher does."""
    asked = [(right, verb) for right in needed(case.config) for verb in right.verbs]
    client = case.client  # connected before the threads ask for it
    with ThreadPoolExecutor(client.configuration.connection_pool_maxsize) as pool:
        answers = list(pool.map(lambda pair: _may(case, *pair), asked))
    refused: dict[Right, list[str]] = {}
    for (right, verb), may in zip(asked, answers, strict=True):
        if not may:
            refused.setdefault(right, []).append(verb)
    for right, verbs in refused.items():
        what = ".".join(filter(None, (right.resource, right.group))) + (f" '{right.name}'" if right.name else "")
        yield failure(f"not allowed in namespace {case.namespace}: {', '.join(verbs)} {what}", grant(case.namespace))
    if not refused:
        yield ok(f"all {len(asked)} verbs that the launcher needs are allowed in namespace {case.namespace}")


def grant(namespace: str) -> str:
    """The command by which someone who may grant them grants the rights."""
    path = str(PRESETS / "cluster" / "rbac.yaml")
    return f"sed 's/NAMESPACE/{namespace}/' {min(path, os.path.relpath(path), key=len)} | kubectl apply -f -"


def _may(case: Case, right: Right, verb: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "namespace": case.namespace,
        "verb": verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = case.ask("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
