"""Batched sampling from a causal language model with a key-value cache, in plain JAX.

In: a `plain` model with its weights, left-padded prompts and one random seed per row. Out: `Samples`. Everything is one
compiled program per batch shape; temperature, top-k and top-p are run-time values, so greedy evaluation and sampled
training share it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from components.maxtext_runtime.plain.layers import PlainModel

_MASKED = -1e30  # finite, so that a row whose logits are all masked stays a distribution


class Samples(NamedTuple):
    """What `generate` returns; B rows, up to S sampled tokens each.

    tokens: int32 [B, S], `pad_id` after the end of a row. An end-of-sequence token is included.
    logprobs: float32 [B, S], log-probability of each token at the sampling temperature over the whole vocabulary
      (before top-k and top-p), 0 after the end. This is what a trainer recomputes for the same tokens.
    lengths: int32 [B], tokens sampled.
    stopped: bool [B], True where a row ended with an end-of-sequence token, False where the budget cut it.
    """

    tokens: jax.Array
    logprobs: jax.Array
    lengths: jax.Array
    stopped: jax.Array


class _State(NamedTuple):
    """Of the decoding loop: logits float32 [B, 1, V] of the token to pick next, done bool [B]; the rest as returned."""

    step: jax.Array
    logits: jax.Array
    tokens: jax.Array
    logprobs: jax.Array
    lengths: jax.Array
    done: jax.Array
    cache: Any


def row_keys(seeds: Sequence[int | jax.Array], row_ids: jax.Array) -> jax.Array:
    """One random key per row: uint32 [B] row ids -> key [B]. Independent of the batch that a row travels in.

    threefry is named so that MaxText's choice of a default generator does not change the samples.
    """
    base = jax.random.key(0, impl="threefry2x32")
    for seed in seeds:
        base = jax.random.fold_in(base, seed)
    return jax.vmap(lambda row: jax.random.fold_in(base, row))(row_ids)


def filter_logits(logits: jax.Array, top_k: jax.Array, top_p: jax.Array) -> jax.Array:
    """Masks what top-k and nucleus sampling leave out. float32 [B, V] -> [B, V]; top_k <= 0 and top_p >= 1 are off.

    top_p keeps the smallest set of likeliest tokens whose probability reaches top_p (Holtzman et al. 2020,
    arXiv:1904.09751), computed after top-k as vLLM does. Ties with the last token kept are kept too.
    """
    vocabulary = logits.shape[-1]

    def masked(logits: jax.Array) -> jax.Array:
        ranked = jnp.sort(logits, axis=-1)[:, ::-1]
        kept = jnp.arange(vocabulary)[None] < jnp.where(top_k > 0, top_k, vocabulary)
        probabilities = jax.nn.softmax(jnp.where(kept, ranked, _MASKED), axis=-1)
        kept &= jnp.cumsum(probabilities, axis=-1) - probabilities < top_p  # the likeliest token always stays
        smallest = jnp.take_along_axis(ranked, jnp.sum(kept, axis=-1, keepdims=True) - 1, axis=-1)
        return jnp.where(logits < smallest, _MASKED, logits)

    # the sort is the expensive part of a step for a large vocabulary; plain sampling never pays for it
    return jax.lax.cond((top_k > 0) | (top_p < 1.0), masked, lambda logits: logits, logits)


def pick(
    logits: jax.Array, keys: jax.Array, temperature: jax.Array, top_k: jax.Array, top_p: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Picks one token per row. logits float32 [B, V], keys [B] -> tokens int32 [B], log-probabilities float32 [B].

    temperature <= 0 or top_k == 1 is greedy: the argmax, whatever the keys.
    """
    greedy = (temperature <= 0.0) | (top_k == 1)
    scaled = logits / jnp.where(greedy, 1.0, temperature)
    noise = jax.vmap(lambda key: jax.random.gumbel(key, logits.shape[-1:], jnp.float32))(keys)
    noisy = filter_logits(scaled, top_k, top_p) + jnp.where(greedy, 0.0, noise)
    tokens = jnp.argmax(noisy, axis=-1).astype(jnp.int32)
    return tokens, jnp.take_along_axis(jax.nn.log_softmax(scaled, axis=-1), tokens[:, None], axis=-1)[:, 0]


@functools.partial(jax.jit, static_argnames=("model", "steps", "pad_id", "eos_ids"))
def generate(
    model: PlainModel,
    weights: Any,
    prompts: jax.Array,
    prompt_lengths: jax.Array,
    keys: jax.Array,
    temperature: jax.Array,
    top_k: jax.Array,
    top_p: jax.Array,
    *,
    steps: int,
    pad_id: int,
    eos_ids: tuple[int, ...],
) -> Samples:
    """Samples up to `steps` tokens after each prompt.

    Args:
      model: static; how to run the weights.
      weights: what `model.prepare` takes.
      prompts: int32 [B, P], LEFT-padded.
      prompt_lengths: int32 [B]; 0 marks a row that only fills the batch shape and samples nothing.
      keys: random keys [B], see `row_keys`.
      temperature, top_k, top_p: scalars, see `pick`.
      steps: tokens to sample at most, S.
      pad_id: fills rows after their end; never sampled, unless it is also an end-of-sequence id.
      eos_ids: ids that end a row.
    """
    rows, prompt_columns = prompts.shape
    columns = prompt_columns + steps
    eos = jnp.asarray(eos_ids, jnp.int32)
    params = model.prepare(weights)
    first_valid = prompt_columns - prompt_lengths
    key_mask = jnp.arange(columns)[None] >= first_valid[:, None]
    positions = jnp.maximum(jnp.arange(prompt_columns)[None] - first_valid[:, None], 0)
    cache = model.empty_cache(rows, columns)
    logits, cache = model.forward(params, prompts, positions, key_mask, cache, jnp.int32(0), last=1)

    def going_on(state: _State) -> jax.Array:
        return (state.step < steps) & ~jnp.all(state.done)

    def advance(state: _State) -> _State:
        step, logits, tokens, logprobs, lengths, done, cache = state
        logits = logits[:, -1].astype(jnp.float32)
        if pad_id not in eos_ids:
            logits = logits.at[:, pad_id].set(_MASKED)
        step_keys = jax.vmap(lambda key: jax.random.fold_in(key, step))(keys)
        token, logprob = pick(logits, step_keys, temperature, top_k, top_p)
        token = jnp.where(done, pad_id, token)
        tokens = jax.lax.dynamic_update_slice_in_dim(tokens, token[:, None], step, 1)
        logprobs = jax.lax.dynamic_update_slice_in_dim(logprobs, jnp.where(done, 0.0, logprob)[:, None], step, 1)
        lengths = lengths + ~done
        done = done | jnp.any(token[:, None] == eos[None], axis=-1)
        logits, cache = model.forward(
            params, token[:, None], (prompt_lengths + step)[:, None], key_mask, cache, prompt_columns + step, last=1
        )
        return _State(step + 1, logits, tokens, logprobs, lengths, done, cache)

    filler = prompt_lengths == 0
    state = _State(
        jnp.int32(0),
        logits,
        jnp.full((rows, steps), pad_id, jnp.int32),
        jnp.zeros((rows, steps), jnp.float32),
        jnp.zeros(rows, jnp.int32),
        filler,
        cache,
    )
    state = jax.lax.while_loop(going_on, advance, state)
    return Samples(state.tokens, state.logprobs, state.lengths, state.done & ~filler)
