"""The pieces that plain-JAX decoders are made of, and the interface they share.

A plain model reads weights under Hugging Face names and shares no code with MaxText, so agreement with MaxText's logits
is evidence about both. All arithmetic is float32. B rows, T new tokens, S cached columns, N query heads, K key-value
heads, D head size, H model size.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp

LayerCache = tuple[jax.Array, jax.Array]  # keys and values, each [B, S, K, D]
Cache = list[LayerCache]
Weights = dict[str, jax.Array]  # Hugging Face name -> array as stored in safetensors


class PlainModel(Protocol):
    """A decoder. Instances are hashable, so that a compiled program can be keyed by them."""

    def prepare(self, weights: Any) -> Any:
        """Weights -> the form `forward` takes. Done once per call, outside the decoding loop."""

    def empty_cache(self, rows: int, columns: int) -> Any:
        """A cache with `columns` columns for `rows` rows."""

    def forward(
        self,
        params: Any,
        tokens: jax.Array,
        positions: jax.Array,
        key_mask: jax.Array,
        cache: Any,
        column: jax.Array,
        last: int | None = None,
    ) -> tuple[jax.Array, Any]:
        """Runs `tokens` int32 [B, T] at `positions` int32 [B, T], written to the cache from column `column` on.

        key_mask: bool [B, S], columns that hold a real token (now or later). Causality is by column, so the prompts of
        a batch are left-padded. Returns logits float32 [B, last or T, V] and the new cache.
        """


def rms_norm(x: jax.Array, scale: jax.Array | None, epsilon: float) -> jax.Array:
    """Root-mean-square normalisation over the last axis (Zhang & Sennrich 2019), with an optional scale."""
    normed = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon)
    return normed if scale is None else normed * scale


def rope(x: jax.Array, positions: jax.Array, theta: float, rotated: float = 1.0) -> jax.Array:
    """Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in the half-split layout of Hugging Face.

    x [B, T, heads, D], positions [B, T]. `rotated` < 1 turns only that share of the D/2 pairs, at the frequencies they
    would have anyway ("proportional" in Hugging Face).
    """
    size = x.shape[-1]
    pair = jnp.arange(size // 2)
    frequency = jnp.where(pair < int(rotated * size // 2), theta ** (-2 * pair / size), 0.0)
    angle = positions[..., None].astype(jnp.float32) * frequency
    cos, sin = jnp.cos(angle)[:, :, None], jnp.sin(angle)[:, :, None]
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def attention(
    query: jax.Array,
    cache: LayerCache,
    key_mask: jax.Array,
    column: jax.Array,
    scale: float,
    window: int | None = None,
) -> jax.Array:
    """Causal grouped-query attention. query [B, T, N, D] over a layer's cache -> [B, T, N * D].

    Query t sits in column `column + t` and sees the columns up to its own, the last `window` of them if given.
    """
    key, value = cache
    rows, time, heads, size = query.shape
    groups = key.shape[2]
    at = (column + jnp.arange(time))[:, None]
    columns = jnp.arange(key.shape[1])[None]
    seen = columns <= at
    if window is not None:
        seen &= columns > at - window
    bias = jnp.where(key_mask[:, None] & seen[None], 0.0, -1e9)[:, None, None]
    grouped = query.reshape(rows, time, groups, heads // groups, size)
    scores = jnp.einsum("btkgd,bskd->bkgts", grouped, key) * scale + bias
    mixed = jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(scores, axis=-1), value)
    return mixed.reshape(rows, time, heads * size)


def write_cache(cache: LayerCache, key: jax.Array, value: jax.Array, column: jax.Array) -> LayerCache:
    """Writes new keys and values [B, T, K, D] from `column` on and returns the whole cache of the layer."""
    return (
        jax.lax.dynamic_update_slice_in_dim(cache[0], key, column, 1),
        jax.lax.dynamic_update_slice_in_dim(cache[1], value, column, 1),
    )


def bf16_rounded(x: jax.Array) -> jax.Array:
    """float32 values rounded to what bfloat16 can hold."""
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


def router_weights(probabilities: jax.Array, chosen: int, normalise: bool) -> jax.Array:
    """Keeps the `chosen` likeliest experts per token, as weights over all experts: [B, T, E] -> [B, T, E]."""
    top, index = jax.lax.top_k(probabilities, chosen)
    if normalise:
        top = top / jnp.sum(top, axis=-1, keepdims=True)
    experts = probabilities.shape[-1]
    return jnp.sum(jax.nn.one_hot(index, experts, dtype=top.dtype) * top[..., None], axis=-2)


def experts_mlp(
    x: jax.Array, weights: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array, activation: Any
) -> jax.Array:
    """Mixture of gated MLPs, every expert computed and weighted: simple, and exact, at the cost of E/k the work.

    x [B, T, H], weights [B, T, E] (0 for experts not chosen), gate and up [E, F, H], down [E, H, F] -> [B, T, H].
    """
    hidden = activation(jnp.einsum("bth,efh->btef", x, gate)) * jnp.einsum("bth,efh->btef", x, up)
    return jnp.einsum("btef,bte,ehf->bth", hidden, weights, down)
