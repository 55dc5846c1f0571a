"""The arithmetic of RL on the slices: who gets which devices, and whether the weights fit their memory."""

from __future__ import annotations

from collections.abc import Iterator

from components import maxtext_args, rl_slice, tpu
from components.config import Config
from pipelines.doctor import hub
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, warning


def divided(case: Case) -> Iterator[Result]:
    """Devices, batch and model can be divided as the settings say."""
    if not isinstance(case.config, Config) or case.config.tpu is None:
        return
    asked = maxtext_args.settings(case.config), tpu.parse(case.config.tpu.slice), case.config.tpu.slices
    problems = rl_slice.problems(*asked)
    yield from (failure(problem) for problem in problems)
    if not problems:
        yield ok("; ".join(rl_slice.devices(*asked).lines()))


def holds_weights(case: Case) -> Iterator[Result]:
    """The devices have memory for the weights and what training keeps beside them, as far as that can be estimated."""
    if not isinstance(case.config, Config) or case.config.tpu is None:
        return
    if (count := hub.parameters(case.config)) is None:
        return
    asked = maxtext_args.settings(case.config), tpu.parse(case.config.tpu.slice), case.config.tpu.slices
    if rl_slice.problems(*asked):
        return
    memory = rl_slice.memory(*asked, parameters=count, optimizer=case.config.train.optimizer)
    trainer, sampler, *cure = memory.lines()
    yield warning(f"{trainer}; {sampler}", cure[0]) if cure else ok(f"{trainer}; {sampler}")
