"""The sampler's promises, on a table of bigram logits: what follows a token depends on that token alone."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from components.maxtext_runtime import sampler

PAD, EOS, VOCABULARY = 0, 1, 12


@dataclass(frozen=True)
class Bigrams:
    """A PlainModel without a memory: the logits after a token are a row of the weights."""

    def prepare(self, weights):
        return weights

    def empty_cache(self, rows, columns):
        return jnp.zeros(())

    def forward(self, params, tokens, positions, key_mask, cache, column, last=None):
        logits = params[tokens]
        return (logits if last is None else logits[:, -last:]), cache


def chain(*path: int, strength: float = 5.0) -> np.ndarray:
    """Logits under which `path` is the likeliest continuation, step by step."""
    logits = np.zeros((VOCABULARY, VOCABULARY), np.float32)
    for before, after in itertools.pairwise(path):
        logits[before, after] = strength
    return logits


def run(weights, prompts, *, seed=0, temperature=1.0, top_k=-1, top_p=1.0, steps=6, lengths=None, rows=None, pad=PAD):
    prompts = np.asarray(prompts, np.int32)
    lengths = np.full(len(prompts), prompts.shape[1]) if lengths is None else lengths
    rows = np.arange(len(prompts)) if rows is None else np.asarray(rows)
    return jax.tree.map(
        np.asarray,
        sampler.generate(
            Bigrams(),
            jnp.asarray(weights),
            prompts,
            jnp.asarray(lengths, jnp.int32),
            sampler.row_keys((seed,), jnp.asarray(rows, jnp.uint32)),
            jnp.float32(temperature),
            jnp.int32(top_k),
            jnp.float32(top_p),
            steps=steps,
            pad_id=pad,
            eos_ids=(EOS,),
        ),
    )


@pytest.mark.parametrize("greedy", [{"temperature": 0.0}, {"top_k": 1}])
def test_greedy_follows_the_argmax_whatever_the_seed(greedy):
    weights = chain(2, 5, 7, 3, EOS)
    for seed in (0, 1):
        samples = run(weights, [[2]], seed=seed, **greedy)
        assert samples.tokens[0].tolist() == [5, 7, 3, EOS, PAD, PAD]
        assert (samples.lengths[0], samples.stopped[0]) == (4, True)


def test_a_row_without_end_of_sequence_is_cut_at_the_budget_and_says_so():
    samples = run(chain(2, 5, 7, 3, EOS), [[2], [7]], temperature=0.0, steps=3)
    assert samples.tokens.tolist() == [[5, 7, 3], [3, EOS, PAD]]
    assert samples.lengths.tolist() == [3, 2]
    assert samples.stopped.tolist() == [False, True]


def test_pad_is_never_sampled_even_where_it_is_the_likeliest_token():
    weights = np.zeros((VOCABULARY, VOCABULARY), np.float32)
    weights[:, PAD] = 50.0
    samples = run(weights, np.full((64, 1), 2), steps=8)
    for row, length in zip(samples.tokens, samples.lengths, strict=True):
        assert PAD not in row[:length]


def test_pad_can_end_a_row_where_it_is_the_end_of_sequence():
    weights = chain(2, EOS)
    samples = run(weights, [[2]], temperature=0.0, pad=EOS)
    assert (samples.lengths[0], samples.stopped[0]) == (1, True)


def test_sampling_frequencies_match_the_softmax_at_the_temperature():
    weights = np.zeros((VOCABULARY, VOCABULARY), np.float32)
    weights[2] = np.linspace(-2, 2, VOCABULARY)
    n, temperature = 20_000, 0.7
    samples = run(weights, np.full((n, 1), 2), temperature=temperature, steps=1)
    allowed = np.delete(np.arange(VOCABULARY), PAD)
    expected = np.exp(weights[2, allowed] / temperature)
    expected /= expected.sum()
    seen = np.bincount(samples.tokens[:, 0], minlength=VOCABULARY)[allowed] / n
    assert np.all(np.abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / n) + 1e-9)  # 5 sigma
    chosen = np.searchsorted(allowed, samples.tokens[:50, 0])
    np.testing.assert_allclose(samples.logprobs[:50, 0], np.log(expected[chosen]), rtol=1e-4)


def test_top_k_and_top_p_leave_out_the_tail():
    weights = np.zeros((VOCABULARY, VOCABULARY), np.float32)
    weights[2] = np.log(np.r_[1e-9, [0.4, 0.3, 0.15, 0.1, 0.05], np.full(6, 1e-9)])
    prompts = np.full((2000, 1), 2)
    assert set(run(weights, prompts, steps=1, top_k=3).tokens[:, 0]) == {1, 2, 3}
    assert set(run(weights, prompts, steps=1, top_p=0.75).tokens[:, 0]) == {1, 2, 3}  # 0.4 + 0.3 does not reach 0.75
    assert set(run(weights, prompts, steps=1, top_p=0.69).tokens[:, 0]) == {1, 2}
    assert set(run(weights, prompts, steps=1, top_p=0.01).tokens[:, 0]) == {1}
    assert set(run(weights, prompts, steps=1).tokens[:, 0]) == {1, 2, 3, 4, 5}


def test_a_row_draws_the_same_tokens_in_any_batch_and_others_for_another_seed():
    flat = np.zeros((VOCABULARY, VOCABULARY), np.float32)
    together = run(flat, np.full((4, 1), 2), rows=[10, 11, 12, 13])
    alone = run(flat, np.full((4, 1), 2), rows=[99, 12, 98, 97])
    assert together.tokens[2].tolist() == alone.tokens[1].tolist()
    assert together.tokens.tolist() != run(flat, np.full((4, 1), 2), rows=[10, 11, 12, 13], seed=1).tokens.tolist()
    assert len({tuple(row) for row in together.tokens.tolist()}) == 4


def test_filler_rows_sample_nothing_and_change_nothing():
    weights = chain(2, 5, 7, EOS)
    samples = run(weights, [[2], [PAD]], temperature=0.0, lengths=[1, 0])
    assert samples.tokens[0].tolist() == [5, 7, EOS, PAD, PAD, PAD]
    assert (samples.lengths[1], samples.stopped[1]) == (0, False)
