"""What a pod of the Ray cluster has as folders: shared memory, a bucket, scratch."""

from __future__ import annotations

from components.workloads.amounts import gigabytes
from components.workloads.jobset.models import CSI, EmptyDir, PodSpec, Quantity, Volume, VolumeMount

# where GCS FUSE shows buckets, each under its name
BUCKETS = "/gcs"
# of every pod that has one; without limits the sidecar that mounts it gets what it needs
FUSE_ANNOTATIONS = {
    "gke-gcsfuse/volumes": "true",
    "gke-gcsfuse/cpu-limit": "0",
    "gke-gcsfuse/memory-limit": "0",
    "gke-gcsfuse/ephemeral-storage-limit": "0",
}
# folders without objects of their own are seen too, and what was read is kept on the node's disk
_FUSE_OPTIONS = "implicit-dirs,file-cache:max-size-mb:-1"


def add_shared_memory(spec: PodSpec, limit_gb: float | None) -> None:
    """Gives the container /dev/shm for Ray's objects; Kubernetes' own has 64 MB. It counts as memory of the pod."""
    size = Quantity(gigabytes(limit_gb)) if limit_gb else None
    _add(spec, Volume(name="dshm", empty_dir=EmptyDir(medium="Memory", size_limit=size)), "/dev/shm")


def add_scratch(spec: PodSpec, size_gb: float) -> None:
    """Gives the container a disk below /tmp, where inputs and outputs are put. A pod that outgrows it is evicted."""
    _add(spec, Volume(name="scratch", empty_dir=EmptyDir(size_limit=Quantity(gigabytes(size_gb)))), "/tmp")


def add_bucket(spec: PodSpec, bucket: str) -> None:
    """Shows a bucket as a folder, through GKE's driver for GCS FUSE."""
    attributes = {"bucketName": bucket, "mountOptions": _FUSE_OPTIONS}
    driver = CSI(driver="gcsfuse.csi.storage.gke.io", volume_attributes=attributes)
    _add(spec, Volume(name="bucket", csi=driver), f"{BUCKETS}/{bucket}")


def _add(spec: PodSpec, volume: Volume, path: str) -> None:
    container = spec.containers[0]
    spec.volumes = [*(spec.volumes or []), volume]
    container.volume_mounts = [*(container.volume_mounts or []), VolumeMount(name=volume.name, mount_path=path)]
