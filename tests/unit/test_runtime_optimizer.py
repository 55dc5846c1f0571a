"""Adafactor takes the place of AdamW in the trainer of the installed MaxText, or the run stops with the reason."""

import subprocess
import sys
import textwrap

# each in a process of its own, since the trainer's module is changed
BUILD = """
    import multiprocessing.pool, types, jax, jax.numpy as jnp
    from components.maxtext_runtime.optimizer import use_adafactor
    from maxtext.trainers.post_train.rl import utils_rl
    use_adafactor()
    config = types.SimpleNamespace(learning_rate=1e-3, train_steps=4, warmup_steps_fraction=0.0, adam_b1=0.9, adam_b2=0.9,
                                   adam_weight_decay=0.0, gradient_clipping_threshold=1.0)
    state = utils_rl.get_optimizer(config).init({"w": jnp.zeros((256, 256))})
    print("floats", sum(leaf.size for leaf in jax.tree.leaves(state)))
"""
TWICE = """
    import inspect, multiprocessing.pool
    from components.maxtext_runtime.optimizer import use_adafactor
    from maxtext.trainers.post_train.rl import utils_rl
    source = inspect.getsource(utils_rl)
    inspect.getsource = lambda module: source.replace("optax.adamw(", "optax.adam(")
    use_adafactor()
"""


def run(code):
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=None)


def test_the_state_of_the_optimizer_has_no_moments_of_every_parameter():
    done = run(BUILD)
    assert "optimizer: adafactor" in done.stdout, done.stderr
    assert int(done.stdout.split("floats")[1]) < 2 * 256 * 256 / 10


def test_a_maxtext_without_the_one_call_is_refused():
    done = run(TWICE)
    assert done.returncode != 0
    assert "calls optax.adamw 0 times" in done.stderr
