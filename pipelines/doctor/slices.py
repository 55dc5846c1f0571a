"""The arithmetic of RL on the slices: who gets which devices, and whether the weights fit their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from components import maxtext_args, rl_slice, tpu
from components.config import Config
from pipelines.doctor import hub
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, warning


def divided(case: Case) -> Iterator[Result]:
    """Devices, batch and model can be divided as the settings say, and hold the weights."""
    config = case.config
    if config.tpu is None:
        return
    settings, slice_ = _sent(config), tpu.parse(config.tpu.slice)
    problems = rl_slice.problems(settings, slice_, config.tpu.slices)
    yield from (failure(problem) for problem in problems)
    if problems:
        return
    yield ok("; ".join(rl_slice.devices(settings, slice_, config.tpu.slices).lines()))
    if (count := hub.parameters(config)) is None:
        return
    memory = rl_slice.memory(settings, slice_, config.tpu.slices, parameters=count, optimizer=config.train.optimizer)
    *figures, last = memory.lines()
    if not memory.fits:
        yield warning("; ".join(figures), last)


def _sent(config: Config) -> dict[str, Any]:
    """MaxText's settings as the trainer's command line has them."""
    arguments = maxtext_args.train_rl(config, run_name="", output="", parameters="")[1:]
    return {key: yaml.safe_load(value) for key, _, value in (argument.partition("=") for argument in arguments)}
