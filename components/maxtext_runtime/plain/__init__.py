"""Small decoders in plain JAX with a key-value cache: the CPU rollout engine and the parity check run on them."""

from __future__ import annotations

import dataclasses
from typing import Any

from components.maxtext_runtime.plain.gemma4 import Gemma4
from components.maxtext_runtime.plain.layers import PlainModel
from components.maxtext_runtime.plain.qwen3 import Qwen3

_BY_MODEL_TYPE: dict[str, type[Qwen3] | type[Gemma4]] = {
    "qwen3": Qwen3,
    "qwen3_moe": Qwen3,
    "gemma4": Gemma4,
    "gemma4_text": Gemma4,
}


def plain_model(config: dict[str, Any], *, bf16_unembedding: bool = False) -> PlainModel | None:
    """The plain decoder for a Hugging Face config dictionary, or None for a family that has none here.

    bf16_unembedding imitates MaxText, which rounds a tied unembedding to bfloat16 whatever `dtype` says
    (maxtext/layers/embeddings.py, attend_on_embedding). Hugging Face does not.
    """
    family = _BY_MODEL_TYPE.get(config["model_type"])
    return dataclasses.replace(family.from_config(config), bf16_unembedding=bf16_unembedding) if family else None
