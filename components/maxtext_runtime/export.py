"""Export with proof, in one process: `python -m components.maxtext_runtime.export --parity FILE [stock arguments]`.

Runs the stock main of maxtext.checkpoint_conversion.to_huggingface with its own arguments, then compares the directory
it wrote with the checkpoint (parity.py) and writes the figures to FILE as JSON. One process, because imports are half
of the time for a small model.
"""

# Nothing else at the top: importing this module must stay cheap, see entry.py.
from __future__ import annotations


def export(args: list[str], parity_file: str) -> None:
    """args: stock arguments of to_huggingface, with hf_model_path. Errors of the stock program pass through."""
    import dataclasses
    import json
    import os
    from pathlib import Path

    import jax
    from absl import flags
    from maxtext.checkpoint_conversion import to_huggingface

    from components.maxtext_runtime.logits import load_model
    from components.maxtext_runtime.parity import parity
    from components.maxtext_runtime.sizes import argument

    # as the stock program sets itself up when it is run
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")
    jax.config.update("jax_platforms", "cpu")
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
    to_huggingface.main(flags.FLAGS([to_huggingface.__file__, *args]))

    directory = argument(args, "base_output_directory")
    assert directory is not None, "to_huggingface wrote to a directory that was not named"
    model, config = load_model(args)
    measured = parity(model, config, directory)
    Path(parity_file).write_text(json.dumps(dataclasses.asdict(measured), indent=2) + "\n")
    print(
        f"parity: {measured.method}: max |dlogit| {measured.max_abs_diff:.3g} on logits up to {measured.range:.3g}, "
        f"argmax equal at {measured.argmax_agreement:.1%} of {measured.positions} positions; "
        f"parameters after a round trip differ by at most {measured.max_abs_parameter_diff:.3g}",
        flush=True,
    )


def main() -> None:
    """Exits 2 with one line for a mistake of the user."""
    import argparse
    import sys

    from components.errors import UserError
    from components.maxtext_runtime import entry

    parser = argparse.ArgumentParser(prog="python -m components.maxtext_runtime.export", allow_abbrev=False)
    parser.add_argument("--parity", required=True, help="JSON file to write, see parity.py")
    options, args = parser.parse_known_args()
    try:
        entry.prepare(entry.TO_HUGGINGFACE, args)
        export(args, options.parity)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
