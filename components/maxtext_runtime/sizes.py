"""Makes MaxText's conversion maps follow the sizes of a local model instead of a built-in table.

`to_maxtext` and `to_huggingface` build their parameter maps from `HF_MODEL_CONFIGS[model_name]`, which holds the sizes
of the published model. With overridden sizes the maps are wrong: missing layers or experts (an error), or embeddings
and queries scaled by the wrong size (silent, wrong logits). The cure is to put the model's own config.json there.
"""

from __future__ import annotations

from pathlib import Path

from components.errors import UserError


def argument(args: list[str], name: str) -> str | None:
    """The value of `name=value` or `--name=value` among stock MaxText arguments, the last one, or None."""
    found = [arg.lstrip("-").split("=", 1)[1] for arg in args if arg.lstrip("-").startswith(f"{name}=")]
    return found[-1] if found else None


def use_sizes_of(model_name: str, hf_model: str) -> bool:
    """Replaces the table entry of `model_name` by the config.json in the directory `hf_model`.

    Returns False, and changes nothing, when `hf_model` is a hub id: the published sizes are the table's. Raises
    UserError for a directory without a readable config.json, and for a path that does not exist.
    """
    directory = Path(hf_model)
    if not directory.is_dir():
        if directory.is_absolute() or hf_model.startswith("."):
            raise UserError(f"model directory {hf_model} does not exist: check hf_model_path")
        return False
    if not (directory / "config.json").is_file():
        raise UserError(f"{hf_model} has no config.json: it is not a Hugging Face model directory")

    from maxtext.checkpoint_conversion.utils.hf_model_configs import HF_MODEL_CONFIGS
    from transformers import AutoConfig

    try:
        HF_MODEL_CONFIGS[model_name] = AutoConfig.from_pretrained(hf_model)
    except (ValueError, KeyError, OSError) as error:
        raise UserError(f"{hf_model}/config.json is not a model configuration that can be read: {error}") from error
    return True


def use_sizes_from_arguments(args: list[str]) -> bool:
    """`use_sizes_of` with the model named in stock arguments: hf_model_path, or tokenizer_path where there is none.

    `train_rl` has no hf_model_path; its tokenizer_path is the model directory.
    """
    model_name = argument(args, "model_name")
    hf_model = argument(args, "hf_model_path") or argument(args, "tokenizer_path")
    if model_name is None or hf_model is None:
        return False
    return use_sizes_of(model_name, hf_model)
