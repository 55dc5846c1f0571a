"""Folders that a pod has beside those of its image: shared memory, and a disk for inputs and outputs."""

from __future__ import annotations

from components.workloads.amounts import gigabytes
from components.workloads.jobset.models import EmptyDir, PodSpec, Quantity, Volume, VolumeMount


def add_shared_memory(spec: PodSpec, limit_gb: float | None = None) -> None:
    """Gives the container /dev/shm, up to `limit_gb`, else as large as the pod's memory, as part of which it counts.

    Kubernetes' own has 64 MB. Processes of a host hand each other data through it: those of vLLM, of Ray, of a data
    loader. Containers on TPU hosts have it from Google too: in tpu-recipes,
    inference/trillium/vLLM/Gemma4-MTP/gemma4-mtp-gke.yaml, and in the JobSets of cluster-toolkit,
    GoogleCloudPlatform/cluster-toolkit#6314.
    """
    size = Quantity(gigabytes(limit_gb)) if limit_gb else None
    add(spec, Volume(name="dshm", empty_dir=EmptyDir(medium="Memory", size_limit=size)), "/dev/shm")


def add_scratch(spec: PodSpec, size_gb: float) -> None:
    """Gives the container a disk below /tmp, where inputs and outputs are put.

    A pod that outgrows it is evicted by name, before the node's disk is full and others are.
    """
    add(spec, Volume(name="scratch", empty_dir=EmptyDir(size_limit=Quantity(gigabytes(size_gb)))), "/tmp")


def add(spec: PodSpec, volume: Volume, path: str) -> None:
    """Shows a volume to the first container as the folder `path`."""
    container = spec.containers[0]
    spec.volumes = [*(spec.volumes or []), volume]
    container.volume_mounts = [*(container.volume_mounts or []), VolumeMount(name=volume.name, mount_path=path)]
