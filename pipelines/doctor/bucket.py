"""The bucket: it exists, this account may do in it what a run does, and it lies where the cluster is.

The launcher and the pods are different accounts. What the launcher may do is asked; what the pods' account may do cannot
be asked from here, so the account is named, with the commands that grant it what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from components import gcs, storage
from components.errors import UserError
from components.workloads import api
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, unknown, warning
from pipelines.doctor.gke import region_of
from pipelines.doctor.pods import groups

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

# buckets.get is what MaxText's gcsfs and Orbax ask beside the objects themselves; objectUser does not hold it
PERMISSIONS = (
    "storage.buckets.get",
    "storage.objects.create",
    "storage.objects.get",
    "storage.objects.list",
    "storage.objects.delete",
)
_REGION = "topology.kubernetes.io/region"
_YOU = "user:YOUR_ACCOUNT"
_KSA = (
    "principal://iam.googleapis.com/projects/PROJECT_NUMBER/locations/global/workloadIdentityPools/"
    "PROJECT.svc.id.goog/subject/ns/{namespace}/sa/{account}"
)
_ROLES = ("roles/storage.objectUser", "roles/storage.legacyBucketReader")
# cloud.google.com/storage/docs/locations: regions of the predefined dual-regions, and prefixes of the multi-regions
_DUAL: Mapping[str, tuple[str, ...]] = {
    "NAM4": ("us-central1", "us-east1"),
    "EUR4": ("europe-north1", "europe-west4"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}
_MULTI = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}


def permissions(case: Case) -> Iterator[Result]:
    """The bucket exists and allows this account what a run does."""
    if storage.is_local(case.store):
        yield failure(f"pods cannot reach {case.store}, a folder of this machine", "--store gs://BUCKET/posttrain")
    else:
        yield _permissions(_name(case))


def _permissions(name: str) -> Result:
    from google.api_core import exceptions

    place = f"gs://{name}"
    try:
        with gcs.errors("use", place):
            bucket = gcs.bucket(place)
            try:
                granted = bucket.test_iam_permissions(list(PERMISSIONS))
            except exceptions.NotFound:
                if not bucket.exists():
                    raise
                return unknown(f"{place} exists, on a server that does not tell what is permitted")
    except UserError as error:
        match error.__cause__:
            case exceptions.NotFound():
                cure = f"gcloud storage buckets create {place} --location=REGION_OF_THE_CLUSTER"
                return failure(f"there is no bucket {place}", cure)
            case exceptions.Forbidden() | exceptions.Unauthorized():
                return failure(f"this account may not even ask about {place}", _grant(name, _YOU))
        return unknown(str(error))
    missing = [permission for permission in PERMISSIONS if permission not in granted]
    if missing:
        return failure(f"not allowed in {place}: {', '.join(missing)}", _grant(name, _YOU))
    return ok(f"{place} exists, and this account may read, write and delete in it")


def region(case: Case) -> Iterator[Result]:
    """The bucket is in the region of the cluster: traffic between regions is slow and is paid for."""
    if storage.is_local(case.store):
        return
    place, here = f"gs://{_name(case)}", _region_of_cluster(case)
    with gcs.errors("locate", place):
        bucket = gcs.bucket(place)
        bucket.reload()
    if here is None:
        yield unknown(f"{place} is in {bucket.location}; where the cluster is, is not known", "--set cluster.gke=...")
    elif _is_in(here, bucket):
        yield ok(f"{place} is in {bucket.location}, the cluster in {here}")
    else:
        yield warning(
            f"{place} is in {bucket.location} and the cluster in {here}: transfers are slow and are paid for",
            f"gcloud storage buckets create gs://NAME --location={here}, then --store gs://NAME/posttrain",
        )


def identity(case: Case) -> Iterator[Result]:
    """Names the accounts by which the pods reach the bucket."""
    if storage.is_local(case.store) or os.environ.get("STORAGE_EMULATOR_HOST"):  # it knows no accounts
        return
    unseen = f"what it may do in gs://{_name(case)} cannot be seen from here"
    on_host = {bool(group.spec.get("hostNetwork")) for group in groups(case.objects)}
    if True in on_host:
        for account in sorted({pool.service_account for pool in case.gke.pools} if case.gke else {"NODE_ACCOUNT"}):
            text = f"pods on the host's network use the account of their node pool ({account}); {unseen}"
            yield unknown(text, _grant(_name(case), f"serviceAccount:{account}"))
    if False in on_host:
        account = case.config.cluster.service_account or "default"
        member = _KSA.format(namespace=case.namespace, account=account)
        text = f"other pods use the Kubernetes service account {account} (Workload Identity); {unseen}"
        yield unknown(text, _grant(_name(case), member))


def _name(case: Case) -> str:
    return gcs.split(case.store)[0]


def _region_of_cluster(case: Case) -> str | None:
    """From the cluster's name, else from the label of a node."""
    if case.config.cluster.gke:
        return region_of(case.config.cluster.gke.split("/")[3])
    try:
        nodes = case.get("/api/v1/nodes", labelSelector=_REGION, limit="1")["items"]
    except api.Refused:  # we may not look at nodes
        return None
    return str(nodes[0]["metadata"]["labels"][_REGION]) if nodes else None


def _is_in(region: str, bucket: Bucket) -> bool:
    """Whether a bucket keeps its bytes in a region, or in the part of the world around it."""
    location = bucket.location
    chosen = [place.lower() for place in bucket.data_locations or ()] or list(_DUAL.get(location, []))
    if chosen:
        return region in chosen
    return region == location.lower() or region.startswith(_MULTI.get(location, "nowhere"))


def _grant(bucket: str, member: str) -> str:
    return (
        f"for role in {' '.join(_ROLES)}; do gcloud storage buckets add-iam-policy-binding gs://{bucket} "
        f'--member="{member}" --role=$role; done'
    )
