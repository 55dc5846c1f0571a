"""Whether a model on this machine has the sizes that MaxText will be told.

MaxText takes sizes from `model_name` and from overrides, never from the model itself; other sizes fail deep inside the
conversion, or convert to nonsense. In: a source, MaxText's `model_name`, the overrides. A difference is a `UserError`
that names the key. Sources on the hub are checked after their download.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from components import maxtext_schema, storage
from components.errors import UserError
from components.sources.tiny.make import SIZES

# MaxText's name and Hugging Face's, where both mean the same in every family
_SAME = {
    "base_emb_dim": "hidden_size",
    "base_num_decoder_layers": "num_hidden_layers",
    "base_num_query_heads": "num_attention_heads",
    "base_num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
}


def check(source: str, model_name: str, overrides: Mapping[str, int]) -> None:
    """Raises UserError for the first size in which the source differs from what MaxText would take."""
    taken = {**_stock(model_name), **overrides}
    for key, value in _sizes_of(source).items():
        if key in taken and taken[key] != value:
            raise UserError(
                f"{source} has {key} {value}, but MaxText would take {taken[key]} for {model_name}: "
                f"set model.sizes.{key}={value}, or choose the model.name that the source has."
            )


def _sizes_of(source: str) -> dict[str, int]:
    if source.startswith("tiny://"):
        return SIZES.get(source.removeprefix("tiny://"), {})
    path = storage.join(source, "config.json")
    if source.startswith("hf://") or not storage.exists(path):
        return {}
    config = json.loads(storage.read_text(path))
    text = config.get("text_config") or config
    return {ours: text[theirs] for ours, theirs in _SAME.items() if isinstance(text.get(theirs), int)}


def _stock(model_name: str) -> dict[str, Any]:
    """The sizes of MaxText's own file for the model."""
    path = maxtext_schema.package_root() / "configs" / "models" / f"{model_name}.yml"
    return yaml.safe_load(path.read_text()) if path.is_file() else {}
