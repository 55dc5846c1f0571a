"""The environment of a workload's process, by the machine that it runs on."""

from __future__ import annotations

import os

from components import storage
from components.plan import AnyPlan
from components.workloads.places import PACKAGE
from components.workloads.workload import Cpu, Ray, Tpu


def common() -> dict[str, str]:
    """What every process gets: no hub at run time, since every input is at hand, and output as it comes."""
    return {
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONUNBUFFERED": "1",
        # the reward file and the entry import `components` wherever the process starts
        "PYTHONPATH": os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH")))),
        # MaxText asks for a token even when nothing is fetched; an empty one is none
        "HF_TOKEN": os.environ.get("HF_TOKEN", ""),
    }


def machine(needs: Cpu | Tpu | Ray) -> dict[str, str]:
    """JAX on the CPU where there is no TPU; a TPU pod's manifest says how JAX reaches the slice."""
    return {"JAX_PLATFORMS": "cpu"} if isinstance(needs, Cpu) or (isinstance(needs, Ray) and not needs.slice) else {}


def compile_cache(plan: AnyPlan) -> dict[str, str]:
    """JAX' persistent compile cache, where the store is a folder of this machine."""
    if not storage.is_local(plan.store):
        return {}
    return {
        "JAX_COMPILATION_CACHE_DIR": plan.compile_cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
