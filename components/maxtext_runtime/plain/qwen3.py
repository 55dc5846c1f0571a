"""Qwen3 and Qwen3-MoE in plain JAX, from Hugging Face weights.

Architecture: grouped-query attention with normalised queries and keys, rotary positions, gated SiLU MLP or a
mixture of them, root-mean-square norms (transformers: modeling_qwen3.py, modeling_qwen3_moe.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from components.maxtext_runtime.plain.layers import (
    Cache,
    LayerCache,
    Weights,
    attention,
    bf16_rounded,
    experts_mlp,
    rms_norm,
    rope,
    router_weights,
    write_cache,
)


@dataclass(frozen=True)
class Qwen3:
    """The sizes that the forward pass needs; hashable. experts == 0 means a dense MLP.

    bf16_unembedding: see `plain_model`.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    epsilon: float
    tied: bool
    experts: int = 0
    experts_per_token: int = 0
    normalise_router: bool = True
    bf16_unembedding: bool = False

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Qwen3:
        """From the dictionary of a Hugging Face config.json of model_type qwen3 or qwen3_moe.

        Raises ValueError for a variant that this code does not compute.
        """
        rope_parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
        if rope_parameters.get("rope_type", "default") != "default" or config.get("use_sliding_window"):
            raise ValueError("plain Qwen3 knows default rotary positions and full attention only")
        if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
            raise ValueError("plain Qwen3-MoE expects a mixture of experts in every layer")
        mixture = config["model_type"] == "qwen3_moe"
        return cls(
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            rope_theta=float(config.get("rope_theta") or rope_parameters["rope_theta"]),
            epsilon=float(config["rms_norm_eps"]),
            tied=bool(config["tie_word_embeddings"]),
            experts=(config.get("num_experts") or config["num_local_experts"]) if mixture else 0,
            experts_per_token=config["num_experts_per_tok"] if mixture else 0,
            normalise_router=bool(config.get("norm_topk_prob", True)),
        )

    def prepare(self, weights: Weights) -> dict[str, Any]:
        w = {name: array.astype(jnp.float32) for name, array in weights.items()}
        layers = []
        for i in range(self.layers):
            prefix = f"model.layers.{i}."
            layer = {name.removeprefix(prefix): array for name, array in w.items() if name.startswith(prefix)}
            if self.experts:
                for part in ("gate_proj", "up_proj", "down_proj"):
                    names = [f"mlp.experts.{e}.{part}.weight" for e in range(self.experts)]
                    layer[f"mlp.experts.{part}"] = jnp.stack([layer.pop(name) for name in names])
            layers.append(layer)
        embedding = w["model.embed_tokens.weight"]
        head = embedding if self.tied else w["lm_head.weight"]
        if self.tied and self.bf16_unembedding:
            head = bf16_rounded(head)
        return {"embedding": embedding, "layers": layers, "norm": w["model.norm.weight"], "head": head}

    def empty_cache(self, rows: int, columns: int) -> Cache:
        empty = jnp.zeros((rows, columns, self.kv_heads, self.head_dim), jnp.float32)
        return [(empty, empty) for _ in range(self.layers)]

    def forward(
        self,
        params: dict[str, Any],
        tokens: jax.Array,
        positions: jax.Array,
        key_mask: jax.Array,
        cache: Cache,
        column: jax.Array,
        last: int | None = None,
    ) -> tuple[jax.Array, Cache]:
        x = params["embedding"][tokens]
        written: Cache = []
        for w, layer_cache in zip(params["layers"], cache, strict=True):
            mixed, layer_cache = self._attention(w, x, positions, key_mask, layer_cache, column)
            written.append(layer_cache)
            x = x + mixed
            x = x + self._mlp(w, rms_norm(x, w["post_attention_layernorm.weight"], self.epsilon))
        x = x if last is None else x[:, -last:]
        return rms_norm(x, params["norm"], self.epsilon) @ params["head"].T, written

    def _attention(
        self,
        w: Weights,
        x: jax.Array,
        positions: jax.Array,
        key_mask: jax.Array,
        cache: LayerCache,
        column: jax.Array,
    ) -> tuple[jax.Array, LayerCache]:
        rows, time, _ = x.shape
        x = rms_norm(x, w["input_layernorm.weight"], self.epsilon)
        query = (x @ w["self_attn.q_proj.weight"].T).reshape(rows, time, self.heads, self.head_dim)
        key = (x @ w["self_attn.k_proj.weight"].T).reshape(rows, time, self.kv_heads, self.head_dim)
        value = (x @ w["self_attn.v_proj.weight"].T).reshape(rows, time, self.kv_heads, self.head_dim)
        query = rope(rms_norm(query, w["self_attn.q_norm.weight"], self.epsilon), positions, self.rope_theta)
        key = rope(rms_norm(key, w["self_attn.k_norm.weight"], self.epsilon), positions, self.rope_theta)
        cache = write_cache(cache, key, value, column)
        mixed = attention(query, cache, key_mask, column, 1 / math.sqrt(self.head_dim))
        return mixed @ w["self_attn.o_proj.weight"].T, cache

    def _mlp(self, w: Weights, x: jax.Array) -> jax.Array:
        if self.experts:
            probabilities = jax.nn.softmax(x @ w["mlp.gate.weight"].T, axis=-1)
            weights = router_weights(probabilities, self.experts_per_token, self.normalise_router)
            gate, up, down = (w[f"mlp.experts.{part}"] for part in ("gate_proj", "up_proj", "down_proj"))
            return experts_mlp(x, weights, gate, up, down, jax.nn.silu)
        hidden = jax.nn.silu(x @ w["mlp.gate_proj.weight"].T) * (x @ w["mlp.up_proj.weight"].T)
        return hidden @ w["mlp.down_proj.weight"].T
