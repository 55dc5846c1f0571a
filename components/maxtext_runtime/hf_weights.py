"""MaxText parameters under Hugging Face names, and Hugging Face weights from disk.

The first uses MaxText's own export mapping, as a traceable function: what the CPU sampler runs on is what
`to_huggingface` would write. Call `sizes.use_sizes_of` before, or the mapping has the published model's sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from components.maxtext_runtime.plain.layers import Weights


def hf_config(config: Any) -> dict[str, Any]:
    """The Hugging Face config dictionary that belongs to a MaxText config."""
    from maxtext.checkpoint_conversion.utils.hf_model_configs import HF_MODEL_CONFIGS

    return HF_MODEL_CONFIGS[config.model_name].to_dict()


def exporter(config: Any) -> Callable[[dict[str, Any]], Weights]:
    """A function from the parameter tree of a MaxText model to arrays under Hugging Face names.

    config: the MaxText config (model_name, scan_layers, param_scan_axis, ...). The returned function takes
    `nnx.to_pure_dict(nnx.state(model, nnx.Param))` and only slices, transposes and scales, so it can be jitted.
    Parameters that the mapping does not know raise KeyError. Follows `process_maxtext_param` of MaxText, which itself
    copies to the host tensor by tensor and cannot be traced.
    """
    from flax.traverse_util import flatten_dict
    from maxtext.checkpoint_conversion.to_huggingface import _get_model_mappings
    from maxtext.checkpoint_conversion.utils.tensor_handling import apply_hook_fns, nesting_depth, stacked_axes

    mappings = _get_model_mappings(config.model_name, config.scan_layers, hf_config(config), config)
    names, hooks, shapes = mappings["param_mapping"], mappings["hook_fn_mapping"], mappings["shape_mapping"]

    def axes_of(key: str, paths: Any, array: jax.Array) -> tuple[int, ...]:
        depth = nesting_depth(paths)
        if depth == 1 and config.scan_layers:
            return (config.param_scan_axis if array.ndim > config.param_scan_axis else 0,)
        return stacked_axes(key, config, depth)

    def export(params: dict[str, Any]) -> Weights:
        flat = {"params-" + "-".join(map(str, path)): array for path, array in flatten_dict(params).items()}
        exported: Weights = {}

        def emit(arrays: list[jax.Array], paths: Any, axes: tuple[int, ...], key: Any) -> None:
            if isinstance(paths, list):
                for index, below in enumerate(paths):
                    slices = [jax.lax.index_in_dim(array, index, axes[0], keepdims=False) for array in arrays]
                    emit(slices, below, tuple(axis - (axis > axes[0]) for axis in axes[1:]), key)
                return
            value = arrays if isinstance(key, tuple) else arrays[0]
            exported[paths] = apply_hook_fns(value, shapes[paths], hooks.get(key)).reshape(shapes[paths])

        for key, paths in names.items():
            keys = key if isinstance(key, tuple) else (key,)
            if keys[0] not in flat:
                continue  # an optional part of the family: biases, an untied head, a vision tower
            arrays = [flat.pop(name) for name in keys]
            emit(arrays, paths, axes_of(keys[0], paths, arrays[0]), key)
        if flat:
            raise KeyError(f"MaxText's export mapping does not know {sorted(flat)}")
        return exported

    return export


def load_directory(directory: str | Path) -> dict[str, np.ndarray]:
    """All tensors of a Hugging Face model directory, one file or sharded with an index.

    Raises FileNotFoundError when neither `model.safetensors` nor its index exists.
    """
    from safetensors.numpy import load_file

    directory = Path(directory)
    index = directory / "model.safetensors.index.json"
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    else:
        files = ["model.safetensors"]
    weights: dict[str, np.ndarray] = {}
    for name in files:
        weights.update(load_file(directory / name))
    return weights
