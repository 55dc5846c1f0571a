"""Runs a stock MaxText module: `python -m components.maxtext_runtime.entry MODULE [stock arguments]`.

MODULE is one of the modules of the TPU tutorial, with its own arguments. It runs after these preparations, none of
which changes what it computes for a published model:
  - every argument is checked against the settings of the MaxText that is installed here, which is the image's;
  - `multiprocessing.pool` is imported, which MaxText's reward pool uses without importing it;
  - the conversion maps follow the sizes of the local model (sizes.py);
  - the objects made by imports are frozen out of garbage collection, since the converters collect once per tensor;
  - for train_rl, POSTTRAIN_START_STEP says which step it goes on from, for whoever counts steps (rewards/recorder.py);
  - for train_rl, the optimizer that POSTTRAIN_OPTIMIZER names (optimizer.py);
  - for train_rl on CPU, a JAX sampler takes the place of vLLM (substitutions.py).

The top level imports nothing: the reward workers are spawned processes that import this file again.
"""

TO_MAXTEXT = "maxtext.checkpoint_conversion.to_maxtext"
TO_HUGGINGFACE = "maxtext.checkpoint_conversion.to_huggingface"
TRAIN_RL = "maxtext.trainers.post_train.rl.train_rl"


def prepare(module: str, args: list[str]) -> None:
    """Applies the preparations for `module` with its stock arguments. Raises UserError for a bad model directory."""
    import gc
    import importlib
    import multiprocessing.pool  # noqa: F401
    import os

    from components.maxtext_runtime import sizes

    check_settings(args)
    os.environ.setdefault("HF_TOKEN", "none")  # MaxText asks for one even for local files
    sizes.use_sizes_from_arguments(args)
    if module in (TO_MAXTEXT, TO_HUGGINGFACE):
        # not the converter itself: it must be imported as __main__, and defines command line flags once
        for heavy in ("configs.pyconfig", "models.models", "checkpoint_conversion.utils.utils"):
            importlib.import_module(f"maxtext.{heavy}")
    elif module == TRAIN_RL:
        if os.environ.get("JAX_PLATFORMS") == "cpu":
            from components.maxtext_runtime.quiet import drop_rollout_texts
            from components.maxtext_runtime.substitutions import use_cpu_rollout

            drop_rollout_texts()
            use_cpu_rollout()
        importlib.import_module(module)
        os.environ["POSTTRAIN_START_STEP"] = str(start_step(args))
        if os.environ.get("POSTTRAIN_OPTIMIZER") == "adafactor":
            from components.maxtext_runtime.optimizer import use_adafactor

            use_adafactor()
    gc.collect()
    gc.freeze()


def start_step(args: list[str]) -> int:
    """The latest complete step of the training with these arguments, 0 for none. Asked here and not by who launches:
    a pod that is started anew goes on from what the one before it saved.
    """
    from components.maxtext_runtime import checkpoints
    from components.maxtext_runtime.sizes import argument

    output, run_name = argument(args, "base_output_directory"), argument(args, "run_name")
    if not output or not run_name:
        return 0
    return max(checkpoints.complete_steps(checkpoints.actor_dir(output, run_name)), default=0)


def check_settings(args: list[str]) -> None:
    """Raises UserError for the first `name=value` whose name this MaxText does not know; flags with dashes are not
    settings.
    """
    from components import maxtext_schema
    from components.errors import UserError

    names = (arg.split("=", 1)[0] for arg in args if "=" in arg and not arg.startswith("-"))
    if problems := maxtext_schema.installed().problems(dict.fromkeys(names)):
        raise UserError(f"{problems[0]} The image has another MaxText than the one that planned this run.")


def close_reward_pool() -> None:
    """Lets the processes of MaxText's reward pool end by themselves, if any, instead of killing them at exit.

    MaxText's own exit handler sends them SIGTERM. An idle one holds the lock of the task queue while it waits for work;
    killed there, it keeps the lock for ever, and the interpreter waits for that lock for ever (seen with idle workers:
    the training ends, the process does not).
    """
    import sys
    from typing import Any

    module: Any = sys.modules.get("maxtext.trainers.post_train.rl.math_verify_pool")
    if module is not None and module._POOL is not None:
        module._POOL.close()
        module._POOL.join()
        module._POOL = None


def main() -> None:
    """Prepares and runs; exits 2 with one line for a mistake of the user."""
    import runpy
    import sys

    if len(sys.argv) < 2:
        sys.exit("usage: python -m components.maxtext_runtime.entry MODULE [stock arguments]")
    from components.errors import UserError

    module, args = sys.argv[1], sys.argv[2:]
    try:
        prepare(module, args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if module == TRAIN_RL:
        # imported, not run as __main__: spawned reward workers import __main__ again, which must stay this file
        from absl import app
        from maxtext.trainers.post_train.rl import train_rl

        try:
            app.run(train_rl.main, argv=[train_rl.__file__, *args])
        finally:
            close_reward_pool()
    else:
        sys.argv = [module, *args]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
