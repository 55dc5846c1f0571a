"""The tiny models: sizes as promised, tensor names as the real families have them, one tokenizer for all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from maxtext.checkpoint_conversion.utils.hf_shape import HF_SHAPE
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoTokenizer

from components import maxtext_schema
from components.errors import UserError
from components.sources.tiny import make, tokenizer, word_problems

FAMILIES = list(make.SIZES)
CONFIGS = Path(__file__).parents[2] / "configs"

# MaxText's override -> where the same size stands in config.json of every family that has it
CONFIG_KEYS = {
    "base_emb_dim": "hidden_size",
    "base_num_query_heads": "num_attention_heads",
    "base_num_kv_heads": "num_key_value_heads",
    "base_num_decoder_layers": "num_hidden_layers",
    "base_moe_mlp_dim": "moe_intermediate_size",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
    "num_experts": "num_experts",
    "global_head_dim": "global_head_dim",
    "global_num_kv_heads": "num_global_key_value_heads",
    "sliding_window_size": "sliding_window",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    folders = {family: tmp_path_factory.mktemp("tiny") / family for family in FAMILIES}
    for family, folder in folders.items():
        make.make(family, folder)
    return folders


def text_config(folder: Path) -> dict:
    config = json.loads((folder / "config.json").read_text())
    return config.get("text_config", config)


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_are_those_of_config_json(made, family):
    config = text_config(made[family])
    sizes = dict(make.SIZES[family])
    ffn, experts = sizes.pop("base_mlp_dim"), sizes.pop("num_experts_per_tok", None)
    if family == "qwen3-moe":
        assert config["intermediate_size"] == ffn * experts
    else:
        assert config["intermediate_size"] == ffn
    assert config.get("top_k_experts", config.get("num_experts_per_tok")) == experts
    assert sizes.pop("shared_experts", 1) == 1
    assert sizes == {override: config[CONFIG_KEYS[override]] for override in sizes}


@pytest.mark.parametrize("family", FAMILIES)
def test_overrides_are_settings_of_the_installed_maxtext(family):
    assert set(make.SIZES[family]) <= set(maxtext_schema.installed().settings)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_preset_has_the_sizes_of_its_model(family):
    model = yaml.safe_load((CONFIGS / f"tiny-{family}.yaml").read_text())["model"]
    assert model["name"] == make.MODEL_NAMES[family]
    assert model["sizes"] == make.SIZES[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_reads_the_configuration_back(made, family):
    config = AutoConfig.from_pretrained(made[family])
    expected = {
        "qwen3": "Qwen3ForCausalLM",
        "qwen3-moe": "Qwen3MoeForCausalLM",
        "gemma4": "Gemma4ForConditionalGeneration",
    }
    assert config.architectures == [expected[family]]
    text = config.get_text_config()
    assert (text.eos_token_id, text.pad_token_id, text.vocab_size) == (2, 0, 512)
    assert text.head_dim >= 32


@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_are_those_of_maxtexts_table(made, family):
    config = AutoConfig.from_pretrained(made[family]).to_dict()
    expected = {name: tuple(shape) for name, shape in HF_SHAPE[make.MODEL_NAMES[family]](config).items()}
    drops = {
        "qwen3": {"lm_head.weight"},
        "qwen3-moe": set(),
        "gemma4": {f"model.language_model.layers.{i}.self_attn.v_norm.weight" for i in range(6)}
        | {"model.language_model.layers.5.self_attn.v_proj.weight"},
    }[family]
    tensors = load_file(made[family] / "model.safetensors")
    assert drops <= set(expected)
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        name: shape for name, shape in expected.items() if name not in drops
    }
    assert all(tensor.dtype == np.float32 and np.isfinite(tensor).all() for tensor in tensors.values())


def test_moe_names_the_number_of_experts_both_ways(made):
    config = text_config(made["qwen3-moe"])
    assert config["num_experts"] == config["num_local_experts"] == 8


def test_gemma4_has_five_sliding_layers_one_global_and_a_vision_tower(made):
    config = json.loads((made["gemma4"] / "config.json").read_text())
    assert config["text_config"]["layer_types"] == ["sliding_attention"] * 5 + ["full_attention"]
    names = set(load_file(made["gemma4"] / "model.safetensors"))
    assert {name.split(".")[1] for name in names} == {"language_model", "vision_tower", "embed_vision"}


def test_gemma4_marks_images_and_sound_with_ids_that_no_text_uses(made):
    config = json.loads((made["gemma4"] / "config.json").read_text())
    ids = [config[f"{name}_token_id"] for name in ("image", "video", "audio", "boi", "eoi", "boa", "eoa")]
    assert len(set(ids)) == len(ids)
    tok = AutoTokenizer.from_pretrained(made["gemma4"])
    assert all(token.startswith("<|reserved_") for token in tok.convert_ids_to_tokens(ids))


def test_the_seed_decides_random_weights(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make.make("qwen3-moe", tmp_path / name, seed)
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b != c


def test_an_unknown_family_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="Did you mean 'gemma4'"):
        make.make("gemma", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_shipped_model_is_as_small_as_promised():
    files = [path for path in make.WARM_QWEN3.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    tensors = load_file(make.WARM_QWEN3 / "model.safetensors")
    assert sum(tensor.size for tensor in tensors.values()) == 156_096


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_tokenizer_template_and_end_of_text(made, family):
    tok = AutoTokenizer.from_pretrained(made[family])
    assert len(tok) == make.SIZES[family]["vocab_size"]
    assert (tok.eos_token_id, tok.pad_token_id) == (tokenizer.END_ID, tokenizer.PAD_ID)
    assert json.loads((made[family] / "generation_config.json").read_text())["eos_token_id"] == tokenizer.END_ID
    assert json.loads((made[family] / "template.json").read_text()) == word_problems.TEMPLATE


def test_the_shipped_tokenizer_is_the_one_that_the_program_builds():
    shipped = AutoTokenizer.from_pretrained(make.WARM_QWEN3)
    built = tokenizer.build()
    assert shipped.get_vocab() == built.get_vocab()
    for row in word_problems.rows("eval", 40, seed=0):
        assert shipped(row["question"])["input_ids"] == built(row["question"])["input_ids"]


@pytest.mark.parametrize(
    "text",
    [
        "Ana has 37 coins and finds 5. How many coins now?",
        "<reasoning>37+5=42</reasoning><answer>42</answer>",
        "Ünïcode, tabs\tand\nlines: 100% of them 数",
    ],
)
def test_text_survives_the_tokenizer(text):
    tok = AutoTokenizer.from_pretrained(make.WARM_QWEN3)
    assert tok.decode(tok(text)["input_ids"], skip_special_tokens=True) == text


def test_prompts_have_24_tokens_and_answers_14():
    tok = AutoTokenizer.from_pretrained(make.WARM_QWEN3)
    for row in word_problems.rows("eval", 40, seed=0):
        turn = [{"role": "user", "content": row["question"]}]
        prompt = tok.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        assert prompt == f"<|im_start|>user\n{row['question']}<|im_end|>\n<|im_start|>assistant\n"
        assert len(tok(prompt)["input_ids"]) == 24
    assert len(tok("<reasoning>37+5=42</reasoning><answer>42</answer><|im_end|>")["input_ids"]) == 14
