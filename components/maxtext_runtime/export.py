"""Export with proof: the stock main of maxtext.checkpoint_conversion.to_huggingface with its own arguments, then the
directory that it wrote is compared with the checkpoint (parity.py).
"""

# Nothing else at the top: importing this module must stay cheap, see entry.py.
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.maxtext_runtime.parity import Parity


def export(args: list[str], directory: str) -> Parity:
    """args: stock arguments of to_huggingface, with hf_model_path; directory: their base_output_directory.

    Errors of the stock program pass through.
    """
    import os

    import jax
    from absl import flags
    from maxtext.checkpoint_conversion import to_huggingface

    from components.maxtext_runtime.logits import load_model
    from components.maxtext_runtime.parity import parity

    # as the stock program sets itself up when it is run
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")
    jax.config.update("jax_platforms", "cpu")
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
    to_huggingface.main(flags.FLAGS([to_huggingface.__file__, *args]))

    model, config = load_model(args)
    measured = parity(model, config, directory)
    print(
        f"parity: {measured.method}: max |dlogit| {measured.max_abs_diff:.3g} on logits up to {measured.range:.3g}, "
        f"argmax equal at {measured.argmax_agreement:.1%} of {measured.positions} positions; "
        f"parameters after a round trip differ by at most {measured.max_abs_parameter_diff:.3g}",
        flush=True,
    )
    return measured
