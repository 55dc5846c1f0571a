"""Logits of a MaxText checkpoint on given token ids.

`python -m components.maxtext_runtime.logits --ids IDS.npy --output LOGITS.npy [to_huggingface arguments]` reads int32
[B, T] and writes float32 [B, T, V]. The arguments name the model, its sizes and load_parameters_path as for
to_huggingface; weights are read as stored and computed with in float32.
"""

# Nothing else at the top: importing this module must stay cheap, see entry.py.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# Arguments that decide how a number is computed and not which; ours win over the caller's.
_COMPUTE = {"dtype": "float32", "weight_dtype": "float32", "log_config": "False", "attention": "dot_product"}


def load_model(args: list[str]) -> tuple[Any, Any]:
    """The model of a checkpoint as TunixMaxTextAdapter, and its config. `args`: to_huggingface arguments.

    Sizes must have been set (`sizes.use_sizes_from_arguments`). Raises ValueError where load_parameters_path holds no
    checkpoint.
    """
    import jax
    from maxtext.configs import pyconfig
    from maxtext.utils import model_creation_utils

    own = dict(_COMPUTE)
    if jax.default_backend() == "cpu":
        own["megablox"] = "False"  # a TPU kernel, interpreted on CPU; ragged_dot computes the same
    kept = [arg for arg in args if not arg.startswith("--") and arg.split("=", 1)[0] not in own]
    config = pyconfig.initialize_pydantic(["to_huggingface.py", *kept, *(f"{k}={v}" for k, v in own.items())])
    model, _ = model_creation_utils.from_pretrained(config, devices=jax.devices(), wrap_with_tunix_adapter=True)
    return model, config


def maxtext_logits(model: Any, ids: np.ndarray) -> np.ndarray:
    """float32 [B, T, V] of a TunixMaxTextAdapter on int32 [B, T]; every token is real, positions start at 0."""
    import jax.numpy as jnp
    import numpy as np

    from components.maxtext_runtime.full_forward import adapter_logits

    tokens = jnp.asarray(ids, jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    return np.asarray(adapter_logits(model, tokens, positions, jnp.ones(tokens.shape, bool)))


def main() -> None:
    """Exits 2 with one line for a mistake of the user."""
    import argparse
    import sys

    import numpy as np

    from components.errors import UserError
    from components.maxtext_runtime import entry

    parser = argparse.ArgumentParser(prog="python -m components.maxtext_runtime.logits", allow_abbrev=False)
    parser.add_argument("--ids", required=True, help=".npy, int32 [batch, time]")
    parser.add_argument("--output", required=True, help=".npy, float32 [batch, time, vocabulary]")
    options, args = parser.parse_known_args()
    try:
        entry.prepare(entry.TO_HUGGINGFACE, args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    model, _ = load_model(args)
    np.save(options.output, maxtext_logits(model, np.load(options.ids)))


if __name__ == "__main__":
    main()
