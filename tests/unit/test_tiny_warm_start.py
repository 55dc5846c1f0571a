"""The warm start knows the sums and has the wrong habit: what GRPO relies on, and what the docs say about it."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import AutoTokenizer

from components.sources.tiny import make, qwen3, warm_start, word_problems

WRONG = {"+": "-", "-": "+"}

forward = jax.jit(qwen3.forward, static_argnums=1)


@pytest.fixture(scope="module")
def shape() -> qwen3.Shape:
    return warm_start.shape_of(json.loads((make.WARM_QWEN3 / "config.json").read_text()))


@pytest.fixture(scope="module")
def weights() -> qwen3.Weights:
    return {name: jnp.asarray(value) for name, value in load_file(make.WARM_QWEN3 / "model.safetensors").items()}


@pytest.fixture(scope="module")
def held_out(weights, shape):
    """Held-out questions, each answered with both operations: cases, ids and logits of the answers."""
    cases = []
    for row in word_problems.rows("eval", 128, seed=5):
        verb = row["question"].split()[5]  # Ana has 37 coins and finds 5.
        pair = tuple(map(int, row["cluster"].split(",")))
        right = word_problems.VERBS[verb]
        cases += [(row["question"], verb, op, right, warm_start.answer_text(pair, op)) for op in (right, WRONG[right])]
    ids, width = warm_start.token_rows(
        [(question, text) for question, *_, text in cases], AutoTokenizer.from_pretrained(make.WARM_QWEN3)
    )
    logits = forward(weights, shape, jnp.asarray(ids), jnp.asarray(ids != 0))
    return cases, ids[:, width:], np.asarray(logits)[:, width - 1 : -1]


def test_the_sums_are_right_whichever_operation_was_chosen(held_out):
    _, answers, logits = held_out
    result = slice(6, 8)  # <reasoning> a a op b = c c
    agree = (logits.argmax(-1)[:, result] == answers[:, result]).all(axis=1)
    assert agree.mean() >= 0.97


def test_half_of_the_verbs_get_the_wrong_operation_and_the_right_one_stays_likely(held_out):
    cases, answers, logits = held_out
    chance = jax.nn.softmax(logits[:, 3], axis=-1)
    share: dict[str, list[float]] = {verb: [] for verb in word_problems.VERBS}
    for i, (_, verb, operation, right, _) in enumerate(cases):
        if operation == right:
            share[verb].append(float(chance[i, answers[i, 3]]))
    means = {verb: float(np.mean(values)) for verb, values in share.items()}
    assert {verb for verb, mean in means.items() if mean < 0.5} == warm_start.MISTAUGHT
    assert all(0.25 < mean < 0.85 for mean in means.values())


def test_padding_on_the_left_changes_no_logit(weights, shape):
    ids = jnp.asarray([[1, 40, 50, 60, 70]])
    padded = jnp.pad(ids, ((0, 0), (3, 0)))
    plain = forward(weights, shape, ids, jnp.ones_like(ids, bool))
    shifted = forward(weights, shape, padded, padded != 0)[:, 3:]
    np.testing.assert_allclose(plain, shifted, atol=1e-4)


def test_later_tokens_change_no_earlier_logit(weights, shape):
    ids = jnp.asarray([[1, 40, 50, 60, 70]])
    valid = jnp.ones_like(ids, bool)
    changed = forward(weights, shape, ids.at[0, 4].set(99), valid)
    plain = forward(weights, shape, ids, valid)
    np.testing.assert_allclose(plain[:, :4], changed[:, :4], atol=1e-5)
    assert float(jnp.abs(plain[:, 4] - changed[:, 4]).max()) > 0.1
