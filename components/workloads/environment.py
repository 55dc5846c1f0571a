"""The environment that MaxText gets on a machine without TPU. In: a `Plan`. Out: variables on top of the engine's own."""

from __future__ import annotations

from pathlib import Path

from components.plan import Plan

ROOT = Path(__file__).resolve().parents[2]


def cpu(plan: Plan) -> dict[str, str]:
    """JAX on the CPU with a persistent compile cache; no hub at run time, since every input is a local directory."""
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": plan.compile_cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONUNBUFFERED": "1",
        # the reward file and the entry import `components` wherever the process starts
        "PYTHONPATH": str(ROOT),
        # MaxText asks for a token even when nothing is fetched; this is not one
        "HF_TOKEN": "",
    }
