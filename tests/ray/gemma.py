"""Writes a Gemma 4 of some hundred kilobytes: `python gemma.py FOLDER TOKENIZER`, by the Python of the image ray-torchtpu.

It has what makes the real one special: a vision tower, which fine-tuning leaves alone, and the embeddings of every layer,
which it freezes. TOKENIZER is a folder whose tokenizer is taken.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

TEXT = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "sliding_window": 8,
    "intermediate_size": 96,
    "vocab_size": 512,
    "vocab_size_per_layer_input": 512,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 0,
    "max_position_embeddings": 512,
    "use_bidirectional_attention": None,
}
VISION = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 16,
    "num_hidden_layers": 1,
    "intermediate_size": 48,
    "position_embedding_size": 64,
    "standardize": True,
}
COMMON = {"tie_word_embeddings": True, "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": None, "dtype": "float32"}
SPECIAL = ("image", "video", "audio", "boi", "eoi", "boa")  # tokens, the last ones of the vocabulary


def main(folder: Path, tokenizer: Path) -> None:
    config = AutoConfig.for_model(
        "gemma4",
        architectures=["Gemma4ForConditionalGeneration"],
        text_config={**TEXT, **COMMON},
        vision_config={**VISION, "dtype": "float32"},
        audio_config=None,
        **COMMON,
        **{f"{name}_token_id": TEXT["vocab_size"] - 1 - place for place, name in enumerate(SPECIAL)},
    )
    torch.manual_seed(0)
    AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tokenizer / name, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
