"""Forward pass of a dense Qwen3 in plain JAX, for training the warm start: no cache, no sampling.

Weights are a flat dictionary with Hugging Face's names and layouts (a projection is [out, in]), so that they are saved
as they are. Architecture: pre-norm RMSNorm, grouped-query attention with RMSNorm on queries and keys, rotary positions,
SwiGLU, tied output layer (Qwen3 Technical Report, arXiv:2505.09388; layout as in transformers' Qwen3ForCausalLM).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

Weights = dict[str, jax.Array]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; hashable, so that it can be a static argument of a jitted function."""

    layers: int
    hidden: int
    intermediate: int
    query_heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    rope_theta: float
    epsilon: float = 1e-6


def initial_weights(key: jax.Array, shape: Shape) -> Weights:
    """Draws float32 weights: normal, variance 1/fan_in, half the size where a projection feeds the residual."""
    keys = iter(jax.random.split(key, 7 * shape.layers + 1))

    def matrix(rows: int, columns: int, gain: float = 1.0) -> jax.Array:
        return jax.random.normal(next(keys), (rows, columns)) * gain / math.sqrt(columns)

    hidden, wide = shape.hidden, shape.intermediate
    queries, keys_values = shape.query_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    weights = {
        "model.embed_tokens.weight": jax.random.normal(next(keys), (shape.vocab, hidden)) * 0.05,
        "model.norm.weight": jnp.ones(hidden),
    }
    for i in range(shape.layers):
        layer = {
            "input_layernorm": jnp.ones(hidden),
            "self_attn.q_proj": matrix(queries, hidden),
            "self_attn.k_proj": matrix(keys_values, hidden),
            "self_attn.v_proj": matrix(keys_values, hidden),
            "self_attn.o_proj": matrix(hidden, queries, 0.5),
            "self_attn.q_norm": jnp.ones(shape.head_dim),
            "self_attn.k_norm": jnp.ones(shape.head_dim),
            "post_attention_layernorm": jnp.ones(hidden),
            "mlp.gate_proj": matrix(wide, hidden),
            "mlp.up_proj": matrix(wide, hidden),
            "mlp.down_proj": matrix(hidden, wide, 0.5),
        }
        weights |= {f"model.layers.{i}.{name}.weight": value for name, value in layer.items()}
    return weights


def forward(weights: Weights, shape: Shape, tokens: jax.Array, valid: jax.Array) -> jax.Array:
    """Returns the next-token logits, float32 [batch, length, vocab].

    Args:
      weights: see `initial_weights`.
      shape: the sizes that belong to them.
      tokens: int32 [batch, length].
      valid: bool [batch, length]; False where a token is padding, on either side. Positions count valid tokens only.
    """
    batch, length = tokens.shape
    group = shape.query_heads // shape.kv_heads
    positions = jnp.maximum(jnp.cumsum(valid, axis=1) - 1, 0)
    causal = jnp.tril(jnp.ones((length, length), bool))
    bias = jnp.where(causal & valid[:, None, :], 0.0, -1e9)[:, None, None]  # [batch, 1, 1, query, key]

    x = weights["model.embed_tokens.weight"][tokens]
    for i in range(shape.layers):
        layer = {
            name: weights[f"model.layers.{i}.{name}.weight"]
            for name in (
                *(f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
                *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"),
            )
        }
        h = _rms_norm(x, layer["input_layernorm"], shape.epsilon)

        def heads(h: jax.Array, projection: jax.Array, count: int) -> jax.Array:
            return (h @ projection.T).reshape(batch, length, count, shape.head_dim)

        q = _rms_norm(heads(h, layer["self_attn.q_proj"], shape.query_heads), layer["self_attn.q_norm"], shape.epsilon)
        k = _rms_norm(heads(h, layer["self_attn.k_proj"], shape.kv_heads), layer["self_attn.k_norm"], shape.epsilon)
        v = heads(h, layer["self_attn.v_proj"], shape.kv_heads)
        q, k = _rotate(q, positions, shape.rope_theta), _rotate(k, positions, shape.rope_theta)
        grouped = q.reshape(batch, length, shape.kv_heads, group, shape.head_dim)
        scores = jnp.einsum("btkgd,bskd->bkgts", grouped, k) / math.sqrt(shape.head_dim) + bias
        mixed = jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(scores, axis=-1), v)
        x = x + mixed.reshape(batch, length, -1) @ layer["self_attn.o_proj"].T
        h = _rms_norm(x, layer["post_attention_layernorm"], shape.epsilon)
        x = x + (jax.nn.silu(h @ layer["mlp.gate_proj"].T) * (h @ layer["mlp.up_proj"].T)) @ layer["mlp.down_proj"].T
    return _rms_norm(x, weights["model.norm.weight"], shape.epsilon) @ weights["model.embed_tokens.weight"].T


def _rms_norm(x: jax.Array, scale: jax.Array, epsilon: float) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon) * scale


def _rotate(x: jax.Array, positions: jax.Array, theta: float) -> jax.Array:
    """Rotary position embedding (arXiv:2104.09864), pairs taken from the two halves.

    Args:
      x: [batch, length, heads, dim].
      positions: [batch, length].
      theta: base of the wavelengths.
    """
    dim = x.shape[-1]
    angles = positions[..., None].astype(jnp.float32) / theta ** (jnp.arange(0, dim, 2) / dim)
    cos, sin = jnp.cos(angles)[:, :, None], jnp.sin(angles)[:, :, None]
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
