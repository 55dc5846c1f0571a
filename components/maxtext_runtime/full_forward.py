"""A MaxText model as a `PlainModel`: recomputes the whole sequence for every token, for families without a plain one.

MaxText's own decode mode is not used: with a sliding window it masks by cache column as if the cache were full, which
is wrong while it fills.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


class FullForward:
    """Runs a TunixMaxTextAdapter. Its weights are `nnx.state(adapter)`, the cache the tokens and positions so far."""

    def __init__(self, adapter: Any) -> None:
        self._graph, _ = nnx.split(adapter)

    def prepare(self, weights: Any) -> Any:
        return weights

    def empty_cache(self, rows: int, columns: int) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros((rows, columns), jnp.int32), jnp.zeros((rows, columns), jnp.int32)

    def forward(
        self,
        params: Any,
        tokens: jax.Array,
        positions: jax.Array,
        key_mask: jax.Array,
        cache: tuple[jax.Array, jax.Array],
        column: jax.Array,
        last: int | None = None,
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """See `PlainModel.forward`."""
        all_tokens = jax.lax.dynamic_update_slice_in_dim(cache[0], tokens, column, 1)
        all_positions = jax.lax.dynamic_update_slice_in_dim(cache[1], positions, column, 1)
        # copy: the module must not be mutated at another trace level inside lax.while_loop
        adapter = nnx.merge(self._graph, params, copy=True)
        logits, _ = adapter(
            all_tokens,
            positions=all_positions,
            cache=None,
            attention_mask=None,
            segment_ids=key_mask.astype(jnp.int32),
        )
        wanted = tokens.shape[1] if last is None else last
        end = column + tokens.shape[1]
        return jax.lax.dynamic_slice_in_dim(logits, end - wanted, wanted, 1), (all_tokens, all_positions)


def adapter_logits(adapter: Any, tokens: jax.Array, positions: jax.Array, mask: jax.Array) -> jax.Array:
    """float32 logits [B, T, V] of a TunixMaxTextAdapter on int32 [B, T] tokens; mask bool [B, T] marks real tokens."""
    graph, state = nnx.split(adapter)

    @jax.jit
    def run(state: Any) -> jax.Array:
        model = nnx.merge(graph, state, copy=True)
        logits, _ = model(
            tokens, positions=positions, cache=None, attention_mask=None, segment_ids=mask.astype(jnp.int32)
        )
        return logits.astype(jnp.float32)

    return run(state)
