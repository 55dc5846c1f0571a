"""Plain-JAX decoders: decoding with the cache gives what one pass over the whole sequence gives, for every family."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from components.maxtext_runtime.plain import plain_model

SIZES = {
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 20,
    "rms_norm_eps": 1e-6,
}
QWEN3 = SIZES | {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "intermediate_size": 24,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "tie_word_embeddings": True,
}
QWEN3_MOE = QWEN3 | {
    "model_type": "qwen3_moe",
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
}
GEMMA4 = {
    "model_type": "gemma4",
    "vision_config": {"hidden_size": 8},
    "text_config": SIZES
    | {
        "enable_moe_block": True,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        "global_head_dim": 16,
        "sliding_window": 3,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
        },
        "top_k_experts": 2,
        "final_logit_softcapping": 30.0,
    },
}


def random_weights(config: dict) -> dict[str, jax.Array]:
    """Random weights under the names of the family, as its safetensors file would have them."""
    rng = np.random.default_rng(0)
    text = config.get("text_config", config)
    size, heads, vocabulary = text["hidden_size"], text["num_attention_heads"], text["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {}

    def attend(prefix: str, kv_heads: int, head: int, values: bool) -> None:
        shapes[f"{prefix}self_attn.q_proj.weight"] = (heads * head, size)
        shapes[f"{prefix}self_attn.k_proj.weight"] = (kv_heads * head, size)
        if values:
            shapes[f"{prefix}self_attn.v_proj.weight"] = (kv_heads * head, size)
        shapes[f"{prefix}self_attn.o_proj.weight"] = (size, heads * head)
        shapes[f"{prefix}self_attn.q_norm.weight"] = shapes[f"{prefix}self_attn.k_norm.weight"] = (head,)

    def mlp(prefix: str, inner: int) -> None:
        shapes[f"{prefix}gate_proj.weight"] = shapes[f"{prefix}up_proj.weight"] = (inner, size)
        shapes[f"{prefix}down_proj.weight"] = (size, inner)

    if config["model_type"] == "gemma4":
        base, experts = "model.language_model.", 4
        for i, kind in enumerate(text["layer_types"]):
            prefix = f"{base}layers.{i}."
            attend(prefix, *((1, 16, False) if kind == "full_attention" else (2, 8, True)))
            mlp(f"{prefix}mlp.", 24)
            for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm"):
                shapes[f"{prefix}{norm}.weight"] = (size,)
            for norm in ("", "_1", "_2"):
                shapes[f"{prefix}post_feedforward_layernorm{norm}.weight"] = (size,)
            shapes[f"{prefix}pre_feedforward_layernorm_2.weight"] = shapes[f"{prefix}router.scale"] = (size,)
            shapes[f"{prefix}router.proj.weight"] = (experts, size)
            shapes[f"{prefix}router.per_expert_scale"] = (experts,)
            shapes[f"{prefix}experts.gate_up_proj"] = (experts, 24, size)
            shapes[f"{prefix}experts.down_proj"] = (experts, size, 12)
            shapes[f"{prefix}layer_scalar"] = (1,)
    else:
        base = "model."
        for i in range(config["num_hidden_layers"]):
            prefix = f"{base}layers.{i}."
            attend(prefix, config["num_key_value_heads"], config["head_dim"], True)
            shapes[f"{prefix}input_layernorm.weight"] = shapes[f"{prefix}post_attention_layernorm.weight"] = (size,)
            if config["model_type"] == "qwen3":
                mlp(f"{prefix}mlp.", config["intermediate_size"])
            else:
                shapes[f"{prefix}mlp.gate.weight"] = (config["num_experts"], size)
                for expert in range(config["num_experts"]):
                    mlp(f"{prefix}mlp.experts.{expert}.", config["moe_intermediate_size"])
        if not config["tie_word_embeddings"]:
            shapes["lm_head.weight"] = (vocabulary, size)
    shapes[f"{base}embed_tokens.weight"] = (vocabulary, size)
    shapes[f"{base}norm.weight"] = (size,)
    one = ("norm", "scale", "layer_scalar")
    return {
        name: jnp.asarray(rng.normal(float(any(part in name for part in one)), 0.3, shape), jnp.float32)
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("config", [QWEN3, QWEN3_MOE, GEMMA4], ids=["qwen3", "qwen3_moe", "gemma4"])
def test_decoding_with_the_cache_matches_one_pass_over_each_row_alone(config):
    model, rng = plain_model(config), np.random.default_rng(1)
    assert model is not None
    params, forward = model.prepare(random_weights(config)), jax.jit(model.forward)
    prompt_columns, steps = 6, 4
    columns = prompt_columns + steps
    lengths = np.asarray([6, 2])
    tokens = rng.integers(0, 20, (2, columns))
    mask = jnp.asarray(np.arange(columns)[None] >= (prompt_columns - lengths)[:, None])
    positions = jnp.asarray(np.maximum(np.arange(columns)[None] - (prompt_columns - lengths)[:, None], 0))

    cache, pieces = model.empty_cache(2, columns), []
    for start, stop in [(0, prompt_columns), *((at, at + 1) for at in range(prompt_columns, columns))]:
        part = slice(start, stop)
        logits, cache = forward(params, jnp.asarray(tokens[:, part]), positions[:, part], mask, cache, jnp.int32(start))
        pieces.append(logits)
    decoded = np.concatenate(pieces, axis=1)

    for row, length in enumerate(lengths):
        own = jnp.asarray(tokens[row : row + 1, prompt_columns - length :])
        time = own.shape[1]
        alone, _ = forward(
            params, own, jnp.arange(time)[None], jnp.ones((1, time), bool), model.empty_cache(1, time), jnp.int32(0)
        )
        np.testing.assert_allclose(decoded[row, prompt_columns - length :], alone[0], atol=2e-4)


def test_a_sliding_window_hides_what_lies_before_it():
    config = GEMMA4 | {"text_config": GEMMA4["text_config"] | {"layer_types": ["sliding_attention"] * 3}}
    model = plain_model(config)
    params = model.prepare(random_weights(config))

    @jax.jit
    def logits(tokens):
        mask = jnp.ones((1, 8), bool)
        return model.forward(params, tokens[None], jnp.arange(8)[None], mask, model.empty_cache(1, 8), jnp.int32(0))[0]

    # three layers with a window of 3 reach back 6 tokens: the token in column 0 reaches column 6 and not column 7
    one, other = (np.asarray(logits(jnp.asarray([first, 4, 5, 6, 7, 8, 9, 10])))[0] for first in (2, 3))
    assert np.any(one[6] != other[6])
    np.testing.assert_array_equal(one[7], other[7])


def test_variants_that_are_not_computed_are_refused():
    with pytest.raises(ValueError, match="rotary"):
        plain_model(QWEN3 | {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}})
    with pytest.raises(ValueError, match="mixture"):
        plain_model(GEMMA4 | {"text_config": GEMMA4["text_config"] | {"enable_moe_block": False}})
    assert plain_model({"model_type": "llama"}) is None
