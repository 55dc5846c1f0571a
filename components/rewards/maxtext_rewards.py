"""The file that MaxText is given as `reward_functions_path`; `reward_functions` names functions of
`components.rewards.functions`.

MaxText asks this module for each function by name and calls it as `fn(prompts=, completions=, tmvp_config=, answer=,
question=, mode=, ...)`, with `answer` a JSON list of acceptable answers per completion. A function returns weighted
rewards, one per completion. A completion that cannot be scored gets 0: so do all others of its group, and the group
then moves nothing. Training batches are recorded (recorder.py, which also lists the environment); those of MaxText's
own evaluation are not.

MaxText's `reward_num_workers` stays 0 with these functions: recording needs them in one process, and the slow part,
math-verify, has worker processes of its own.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from components.rewards.batch import Batch, RewardFunction
from components.rewards.extract import Tags
from components.rewards.functions import available, weighted
from components.rewards.recorder import recorder

MaxTextReward = Callable[..., list[float]]


def __getattr__(name: str) -> MaxTextReward:
    """The function `name` as MaxText calls it."""
    if name.startswith("__"):
        raise AttributeError(name)
    functions = _functions()
    if name not in functions:
        raise AttributeError(f"no reward function '{name}'; there are {', '.join(sorted(functions))}")
    return _for_maxtext(name)


@functools.cache
def _functions() -> dict[str, RewardFunction]:
    return available(os.environ.get("POSTTRAIN_REWARD_FILE"))


@functools.cache
def _for_maxtext(name: str) -> MaxTextReward:
    function = _functions()[name]

    def reward(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        tmvp_config: Any = None,
        answer: Sequence[Any] = (),
        question: Any = (),
        **kwargs: Any,
    ) -> list[float]:
        # MaxText's own evaluation says no mode, and gives the question of its one completion as a string
        evaluating = isinstance(question, str) or not str(kwargs.get("mode", "train")).lower().endswith("train")
        questions = [question] if isinstance(question, str) else [_text(one) for one in question]
        batch = Batch(
            completions=[_text(completion) for completion in completions],
            golds=[_golds(one) for one in answer] if len(answer) else [[] for _ in completions],
            prompts=[_text(prompt) for prompt in prompts],
            questions=questions,
            tags=Tags.from_maxtext(tmvp_config),
        )
        keeper = recorder()
        values = weighted(function(batch), keeper.weights[name])
        if not evaluating:
            keeper.add(name, values, batch)
        return [0.0 if value is None else value for value in values]

    reward.__name__ = reward.__qualname__ = name  # Tunix names its metrics by it: rewards/<name>
    return reward


def _golds(answer: Any) -> list[str]:
    """MaxText gives `["A", "A"]` with A the answer column; ours (components/sources) is itself a JSON list of texts."""
    golds: list[str] = []
    for gold in map(_text, json.loads(_text(answer))):
        listed = _listed(gold)
        golds += [gold] if listed is None else listed
    return list(dict.fromkeys(gold for gold in golds if gold.strip()))


def _listed(gold: str) -> list[str] | None:
    """The answers of a JSON list of texts; None for anything else, such as the mathematical list `[1, 2]`."""
    if gold != "[]" and not gold.startswith('["'):
        return None
    try:
        answers = json.loads(gold)
    except ValueError:
        return None
    return answers if all(isinstance(answer, str) for answer in answers) else None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
