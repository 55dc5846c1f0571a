"""Whether a directory is a Hugging Face model that the pipeline can train: configuration, weights, tokenizer, template.

Reads headers and small files, never the weights. Every fault is a UserError of one line with the file and the cure.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from components.errors import UserError
from components.storage import user_errors

INDEX = "model.safetensors.index.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


def check_model_directory(path: str | Path) -> None:
    """Raises UserError when `path` is not a complete model: see the three checks below."""
    directory = Path(path)
    with user_errors("read", directory):
        if not directory.exists():
            raise UserError(f"The model directory {directory} does not exist: check model.source.")
        if not directory.is_dir():
            raise UserError(f"{directory} is a file, not a model directory: check model.source.")
        check_config(directory)
        check_weights(directory)
        check_tokenizer(directory)


def check_config(directory: Path) -> None:
    """Raises UserError when config.json is missing or is not a JSON object."""
    if not (directory / "config.json").is_file():
        raise UserError(f"{directory} has no config.json, so it is no Hugging Face model: check model.source.")
    _json_object(directory / "config.json")


def check_weights(directory: Path) -> None:
    """Raises UserError when there are no safetensors, one is damaged or cut off, or the index names what is missing."""
    shards = sorted(directory.glob("*.safetensors"))
    tensors = {shard.name: _tensors(shard) for shard in shards}
    if (directory / INDEX).is_file():
        weight_map = _json_object(directory / INDEX).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise UserError(f"{directory / INDEX} has no weight_map: fetch the model again.")
        for tensor, shard in weight_map.items():
            if shard not in tensors:
                raise UserError(f"{directory} lacks the shard {shard} that its index names: fetch the model again.")
            if tensor not in tensors[shard]:
                raise UserError(f"{directory / shard} lacks the tensor {tensor} that the index names: fetch it again.")
    elif not shards:
        raise UserError(f"{directory} has no weights in *.safetensors: save the model in that format.")
    elif any("-of-" in shard.name for shard in shards):
        raise UserError(f"{directory} has shards but no {INDEX}: fetch the model again.")


def _tensors(file: Path) -> set[str]:
    """Returns the names of the tensors in a safetensors file, whose header must fit its length."""
    with user_errors("read", file):
        file.open("rb").close()  # safetensors' own errors for a link to nowhere or a folder have no number
    try:
        with safe_open(file, framework="numpy") as opened:  # type: ignore[no-untyped-call]
            return set(opened.keys())
    except SafetensorError as error:
        raise UserError(f"{file} is damaged ({error}): fetch the model again.") from error


def check_tokenizer(directory: Path) -> None:
    """Raises UserError when there is no tokenizer or no chat template."""
    if not any((directory / name).is_file() for name in _TOKENIZERS):
        raise UserError(f"{directory} has no tokenizer (tokenizer.json or tokenizer.model): put the model's own there.")
    if not _has_chat_template(directory):
        raise UserError(
            f"The tokenizer in {directory} has no chat template: use an instruction-tuned model or add one."
        )


def _has_chat_template(directory: Path) -> bool:
    """Whether a template lies in one of the three places where transformers looks."""
    jinja = directory / "chat_template.jinja"
    if jinja.is_file() and jinja.read_text(encoding="utf-8", errors="replace").strip():
        return True
    return any(
        (directory / name).is_file() and bool(_json_object(directory / name).get("chat_template"))
        for name in ("tokenizer_config.json", "chat_template.json")
    )


def _json_object(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except ValueError as error:
        raise UserError(f"{file} is damaged (not JSON): fetch the model again.") from error
    if not isinstance(value, dict):
        raise UserError(f"{file} is damaged (not a JSON object): fetch the model again.")
    return value
