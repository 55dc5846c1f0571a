"""Makes MaxText's export a directory that loads: the configuration, the tokenizer and the tensors that MaxText does not
write or writes wrongly.

MaxText's writer leaves a config.json of the stock model (layer types, sliding window, experts, ids of special tokens,
dtype), and carries only the text part of a multimodal model. Training changes no architecture, so the source's files
are right: they replace MaxText's, and tensors that only the source has are added where the preset asks for it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors import safe_open
from safetensors.numpy import save_file

INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_FROM_SOURCE = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "chat_template*",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
)


def finish(source: Path, exported: Path, dtype: str, *, complete: bool) -> int:
    """Repairs `exported` in place from `source`; returns how many tensors were added from it."""
    config = json.loads((source / "config.json").read_text())
    for section in (config, *(config[k] for k in ("text_config", "vision_config") if isinstance(config.get(k), dict))):
        for key in ("dtype", "torch_dtype"):
            if key in section:
                section[key] = dtype
    (exported / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for pattern in _FROM_SOURCE:
        for path in exported.glob(pattern):
            path.unlink()
        for path in source.glob(pattern):
            shutil.copyfile(path, exported / path.name)
    return _complete(source, exported) if complete else 0


def _complete(source: Path, exported: Path) -> int:
    """Adds the tensors that only the source has as a shard of their own, and writes the index that names every
    tensor.
    """
    places = tensor_files(exported)
    extra = {name: path for name, path in tensor_files(source).items() if name not in places}
    if not extra:
        return 0
    tensors = {}
    for name, path in extra.items():
        with safe_open(path, framework="np") as shard:
            tensors[name] = shard.get_tensor(name)
    if (exported / _SINGLE).exists():
        (exported / _SINGLE).rename(exported / "model-text.safetensors")
        places = tensor_files(exported)
    save_file(tensors, exported / "model-source.safetensors", metadata={"format": "pt"})
    total = sum(path.stat().st_size for path in exported.glob("*.safetensors"))
    weight_map = {name: path.name for name, path in places.items()} | dict.fromkeys(tensors, "model-source.safetensors")
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (exported / INDEX).write_text(json.dumps(index, indent=1) + "\n")
    return len(tensors)


def tensor_files(directory: Path) -> dict[str, Path]:
    """Which shard of a directory holds which tensor."""
    places: dict[str, Path] = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="np") as shard:
            places.update(dict.fromkeys(shard.keys(), path))
    return places
