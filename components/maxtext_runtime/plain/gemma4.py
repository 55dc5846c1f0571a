"""The text decoder of Gemma 4 with its mixture of experts, in plain JAX, from Hugging Face weights.

Architecture (transformers: modeling_gemma4.py): five sliding-window layers, then one global layer with its own head
size, fewer key-value heads and values equal to the unnormalised keys; normalised queries, keys and values; a dense MLP
and a mixture of experts side by side in every layer; a scalar per layer; soft-capped logits.
"""

from __future__ import annotations

import functools
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

_gelu = functools.partial(jax.nn.gelu, approximate=True)  # "gelu_pytorch_tanh"


@dataclass(frozen=True)
class Attention:
    """One kind of attention layer. window None is global; shared_values uses the keys as values."""

    kv_heads: int
    head_dim: int
    rope_theta: float
    rotated: float
    window: int | None
    shared_values: bool


@dataclass(frozen=True)
class Gemma4:
    """The sizes that the forward pass needs; hashable. bf16_unembedding: see `plain_model`."""

    size: int
    heads: int
    layers: tuple[Attention, ...]
    epsilon: float
    experts_per_token: int
    softcap: float | None
    prefix: str
    bf16_unembedding: bool = False

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Gemma4:
        """From the dictionary of a Hugging Face config.json of model_type gemma4 or gemma4_text.

        Raises ValueError for a variant that this code does not compute (the E models, dense Gemma 4, biases).
        """
        text = config.get("text_config") or config
        if not text["enable_moe_block"] or text.get("num_kv_shared_layers") or text.get("hidden_size_per_layer_input"):
            raise ValueError("plain Gemma 4 knows the mixture-of-experts model without per-layer inputs only")
        if text["hidden_activation"] != "gelu_pytorch_tanh" or text.get("attention_bias"):
            raise ValueError("plain Gemma 4 expects gelu_pytorch_tanh and attention without bias")
        ropes = text["rope_parameters"]
        sliding, full = ropes["sliding_attention"], ropes["full_attention"]
        equal = bool(text["attention_k_eq_v"])
        kinds = {
            "sliding_attention": Attention(
                kv_heads=text["num_key_value_heads"],
                head_dim=text["head_dim"],
                rope_theta=float(sliding["rope_theta"]),
                rotated=float(sliding.get("partial_rotary_factor", 1.0)),
                window=text["sliding_window"],
                shared_values=False,
            ),
            "full_attention": Attention(
                kv_heads=text["num_global_key_value_heads"] if equal else text["num_key_value_heads"],
                head_dim=text["global_head_dim"] or text["head_dim"],
                rope_theta=float(full["rope_theta"]),
                rotated=float(full.get("partial_rotary_factor", 1.0)),
                window=None,
                shared_values=equal,
            ),
        }
        return cls(
            size=text["hidden_size"],
            heads=text["num_attention_heads"],
            layers=tuple(kinds[kind] for kind in text["layer_types"]),
            epsilon=float(text["rms_norm_eps"]),
            experts_per_token=text["top_k_experts"],
            softcap=text.get("final_logit_softcapping"),
            prefix="model.language_model." if config.get("vision_config") else "model.",
        )

    def prepare(self, weights: Weights) -> dict[str, Any]:
        # the vision tower is not part of a text-only forward pass
        w = {
            name.removeprefix(self.prefix): array.astype(jnp.float32)
            for name, array in weights.items()
            if name.startswith(self.prefix)
        }
        layers = []
        for i in range(len(self.layers)):
            start = f"layers.{i}."
            layer = {name.removeprefix(start): array for name, array in w.items() if name.startswith(start)}
            layer["experts.gate"], layer["experts.up"] = jnp.split(layer.pop("experts.gate_up_proj"), 2, axis=1)
            layers.append(layer)
        embedding = w["embed_tokens.weight"]
        head = embedding
        if self.bf16_unembedding:
            # MaxText stores the table times sqrt(size), and rounds that
            head = bf16_rounded(embedding * math.sqrt(self.size)) / math.sqrt(self.size)
        return {"embedding": embedding, "layers": layers, "norm": w["norm.weight"], "head": head}

    def empty_cache(self, rows: int, columns: int) -> Cache:
        empties = (jnp.zeros((rows, columns, layer.kv_heads, layer.head_dim), jnp.float32) for layer in self.layers)
        return [(empty, empty) for empty in empties]

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
        x = params["embedding"][tokens] * math.sqrt(self.size)
        written: Cache = []
        for kind, w, layer_cache in zip(self.layers, params["layers"], cache, strict=True):
            mixed, layer_cache = self._attention(kind, w, x, positions, key_mask, layer_cache, column)
            written.append(layer_cache)
            x = x + rms_norm(mixed, w["post_attention_layernorm.weight"], self.epsilon)
            added = self._dense(w, x) + self._mixture(w, x)
            x = (x + rms_norm(added, w["post_feedforward_layernorm.weight"], self.epsilon)) * w["layer_scalar"]
        x = x if last is None else x[:, -last:]
        logits = rms_norm(x, params["norm"], self.epsilon) @ params["head"].T
        return (logits if not self.softcap else jnp.tanh(logits / self.softcap) * self.softcap), written

    def _attention(
        self,
        kind: Attention,
        w: Weights,
        x: jax.Array,
        positions: jax.Array,
        key_mask: jax.Array,
        cache: LayerCache,
        column: jax.Array,
    ) -> tuple[jax.Array, LayerCache]:
        rows, time, _ = x.shape
        x = rms_norm(x, w["input_layernorm.weight"], self.epsilon)
        query = (x @ w["self_attn.q_proj.weight"].T).reshape(rows, time, self.heads, kind.head_dim)
        key = (x @ w["self_attn.k_proj.weight"].T).reshape(rows, time, kind.kv_heads, kind.head_dim)
        if kind.shared_values:
            value = key
        else:
            value = (x @ w["self_attn.v_proj.weight"].T).reshape(rows, time, kind.kv_heads, kind.head_dim)
        query = rms_norm(query, w["self_attn.q_norm.weight"], self.epsilon)
        key = rms_norm(key, w["self_attn.k_norm.weight"], self.epsilon)
        query = rope(query, positions, kind.rope_theta, kind.rotated)
        key = rope(key, positions, kind.rope_theta, kind.rotated)
        cache = write_cache(cache, key, rms_norm(value, None, self.epsilon), column)
        mixed = attention(query, cache, key_mask, column, 1.0, kind.window)
        return mixed @ w["self_attn.o_proj.weight"].T, cache

    def _dense(self, w: Weights, x: jax.Array) -> jax.Array:
        x = rms_norm(x, w["pre_feedforward_layernorm.weight"], self.epsilon)
        hidden = _gelu(x @ w["mlp.gate_proj.weight"].T) * (x @ w["mlp.up_proj.weight"].T)
        return rms_norm(hidden @ w["mlp.down_proj.weight"].T, w["post_feedforward_layernorm_1.weight"], self.epsilon)

    def _mixture(self, w: Weights, x: jax.Array) -> jax.Array:
        routed = rms_norm(x, None, self.epsilon) * w["router.scale"] / math.sqrt(self.size)
        probabilities = jax.nn.softmax(routed @ w["router.proj.weight"].T, axis=-1)
        weights = router_weights(probabilities, self.experts_per_token, normalise=True) * w["router.per_expert_scale"]
        x = rms_norm(x, w["pre_feedforward_layernorm_2.weight"], self.epsilon)
        x = experts_mlp(x, weights, w["experts.gate"], w["experts.up"], w["experts.down_proj"], _gelu)
        return rms_norm(x, w["post_feedforward_layernorm_2.weight"], self.epsilon)
