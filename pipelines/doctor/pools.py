"""Node pools that are not there as nodes: which would grow, and the command that makes one.

Shapes of N4 machines: cloud.google.com/compute/docs/general-purpose-machines.
"""

from __future__ import annotations

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
# what GKE leaves to pods of a boot disk, beside the system's own and the images
_DISK_USABLE, _IMAGES_GB = 0.8, 40


def would_grow(pool: Pool, case: Case, group: Group) -> bool:
    """Whether a pool grows by itself to nodes for a group."""
    if group.selector.get(POOL, pool.name) != pool.name or pool.most < group.pods:
        return False
    wanted = _slice(case) if group.is_slice else None
    return wanted is None or (pool.machine_type == wanted.machine_type and pool.topology in ("", wanted.topology))


def wanted(group: Group) -> str:
    """What one pod asks for, for a person."""
    return ", ".join(pods.written(name, amount) for name, amount in group.requests.items())


def make(case: Case, group: Group, *, beside: bool) -> str:
    """The gcloud command that makes a pool for a group; `beside` one of the wanted name that does not do."""
    where = case.gke.flags() if case.gke else "--cluster=CLUSTER --location=LOCATION"
    wanted = group.selector.get(POOL)
    name = wanted if wanted and not beside else "NAME"
    command = f"gcloud container node-pools create {' '.join([name, where, *_shape(case, group)])}"
    return f"{command}, then --set cluster.cpu_pool=NAME" if wanted and beside else command


def _shape(case: Case, group: Group) -> list[str]:
    if not group.is_slice:
        disk = float(group.requests.get(pods.DISK, 0)) / 1e9
        size = [f"--disk-size={disk / _DISK_USABLE + _IMAGES_GB:.0f}"] if disk else []
        return [f"--machine-type={_machine(group)}", *size, "--enable-autoscaling --num-nodes=0 --max-nodes=2"]
    wanted = _slice(case)
    settings = case.config.tpu
    assert settings
    topology = [f"--tpu-topology={wanted.topology}"] if wanted.hosts > 1 else []
    capacity = {
        "on-demand": [],
        "spot": ["--spot"],
        "reservation": ["--reservation-affinity=specific", f"--reservation={settings.reservation}"],
    }
    return [
        f"--machine-type={wanted.machine_type}",
        *topology,
        f"--num-nodes={wanted.hosts}",
        *capacity[settings.capacity],
    ]


def _machine(group: Group) -> str:
    """The smallest machine that has room for one pod of a group."""
    cores, memory = (float(group.requests.get(name, 0)) / _USABLE for name in (pods.CPU, pods.MEMORY))
    fitting = [
        (size * per_core, f"{kind}-{size}")
        for kind, per_core in _GB_PER_CORE.items()
        for size in _CORES
        if size >= cores and size * per_core * 2**30 >= memory
    ]
    return min(fitting)[1] if fitting else "MACHINE_TYPE"


def _slice(case: Case) -> tpu.Slice:
    assert case.config.tpu
    return tpu.parse(case.config.tpu.slice)
