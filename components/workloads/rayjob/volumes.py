"""What only pods of a Ray cluster have as a folder: a bucket."""

from __future__ import annotations

from components.workloads.jobset.models import CSI, PodSpec, Volume
from components.workloads.jobset.volumes import add

# where GCS FUSE shows buckets, each under its name
_BUCKETS = "/gcs"
# of every pod that has one; without limits the sidecar that mounts it gets what it needs
FUSE_ANNOTATIONS = {
    "gke-gcsfuse/volumes": "true",
    "gke-gcsfuse/cpu-limit": "0",
    "gke-gcsfuse/memory-limit": "0",
    "gke-gcsfuse/ephemeral-storage-limit": "0",
}
# folders without objects of their own are seen too, and what was read is kept on the node's disk
_FUSE_OPTIONS = "implicit-dirs,file-cache:max-size-mb:-1"


def add_bucket(spec: PodSpec, bucket: str) -> None:
    """Shows a bucket as a folder, through GKE's driver for GCS FUSE."""
    attributes = {"bucketName": bucket, "mountOptions": _FUSE_OPTIONS}
    driver = CSI(driver="gcsfuse.csi.storage.gke.io", volume_attributes=attributes)
    add(spec, Volume(name="bucket", csi=driver), f"{_BUCKETS}/{bucket}")
