"""The cluster as such: who we are to it, the namespace, and what the workloads refer to by name in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from components.errors import did_you_mean
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, unknown, warning
from pipelines.doctor.pods import groups

_ENFORCED = "pod-security.kubernetes.io/enforce"


def reachable(case: Case) -> Iterator[Result]:
    """Says which cluster answers, and as whom it knows us."""
    version = case.get("/version")["gitVersion"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = case.ask("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    name = who["status"]["userInfo"]["username"]
    yield ok(f"Kubernetes {version} at {case.client.configuration.host}, as {name} ({access(case)})")


def access(case: Case) -> str:
    """By what means the cluster is reached."""
    cluster = case.config.cluster
    if cluster.gke:
        return "Google's default credentials"
    if cluster.context:
        return f"kubeconfig, context {cluster.context}"
    return "service account of this pod" if "KUBERNETES_SERVICE_HOST" in os.environ else "kubeconfig"


def described(case: Case) -> Iterator[Result]:
    """Says whether Google's API describes the GKE cluster; other checks use what it says."""
    answer = case.gke_answer
    if isinstance(answer, Exception):
        yield unknown(str(answer))
    elif answer:
        grows = ", and adds others by itself" if answer.makes_pools else ""
        yield ok(f"{answer.name} has the node pools {', '.join(pool.name for pool in answer.pools)}{grows}")


def namespace(case: Case) -> Iterator[Result]:
    """The namespace exists and lets pods be what the workloads need."""
    found = case.find(f"/api/v1/namespaces/{case.namespace}")
    if found is None:
        yield failure(f"there is no namespace {case.namespace}", f"kubectl create namespace {case.namespace}")
        return
    level = found["metadata"].get("labels", {}).get(_ENFORCED, "privileged")
    special = sorted({what for group in groups(case.objects) for what in _privileges(group.spec)})
    if special and level != "privileged":
        yield failure(
            f"namespace {case.namespace} admits only '{level}' pods, and the workloads need {' and '.join(special)}",
            f"kubectl label --overwrite namespace {case.namespace} {_ENFORCED}=privileged",
        )
    else:
        yield ok(f"namespace {case.namespace} exists")


def service_account(case: Case) -> Iterator[Result]:
    """The pods' Kubernetes service account exists: without it no pod is ever made, and nothing says so aloud."""
    name = case.config.cluster.service_account
    if name is None:
        return
    path = f"/api/v1/namespaces/{case.namespace}/serviceaccounts"
    if case.find(f"{path}/{name}"):
        yield ok(f"service account {name} exists")
    else:
        yield failure(
            f"there is no service account {name} in namespace {case.namespace}",
            f"kubectl --namespace {case.namespace} create serviceaccount {name}",
        )


def priority(case: Case) -> Iterator[Result]:
    """The PriorityClass exists; pods that name an unknown one are refused."""
    name = case.config.cluster.priority
    if name is None:
        return
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    if case.find(f"{path}/{name}"):
        yield ok(f"priority class {name} exists")
        return
    known = [item["metadata"]["name"] for item in case.get(path)["items"]]
    yield failure(f"there is no priority class {name}.{did_you_mean(name, known)}", "--set cluster.priority=NAME")


def secret(case: Case) -> Iterator[Result]:
    """The Secret with the Hugging Face token exists and has the key; its value is not looked at."""
    named = case.config.cluster.hf_secret
    if named is None:
        return
    name, key = named.split("/")
    create = (
        f'printf %s "$HF_TOKEN" | kubectl --namespace {case.namespace} create secret generic {name} '
        f"--from-file={key}=/dev/stdin"
    )
    found = case.find(f"/api/v1/namespaces/{case.namespace}/secrets/{name}")
    if found is None:
        yield failure(f"there is no Secret {name} in namespace {case.namespace}", create)
        return
    keys = found.get("data", {})
    if key not in keys:
        there = ", ".join(sorted(keys)) or "none"
        yield failure(f"the Secret {name} has no key {key}; it has: {there}", f"--set cluster.hf_secret={name}/KEY")
    elif not keys[key]:
        yield failure(f"the key {key} of the Secret {name} is empty", f"kubectl delete secret {name}, then {create}")
    else:
        yield ok(f"Secret {name} has the key {key}")


def images(case: Case) -> Iterator[Result]:
    """Every image can be had by the cluster: none is a placeholder, or the name of a build on some machine."""
    used = sorted({image for group in groups(case.objects) for image in group.images})
    unreal = [image for image in used if "/PROJECT/" in image]
    here = [image for image in used if image.startswith("localhost/")]
    cure = "build it, see images/, push it, and set cluster.images to its address"
    for image in unreal:
        yield failure(f"the image {image} is a placeholder", cure)
    for image in here:
        text = f"the image {image} is on the machine that built it, and nowhere else"
        yield failure(text, cure) if case.config.cluster.gke else warning(text, f"{cure}, or load it into every node")
    if not unreal and not here:
        yield ok(f"images: {', '.join(used)}")


def _privileges(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("hostNetwork"):
        yield "the host's network"
    if any((c.get("securityContext") or {}).get("privileged") for c in spec["containers"]):
        yield "privileged containers"
