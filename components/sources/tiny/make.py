"""Makes a tiny model that stands for a real one: same architecture, layer pattern and tensor names, sizes of a toy.

    python -m components.sources.tiny.make qwen3-moe OUT_DIR

`qwen3` copies the warm-started model shipped in `warm_qwen3/` (made by warm_start.py). `qwen3-moe` (the architecture of
qwen3-30b-a3b) and `gemma4` (that of gemma4-26b, with a vision tower) are random weights drawn with numpy: they show
that every stage works, not that a model learns. All share the tokenizer of tokenizer.py. `SIZES` are the overrides that
make MaxText's `model_name` the same size; config.json is derived from them, so the two can't disagree.

Tensor names and shapes come from MaxText's own table (HF_SHAPE), less the tensors that the Hugging Face checkpoint does
not have, see `_absent`. Files that already lie in the output directory are overwritten.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from components.errors import UserError, did_you_mean
from components.sources.tiny.tokenizer import END_ID, MAX_LENGTH, PAD_ID, VOCAB_SIZE

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Family = Literal["qwen3", "qwen3-moe", "gemma4"]

WARM_QWEN3 = Path(__file__).parent / "warm_qwen3"

# vLLM on CPU serves no head_dim below 32.
_COMMON = {
    "base_emb_dim": 64,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 2,
    "head_dim": 32,
    "vocab_size": VOCAB_SIZE,
}
SIZES: dict[str, dict[str, int]] = {
    "qwen3": _COMMON | {"base_num_decoder_layers": 2, "base_mlp_dim": 192},
    "qwen3-moe": _COMMON
    | {
        "base_num_decoder_layers": 2,
        "base_mlp_dim": 32,
        "base_moe_mlp_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
    },
    # Six layers: MaxText's Gemma 4 repeats five sliding layers and a global one.
    # The window is shorter than a prompt, so that it matters.
    "gemma4": _COMMON
    | {
        "base_num_decoder_layers": 6,
        "base_mlp_dim": 96,
        "base_moe_mlp_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "shared_experts": 1,
        "global_head_dim": 64,
        "global_num_kv_heads": 1,
        "sliding_window_size": 8,
    },
}
MODEL_NAMES: dict[str, str] = {"qwen3": "qwen3-0.6b", "qwen3-moe": "qwen3-30b-a3b", "gemma4": "gemma4-26b"}

_SHARED_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "template.json",
)
_WEIGHT_SCALE = 0.05
_NORM_SPREAD = 0.1  # norms near one, but not at one, so that a forgotten or misplaced norm shows in the logits


def make(family: Family, out: Path, seed: int = 0) -> None:
    """Writes a Hugging Face model directory to `out`, with tokenizer, chat template and `template.json`.

    Args:
      family: one of `SIZES`.
      out: the directory to write; made when missing.
      seed: of the random weights. `qwen3` has none: its weights are those of one training, whatever the seed.

    Raises:
      UserError: the family is unknown.
    """
    if family not in SIZES:
        raise UserError(
            f"Unknown tiny model '{family}': choose one of {', '.join(SIZES)}.{did_you_mean(family, SIZES)}"
        )
    out.mkdir(parents=True, exist_ok=True)
    for name in _SHARED_FILES:
        shutil.copyfile(WARM_QWEN3 / name, out / name)
    if family == "qwen3":
        for name in ("config.json", "model.safetensors"):
            shutil.copyfile(WARM_QWEN3 / name, out / name)
        return
    config = qwen3_moe_config() if family == "qwen3-moe" else gemma4_config()
    write_config(config, out)
    _write_random_weights(MODEL_NAMES[family], config.to_dict(), out, seed)


def qwen3_config() -> PretrainedConfig:
    """Returns the configuration of the dense Qwen3, of `SIZES["qwen3"]`."""
    from transformers import AutoConfig

    size = SIZES["qwen3"]
    return AutoConfig.for_model(
        "qwen3",
        architectures=["Qwen3ForCausalLM"],
        intermediate_size=size["base_mlp_dim"],
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        **_shared_config(size),
    )


def qwen3_moe_config() -> PretrainedConfig:
    """Returns the configuration of Qwen3 MoE, of `SIZES["qwen3-moe"]`."""
    from transformers import AutoConfig

    size = SIZES["qwen3-moe"]
    return AutoConfig.for_model(
        "qwen3_moe",
        architectures=["Qwen3MoeForCausalLM"],
        # No layer is dense: only MaxText's exporter reads this, and expects the width of the active experts.
        intermediate_size=size["base_mlp_dim"] * size["num_experts_per_tok"],
        moe_intermediate_size=size["base_moe_mlp_dim"],
        # transformers 5 keeps the count under the second name, the hub's files and older readers under the first.
        num_experts=size["num_experts"],
        num_local_experts=size["num_experts"],
        num_experts_per_tok=size["num_experts_per_tok"],
        norm_topk_prob=True,
        tie_word_embeddings=False,
        max_window_layers=size["base_num_decoder_layers"],
        rope_parameters={"rope_type": "default", "rope_theta": 1e7},
        **_shared_config(size),
    )


def gemma4_config() -> PretrainedConfig:
    """Returns the configuration of Gemma 4 (MoE text model and vision tower), of `SIZES["gemma4"]`."""
    from transformers import AutoConfig

    size = SIZES["gemma4"]
    text = _shared_config(size) | {
        "intermediate_size": size["base_mlp_dim"],
        "moe_intermediate_size": size["base_moe_mlp_dim"],
        "enable_moe_block": True,
        "num_experts": size["num_experts"],
        "top_k_experts": size["num_experts_per_tok"],
        "global_head_dim": size["global_head_dim"],
        "num_global_key_value_heads": size["global_num_kv_heads"],
        "attention_k_eq_v": True,
        "sliding_window": size["sliding_window_size"],
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": size["vocab_size"],
        "final_logit_softcapping": 30.0,
        "use_bidirectional_attention": "vision",
        "tie_word_embeddings": True,
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "global_head_dim": 16,
        "position_embedding_size": 64,
        "standardize": True,
        "dtype": "float32",
    }
    # Reserved tokens: the last ids of the vocabulary, which no text uses.
    markers = ("image", "video", "audio", "boi", "eoi", "boa")
    ids = {f"{name}_token_id": VOCAB_SIZE - 1 - i for i, name in enumerate(markers)}
    eoa = VOCAB_SIZE - 1 - len(markers)
    return AutoConfig.for_model(
        "gemma4",
        architectures=["Gemma4ForConditionalGeneration"],
        text_config=text,
        vision_config=vision,
        vision_soft_tokens_per_image=280,
        eoa_token_id=eoa,
        eoa_token_index=eoa,
        tie_word_embeddings=True,
        pad_token_id=PAD_ID,
        eos_token_id=END_ID,
        bos_token_id=None,
        dtype="float32",
        **ids,
    )


def write_config(config: PretrainedConfig, out: Path) -> None:
    """Writes config.json, the number of experts under both of its names where there is one."""
    config.save_pretrained(out)
    path = out / "config.json"
    raw = json.loads(path.read_text())
    if "num_local_experts" in raw:
        raw["num_experts"] = raw["num_local_experts"]
    path.write_text(json.dumps(raw, indent=2, sort_keys=True) + "\n")


def _shared_config(size: dict[str, int]) -> dict[str, Any]:
    return {
        "hidden_size": size["base_emb_dim"],
        "num_attention_heads": size["base_num_query_heads"],
        "num_key_value_heads": size["base_num_kv_heads"],
        "head_dim": size["head_dim"],
        "num_hidden_layers": size["base_num_decoder_layers"],
        "vocab_size": size["vocab_size"],
        "max_position_embeddings": MAX_LENGTH,
        "rms_norm_eps": 1e-6,
        "pad_token_id": PAD_ID,
        "eos_token_id": END_ID,
        "bos_token_id": None,
        "dtype": "float32",
    }


def _absent(name: str, config: dict[str, Any]) -> bool:
    """Whether the Hugging Face checkpoint lacks a tensor that MaxText's table lists.

    Gemma 4's value norm has no scale, its global layers take the keys as values, and a tied output layer is the
    embedding.
    """
    text = config.get("text_config", config)
    if name == "lm_head.weight":
        return bool(text["tie_word_embeddings"])
    if name.endswith(".self_attn.v_norm.weight"):
        return True
    if name.endswith(".self_attn.v_proj.weight") and text.get("attention_k_eq_v"):
        layer = int(name.split(".layers.")[1].split(".")[0])
        return text["layer_types"][layer] == "full_attention"
    return False


def _write_random_weights(model_name: str, config: dict[str, Any], out: Path, seed: int) -> None:
    import numpy as np
    from maxtext.checkpoint_conversion.utils.hf_shape import HF_SHAPE
    from safetensors.numpy import save_file

    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in HF_SHAPE[model_name](config).items():
        if _absent(name, config):
            continue
        noise = rng.standard_normal(shape, dtype=np.float32)
        scale_like = "norm" in name or name.endswith(("scale", "layer_scalar"))
        tensors[name] = 1 + _NORM_SPREAD * noise if scale_like else _WEIGHT_SCALE * noise
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


def main(arguments: list[str]) -> None:
    """Command line: FAMILY OUT_DIR."""
    if len(arguments) != 2 or arguments[0] not in get_args(Family):
        raise SystemExit(f"usage: python -m components.sources.tiny.make {{{','.join(get_args(Family))}}} OUT_DIR")
    make(arguments[0], Path(arguments[1]))  # type: ignore[arg-type]  # checked against the Literal above


if __name__ == "__main__":
    main(sys.argv[1:])
