"""Adafactor in place of AdamW in MaxText's RL trainer, which offers no choice of its own.

AdamW keeps two moments of every parameter; Adafactor keeps row and column sums (Shazeer and Stern 2018), which is what
fits beside policy and reference on chips with 32 GB. The trainer's one call of `optax.adamw` is redirected; a MaxText
in which there is no such call, or more than one, is refused, because then nothing or too much would be changed.
"""

from __future__ import annotations

import ast
import inspect
import types
from typing import Any


def use_adafactor() -> None:
    """Redirects the call. Raises RuntimeError when this MaxText's trainer is not the one this is written for."""
    import optax
    from maxtext.trainers.post_train.rl import utils_rl

    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(utils_rl)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "optax.adamw"
    ]
    if len(calls) != 1:
        raise RuntimeError(
            f"maxtext's utils_rl.py calls optax.adamw {len(calls)} times, not once: train.optimizer=adafactor does not "
            "fit the MaxText of this image."
        )
    redirected: Any = types.SimpleNamespace(**vars(optax))
    redirected.adamw = _adafactor
    utils_rl.optax = redirected
    print("optimizer: adafactor", flush=True)


def _adafactor(learning_rate: Any, weight_decay: float = 0.0, **_moments: float) -> Any:
    """Adafactor with what it shares with AdamW; its moments have no b1 and b2."""
    import optax

    return optax.adafactor(learning_rate=learning_rate, weight_decay_rate=weight_decay or None)
