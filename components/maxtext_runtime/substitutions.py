"""Puts the CPU rollout engine where `train_rl` imports its vLLM engine from.

`maxtext.trainers.post_train.rl.train_rl` imports two modules that need vLLM on TPU. They are replaced by modules of the
same name and surface before that import; nothing else of train_rl changes.
"""

from __future__ import annotations

import sys
import types
from typing import Any

_PACKAGE = "maxtext.integration.vllm"
ENGINE = "JAX sampler on CPU in place of vLLM on TPU"
ENGINE_LINE = f"rollout engine: {ENGINE}"


def use_cpu_rollout() -> None:
    """Registers the two modules and says so in one line on stdout. Call before train_rl is imported."""
    import maxtext.integration.vllm as package

    from components.maxtext_runtime.cpu_rollout import CpuRollout

    surfaces: dict[str, dict[str, Any]] = {
        "maxtext_vllm_adapter": {"register": lambda config=None: None},
        "maxtext_vllm_rollout": {"MaxTextVllmRollout": CpuRollout},
    }
    for name, surface in surfaces.items():
        module = types.ModuleType(f"{_PACKAGE}.{name}")
        module.__dict__.update(surface)
        sys.modules[module.__name__] = module
        setattr(package, name, module)
    print(ENGINE_LINE, flush=True)
