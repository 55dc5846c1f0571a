"""Verifies an exported Hugging Face directory shard by shard, before anyone is told that it exists.

Every shard has a readable header; the index, where there is one, names every tensor and only files that exist; names
and shapes are those of the source; every value is finite. A finding raises `ExportError` with the shard and the tensor.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes  # noqa: F401 - lets numpy hold the bfloat16 tensors that safetensors reads
import numpy as np
from safetensors import SafetensorError, safe_open

from components.export.finish import INDEX


class ExportError(RuntimeError):
    """The exported directory is not what it must be."""


@dataclass(frozen=True)
class Contents:
    """What was verified."""

    shards: int
    tensors: int
    parameters: int


def verify(source: Path, exported: Path, *, may_lack: bool) -> Contents:
    """Returns what the directory holds. With `may_lack`, tensors of the source may be missing (a text-only export)."""
    wanted = _shapes(source)
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(exported.glob("*.safetensors")):
        found |= _checked_shard(path)
    if not found:
        raise ExportError(f"{exported.name} holds no tensors")
    _check_index(exported, found)
    for name, shape in found.items():
        if name not in wanted:
            raise ExportError(f"the tensor {name} is not in the source model")
        if wanted[name] != shape:
            raise ExportError(f"the tensor {name} has shape {shape}, the source has {wanted[name]}")
    missing = sorted(wanted.keys() - found.keys())
    if missing and not may_lack:
        raise ExportError(f"{len(missing)} tensors of the source are missing, the first is {missing[0]}")
    shards = len(list(exported.glob("*.safetensors")))
    return Contents(shards, len(found), sum(int(np.prod(shape)) for shape in found.values()))


def _checked_shard(path: Path) -> dict[str, tuple[int, ...]]:
    shapes = {}
    try:
        with safe_open(path, framework="np") as shard:
            for name in shard.keys():  # noqa: SIM118 - not a mapping
                tensor = shard.get_tensor(name)
                if not np.isfinite(tensor.astype(np.float32)).all():
                    raise ExportError(f"{path.name}: {name} holds a value that is not finite")
                shapes[name] = tuple(tensor.shape)
    except SafetensorError as error:
        raise ExportError(f"{path.name} cannot be read: {error}") from error
    return shapes


def _check_index(exported: Path, found: dict[str, tuple[int, ...]]) -> None:
    index = exported / INDEX
    if not index.exists():
        if len(list(exported.glob("*.safetensors"))) > 1:
            raise ExportError(f"there are several shards but no {INDEX}")
        return
    weight_map: dict[str, str] = json.loads(index.read_text())["weight_map"]
    if unknown := sorted(found.keys() ^ weight_map.keys()):
        raise ExportError(f"{INDEX} and the shards disagree about the tensor {unknown[0]}")
    if absent := sorted(name for name in set(weight_map.values()) if not (exported / name).is_file()):
        raise ExportError(f"{INDEX} names {absent[0]}, which does not exist")


def _shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="np") as shard:
            shapes |= {name: tuple(shard.get_slice(name).get_shape()) for name in shard.keys()}  # noqa: SIM118
    return shapes
