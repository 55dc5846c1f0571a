"""Node pools that are not there as nodes: which would grow, and the command that makes one.

Shapes of N4 machines: cloud.google.com/compute/docs/general-purpose-machines.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal

from components import tpu
from pipelines.doctor import pods
from pipelines.doctor.case import Case
from pipelines.doctor.gke import Pool
from pipelines.doctor.pods import Group

POOL = "cloud.google.com/gke-nodepool"

_CORES = (4, 8, 16, 32, 48, 64, 80)
_GB_PER_CORE = {"n4-standard": 4, "n4-highmem": 8}
# what GKE leaves to pods of a machine: it keeps up to a tenth of the memory, and daemons run beside them
_USABLE = 0.85
# GiB of a boot disk: GKE's default, below which images have little room, and the step in which larger ones are proposed
_DISK_LEAST, _DISK_STEP = 100, 10


def would_grow(pool: Pool, case: Case, group: Group) -> bool:
    """Whether a pool grows by itself to nodes for a group."""
    if group.selector.get(POOL, pool.name) != pool.name or pool.most < group.pods:
        return False
    wanted = _slice(case) if group.is_slice else None
    return wanted is None or (pool.machine_type == wanted.machine_type and pool.topology in ("", wanted.topology))


def wanted(group: Group) -> str:
    """What one pod asks for, for a person."""
    return ", ".join(pods.written(name, amount) for name, amount in group.requests.items())


def make(case: Case, groups: Sequence[Group], *, beside: bool) -> str:
    """The gcloud command that makes a pool for groups with the same labels; `beside` one of that name which won't do."""
    where = case.gke.flags() if case.gke else "--cluster=CLUSTER --location=LOCATION"
    wanted = groups[0].selector.get(POOL)
    name = wanted if wanted and not beside else "NAME"
    shape = _slice_flags(case) if groups[0].is_slice else _machine_flags(groups)
    command = f"gcloud container node-pools create {' '.join([name, where, *shape])}"
    return f"{command}, then --set cluster.cpu_pool=NAME" if wanted and beside else command


def _slice_flags(case: Case) -> list[str]:
    wanted, settings = _slice(case), case.config.tpu
    assert settings
    topology = [f"--tpu-topology={wanted.topology}"] if wanted.hosts > 1 else []
    capacity = {
        "on-demand": [],
        "spot": ["--spot"],
        "reservation": ["--reservation-affinity=specific", f"--reservation={settings.reservation}"],
    }
    machines = [f"--machine-type={wanted.machine_type}", *topology, f"--num-nodes={wanted.hosts}"]
    return machines + capacity[settings.capacity]


def _machine_flags(groups: Sequence[Group]) -> list[str]:
    """The smallest machine that has room for one pod of each group in turn, with disk where one asks for it."""
    cores, memory, disk = (
        float(max(group.requests.get(name, Decimal()) for group in groups))
        for name in (pods.CPU, pods.MEMORY, pods.DISK)
    )
    fitting = [
        (size * per_core, f"{kind}-{size}")
        for kind, per_core in _GB_PER_CORE.items()
        for size in _CORES
        if size * _USABLE >= cores and size * per_core * 2**30 * _USABLE >= memory
    ]
    machine = min(fitting)[1] if fitting else "MACHINE_TYPE"
    size = [f"--disk-size={_boot_disk(disk / 2**30)}"] if disk else []
    return [f"--machine-type={machine}", *size, "--enable-autoscaling --num-nodes=0 --max-nodes=2"]


def _boot_disk(asked: float) -> int:
    """The smallest boot disk of which a pod may have `asked`, in GiB, which gcloud's --disk-size calls GB."""
    return next(size for size in itertools.count(_DISK_LEAST, _DISK_STEP) if _left_to_pods(size) >= asked)


def _left_to_pods(disk: float) -> float:
    """What pods may ask for of a boot disk, in GiB. Images and the system live on what GKE keeps.

    The file system is smaller than the disk: by as much as the cluster autoscaler reckons with for Container-Optimized OS
    (CalculateOSReservedEphemeralStorage in cluster-autoscaler/cloudprovider/gce of kubernetes/autoscaler). GKE keeps a
    part of the disk, and a tenth of the file system below which kubelet evicts:
    cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes#local_ephemeral_storage_reservation.
    """
    file_system = disk - (0.016635 * disk + 4.148)
    return 0.9 * file_system - min(0.5 * disk, 6 + 0.35 * disk, 100)


def _slice(case: Case) -> tpu.Slice:
    assert case.config.tpu
    return tpu.parse(case.config.tpu.slice)
