"""KubeRay and what RayJobs on TPU slices need of a cluster: its version, the webhook for TPUs, DRANET."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, warning
from pipelines.doctor.jobset import served_version

_CHART = "helm upgrade --install kuberay-operator kuberay/kuberay-operator --version 1.6.0"
_DEVICE_CLASS = "netdev.google.com"
_DRANET_MINOR = 34


def served(case: Case) -> Iterator[Result]:
    """KubeRay is installed."""
    yield served_version(case, "ray.io/v1", "KubeRay", _CHART)


def group_resources(case: Case) -> Iterator[Result]:
    """Worker groups may say their Ray resources (KubeRay 1.5 and later).

    Older versions drop the field without a word: Ray then sees 4 chips where a tpu7x host has 8 devices, and the job
    waits for ever.
    """
    if not any("resources" in group for group in _groups(case)):
        return
    schemas = case.get("/openapi/v3/apis/ray.io/v1")["components"]["schemas"]
    job = next(s for s in schemas.values() if {"kind": "RayJob"}.items() <= _kind(s).items())
    group = job["properties"]["spec"]["properties"]["rayClusterSpec"]["properties"]["workerGroupSpecs"]["items"]
    if "resources" in group["properties"]:
        yield ok("KubeRay knows the resources of a worker group (1.5 or later)")
    else:
        yield failure("KubeRay is older than 1.5 and drops the resources of worker groups without a word", _CHART)


def tpu_webhook(case: Case) -> Iterator[Result]:
    """The webhook that tells Ray's pods their place in a slice is there."""
    if case.config.tpu is None:
        return
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    names = [item["metadata"]["name"] for item in case.get(path)["items"]]
    found = [name for name in names if "tpu" in name and "ray" in name]
    if found:
        yield ok(f"KubeRay's webhook for TPUs is installed ({found[0]})")
    else:
        yield warning(
            "there is no KubeRay webhook for TPUs, so Ray's workers do not learn their place in the slice",
            "gcloud container clusters update CLUSTER --update-addons=RayOperator=ENABLED, or install kuberay-tpu-webhook",
        )


def dranet(case: Case) -> Iterator[Result]:
    """The network devices of a host can be claimed: Kubernetes 1.34 and later, with DRANET's DeviceClass."""
    if not any(manifest["kind"] == "ResourceClaimTemplate" for manifest in case.objects):
        return
    version = case.get("/version")
    minor = int(re.match(r"\d+", version["minor"])[0])  # type: ignore[index]  # it begins with digits: "34", "34+"
    if (int(version["major"]), minor) < (1, _DRANET_MINOR):
        yield failure(
            f"Kubernetes {version['gitVersion']} is older than 1.{_DRANET_MINOR}, whose claims DRANET uses",
            f"gcloud container clusters upgrade CLUSTER --master --cluster-version=1.{_DRANET_MINOR}",
        )
    elif case.find(f"/apis/resource.k8s.io/v1/deviceclasses/{_DEVICE_CLASS}") is None:
        yield failure(
            f"there is no DeviceClass {_DEVICE_CLASS}: DRANET is not enabled on this cluster's node pools",
            "make the node pools of the slices as docs/ray.md does, with two networks and "
            "--node-labels=cloud.google.com/gke-networking-dra-driver=true",
        )
    else:
        yield ok(f"DRANET: Kubernetes {version['gitVersion']} with the DeviceClass {_DEVICE_CLASS}")


def _groups(case: Case) -> Iterator[Mapping[str, Any]]:
    """The worker groups of all RayJobs."""
    for manifest in case.objects:
        if manifest["kind"] == "RayJob":
            yield from manifest["spec"]["rayClusterSpec"].get("workerGroupSpecs", [])


def _kind(schema: dict[str, Any]) -> dict[str, str]:
    """The kind of an object's schema."""
    for entry in schema.get("x-kubernetes-group-version-kind", []):
        if entry["group"] == "ray.io":
            return {"kind": entry["kind"]}
    return {}
