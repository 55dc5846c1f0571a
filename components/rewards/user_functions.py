"""A user's own reward functions, from a Python file.

They have the signature that MaxText and TRL share: keyword arguments `prompts`, `completions`, `answer`, `question`
(those that the function names, or all with `**kwargs`), each a list with one entry per completion; an entry of `answer`
is a JSON list of acceptable answers, as MaxText gives it. They return one number per completion, or None where there is
nothing to score.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from components.errors import UserError
from components.rewards.batch import Batch, RewardFunction, Values

_SAMPLE_GOLDS = (["42"], ["7", "7.0"], ["\\frac{1}{2}"])


def load_user_functions(path: str) -> dict[str, RewardFunction]:
    """The public functions that the file defines, by name.

    Raises:
      UserError: the file does not exist, is not Python, fails when it is imported, or defines no function.
    """
    module = _import_file(path)
    functions = {
        name: _adapt(value)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    if not functions:
        raise UserError(
            f"{path} defines no reward function: add one, def my_reward(completions, answer, **kwargs) -> list[float]."
        )
    return functions


def check_on_sample(name: str, function: RewardFunction) -> None:
    """Calls a function on six completions.

    Raises:
      UserError: it raises, or returns anything but one finite number or None per completion.
    """
    golds = [gold for gold in _SAMPLE_GOLDS for _ in range(2)]
    answered = [f"<reasoning>so</reasoning><answer>{gold[0]}</answer>" for gold in _SAMPLE_GOLDS]
    completions = [text for right in answered for text in (right, "I do not know")]
    questions = [f"What is {gold[0]}?" for gold in golds]
    try:
        values = function(Batch(completions, golds, prompts=questions, questions=questions))
    except (Exception, SystemExit) as error:  # the user's code may raise anything, and all of it is theirs to mend
        raise UserError(f"Your reward function '{name}' fails on a sample: {_what(error)}") from error
    if len(values) != len(completions):
        raise UserError(
            f"Your reward function '{name}' returned {len(values)} values for {len(completions)} completions: "
            "return one for each."
        )
    for value in values:
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise UserError(f"Your reward function '{name}' returned {value!r}: return a finite number or None.")


def _import_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise UserError(f"The reward file {path} does not exist: give the path of a Python file in train.reward_file.")
    spec = importlib.util.spec_from_file_location(f"posttrain_user_rewards_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"The reward file {path} is not a Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # as above
        raise UserError(f"The reward file {path} fails when it is imported: {_what(error)}") from error
    return module


def _what(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _adapt(function: Callable[..., Any]) -> RewardFunction:
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = {parameter.name for parameter in parameters}

    @functools.wraps(function)
    def adapted(batch: Batch) -> Values:
        nothing = [""] * len(batch.completions)
        given = {
            "prompts": list(batch.prompts or batch.questions or nothing),
            "completions": list(batch.completions),
            "answer": [json.dumps(list(golds)) for golds in batch.golds],
            "question": list(batch.questions or nothing),
            "tmvp_config": None,
        }
        return list(function(**{name: value for name, value in given.items() if takes_all or name in named}))

    return adapted
