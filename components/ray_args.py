"""What the stages of the Ray pipelines tell their programs and ask of the cluster.

Pure functions: a configuration and places in, machines and lists of arguments out. The same builders serve every engine, so
a run on a laptop tests the command line that a slice gets.
"""

from __future__ import annotations

import json

from components import storage, tpu
from components.errors import UserError
from components.ray_config import RayConfig
from components.tpu import GenerationName, Slice
from components.workloads.workload import Cpu, Ray

# Ray's names of the chips (ray.util.accelerators)
_ACCELERATORS: dict[GenerationName, str] = {
    "v5e": "TPU-V5LITEPOD",
    "v5p": "TPU-V5P",
    "v6e": "TPU-V6E",
    "tpu7x": "TPU-V7X",
}

# The topologies that Ray 2.60 has (ray/_private/accelerators/tpu.py, VALID_TPU_TOPOLOGY), those in three dimensions; it
# refuses others when all pods are up.
_SMALL = frozenset({"2x2x1", "2x2x2", "2x2x4", "2x4x4"})
_OF_TPU7X = _SMALL | {"4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16"}
_LARGEST_V5P = (16, 16, 24)

# Of a driver, and through it of all that it starts. A cluster has these for its own pods too.
ENV = {
    # Ray's own authentication wants a token in the home directory
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # every line of a worker reaches the log, once, without colours
    "RAY_DEDUP_LOGS": "0",
    "RAY_COLOR_PREFIX": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
    # started below `uv run`, Ray would start its workers by that same command, in this project's environment instead of
    # the image's
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}


def slice_of(config: RayConfig) -> Slice | None:
    """The kind of slice whose hosts are the workers' machines."""
    return tpu.parse(config.tpu.slice) if config.tpu else None


def check_slice(slice_: Slice) -> None:
    """Raises UserError for a slice that Ray does not know, or whose hosts it takes for others."""
    if slice_.generation in ("v5e", "v6e"):
        # it takes every slice of 8 chips for one host
        known = slice_.topology != "2x4" or slice_.hosts == 1
    elif slice_.generation == "tpu7x":
        known = slice_.topology in _OF_TPU7X
    else:
        sides = [int(side) for side in slice_.topology.split("x")]
        cubes = all(side % 4 == 0 and side <= most for side, most in zip(sides, _LARGEST_V5P, strict=True))
        known = slice_.topology in _SMALL or cubes
    if not known:
        raise UserError(
            f"tpu.slice: Ray 2.60 has no {slice_.generation} slice of {slice_.topology} on {slice_.hosts} hosts: take "
            "another size."
        )


def machines(config: RayConfig, store: str, *, least: int | None = None) -> Ray:
    """The Ray cluster that a stage asks for.

    Args:
      config: the preset.
      store: root of what runs share, in whose bucket the programs write.
      least: with how few slices, or workers without chips, the work goes on; None is with all of them.
    """
    pods = config.ray
    replicas = config.tpu.slices if config.tpu else pods.workers
    return Ray(
        head=Cpu(cores=pods.head_cpu, memory_gb=pods.head_memory_gb),
        worker=Cpu(cores=pods.worker_cpu, memory_gb=pods.worker_memory_gb),
        slice=slice_of(config),
        replicas=replicas,
        least=least or replicas,
        shared_memory_gb=pods.shared_memory_gb,
        network_devices=pods.network_devices if config.tpu and config.tpu.slices > 1 else 0,
        bucket=store.removeprefix("gs://").split("/")[0] if pods.gcs_fuse else None,
        env=pods.env,
    )


def written_at(config: RayConfig, uri: str) -> str:
    """The address by which programs write to a place: its own, or with GCS FUSE a folder of every pod."""
    return f"/gcs/{uri.removeprefix('gs://')}" if config.ray.gcs_fuse and not storage.is_local(uri) else uri


def per_device(config: RayConfig) -> list[str]:
    """Options of a program with a worker for each device, as TorchTPU wants it."""
    slice_ = slice_of(config)
    return _options(config, slice_.devices if slice_ else config.ray.workers)


def per_host(config: RayConfig) -> list[str]:
    """Options of a program with a worker for each host, as JAX wants it; they say also how many chips a host has."""
    slice_ = slice_of(config)
    if slice_ is None or config.tpu is None:
        return _options(config, config.ray.workers)
    chips = slice_.chips_per_host * (slice_.devices // slice_.chips)
    return [*_options(config, slice_.hosts * config.tpu.slices), f"--chips={chips}"]


def _options(config: RayConfig, workers: int) -> list[str]:
    slice_ = slice_of(config)
    where = (
        [f"--topology={slice_.topology}", f"--accelerator-type={_ACCELERATORS[slice_.generation]}"] if slice_ else []
    )
    return [f"--workers={workers}", *where]


def quoted(text: str) -> str:
    """A text as JSON in which a command's places (`@name@`) are none."""
    return json.dumps(text).replace("@", "\\u0040")


def address_of(path: str) -> str:
    """The address of a place that programs may have written through GCS FUSE: the reverse of `written_at`."""
    return f"gs://{path.removeprefix('/gcs/')}" if path.startswith("/gcs/") else path
