"""Shows that a Hugging Face directory holds the weights of a MaxText checkpoint.

Two comparisons. Parameters: the directory is mapped back with MaxText's own import mapping, a round trip, and compared
one by one. Logits on fixed token ids: where the family has a plain-JAX model, that model computes them from the
directory's tensors, an implementation that shares no code with MaxText ("independent JAX forward"); else MaxText
computes them from the parameters of the round trip ("round trip").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from components.maxtext_runtime import hf_weights
from components.maxtext_runtime.logits import maxtext_logits
from components.maxtext_runtime.plain import plain_model

INDEPENDENT, ROUND_TRIP = "independent JAX forward", "round trip"


@dataclass(frozen=True)
class Parity:
    """What was measured; the caller decides what passes.

    method: where the logits of the exported directory come from, INDEPENDENT or ROUND_TRIP.
    max_abs_diff: largest |difference| of logits, computed as Hugging Face computes them.
    max_abs_diff_same_rounding: the same with MaxText's rounding of a tied unembedding to bfloat16 imitated. What is
      left is the export itself; equals max_abs_diff where nothing is tied. The same figure for ROUND_TRIP.
    range: largest |logit| of the MaxText model.
    argmax_agreement: share of positions, 0..1, where both models' likeliest token is the same.
    positions: how many positions were compared.
    max_abs_parameter_diff: largest |difference| of a parameter after the round trip; 0 for a lossless export dtype.
    """

    method: str
    max_abs_diff: float
    max_abs_diff_same_rounding: float
    range: float
    argmax_agreement: float
    positions: int
    max_abs_parameter_diff: float


def fixed_ids(vocabulary: int, rows: int = 2, columns: int = 24) -> np.ndarray:
    """int32 [rows, columns], the same every time."""
    return np.random.default_rng(0).integers(0, vocabulary, (rows, columns), dtype=np.int32)


def parity(model: Any, config: Any, directory: str) -> Parity:
    """Compares a loaded MaxText model (`logits.load_model`) with the Hugging Face `directory` exported from it.

    Raises KeyError when the directory lacks a tensor that the model needs.
    """
    weights = hf_weights.load_directory(directory)
    ids = fixed_ids(config.vocab_size)
    theirs = maxtext_logits(model, ids)
    params = nnx.to_pure_dict(nnx.state(model.base, nnx.Param))
    back = import_weights(params, weights, config)
    parameter_diff = max(
        float(np.max(np.abs(np.asarray(one, np.float32) - np.asarray(other, np.float32))))
        for one, other in zip(jax.tree.leaves(params), jax.tree.leaves(back), strict=True)
    )
    hf_config = hf_weights.hf_config(config)
    plain = plain_model(hf_config)
    if plain is None:
        nnx.update(model.base, jax.tree.map(jnp.asarray, back))
        method, ours = ROUND_TRIP, maxtext_logits(model, ids)
        same_rounding = float(np.max(np.abs(ours - theirs)))
    else:
        method, ours = INDEPENDENT, plain_logits(plain, weights, ids)
        imitating = plain_logits(plain_model(hf_config, bf16_unembedding=True), weights, ids)
        same_rounding = float(np.max(np.abs(imitating - theirs)))
    return Parity(
        method=method,
        max_abs_diff=float(np.max(np.abs(ours - theirs))),
        max_abs_diff_same_rounding=same_rounding,
        range=float(np.max(np.abs(theirs))),
        argmax_agreement=float(np.mean(ours.argmax(-1) == theirs.argmax(-1))),
        positions=int(ids.size),
        max_abs_parameter_diff=parameter_diff,
    )


def plain_logits(plain: Any, weights: dict[str, np.ndarray], ids: np.ndarray) -> np.ndarray:
    """float32 [B, T, V] of a plain model on int32 [B, T]; every token is real, positions start at 0."""
    rows, columns = ids.shape

    @jax.jit
    def run(weights: dict[str, jax.Array]) -> jax.Array:
        positions = jnp.broadcast_to(jnp.arange(columns), ids.shape)
        mask, cache = jnp.ones(ids.shape, bool), plain.empty_cache(rows, columns)
        return plain.forward(plain.prepare(weights), jnp.asarray(ids), positions, mask, cache, jnp.int32(0))[0]

    return np.asarray(run(weights))


def import_weights(params: dict[str, Any], weights: dict[str, np.ndarray], config: Any) -> dict[str, Any]:
    """Hugging Face tensors as a MaxText parameter tree shaped like `params`, by the mapping of to_maxtext.

    Raises KeyError for a parameter without a mapping or without its tensors.
    """
    from flax.traverse_util import flatten_dict, unflatten_dict
    from maxtext.checkpoint_conversion.to_maxtext import _get_hf_loading_function
    from maxtext.checkpoint_conversion.utils.param_mapping import HOOK_FNS, PARAM_MAPPING

    name, sizes = config.model_name, hf_weights.hf_config(config)
    names = PARAM_MAPPING[name](sizes, config, config.scan_layers)
    hooks = HOOK_FNS[name](sizes, config, config.scan_layers, saving_to_hf=False)
    flat = flatten_dict(params)
    loaded: dict[tuple[Any, ...], np.ndarray] = {}
    paths = {"params-" + "-".join(map(str, path)): path for path in flat}
    for key, sources in names.items():
        keys = key if isinstance(key, tuple) else (key,)
        if keys[0] not in paths:
            continue
        shapes = [flat[paths[part]].shape for part in keys]
        load = _get_hf_loading_function(
            sources,
            weights.__getitem__,
            hooks.get(key),
            shapes if isinstance(key, tuple) else shapes[0],
            config,
            keys[0],
        )
        value = np.asarray(load())
        for at, part in enumerate(keys):
            loaded[paths[part]] = value[..., at] if isinstance(key, tuple) else value
    if missing := sorted(set(paths) - {"params-" + "-".join(map(str, path)) for path in loaded}):
        raise KeyError(f"MaxText's import mapping does not know {missing}")
    return unflatten_dict({path: loaded[path] for path in flat})
