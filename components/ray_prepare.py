"""What `prepare` does for the Ray pipelines: checks what can be checked before anything is spent, and pins revisions.

In: a configuration. Out: the plan of a run. Mistakes are `UserError`s of one line.
"""

from __future__ import annotations

import math
from typing import Any

from components import ray_args
from components.config import AnyConfig
from components.errors import UserError
from components.plan import AnyPlan
from components.ray_config import RayFinetuneConfig, RayPretrainConfig
from components.ray_plan import FinetunePlan, PretrainPlan
from components.sources import check, instructions, model


def plan(config: AnyConfig, **common: Any) -> AnyPlan:
    """Returns the plan of a fresh run; `common` are the fields that plans of every pipeline have."""
    if isinstance(config, RayFinetuneConfig):
        revision = model.resolve_revision(config.model.source, config.model.revision)
        return FinetunePlan(config=config, model_revision=revision, **common)
    assert isinstance(config, RayPretrainConfig)
    return PretrainPlan(config=config, **common)


def check_inputs(config: AnyConfig) -> None:
    """Raises UserError when the model or the instructions, as far as they are here, are not usable, or the parallelism
    does not fit the slices.
    """
    if isinstance(config, RayFinetuneConfig):
        if "://" not in config.model.source:
            check.check_model_directory(config.model.source)
        instructions.check(config.data, need=config.examples_per_step)
    if isinstance(config, RayPretrainConfig):
        check_parallelism(config)


def check_parallelism(config: RayPretrainConfig) -> None:
    """Raises UserError when MaxText's mesh is not of as many devices as a slice has, and of as many slices as there are.

    One key of each kind may be -1, which takes what is left; that is base.yml's ici_fsdp_parallelism and
    dcn_data_parallelism.
    """
    slice_ = ray_args.slice_of(config)
    if slice_ is None or config.tpu is None:
        return
    for kind, free, size, what in (
        ("ici", "ici_fsdp_parallelism", slice_.devices, f"devices of a {slice_.name}"),
        ("dcn", "dcn_data_parallelism", config.tpu.slices, "slices"),
    ):
        given = {free: -1} | {
            key: value
            for key, value in config.maxtext.items()
            if key.startswith(f"{kind}_") and key.endswith("_parallelism") and isinstance(value, int)
        }
        fixed = math.prod(value for value in given.values() if value > 0)
        fits = size % fixed == 0 if -1 in given.values() else size == fixed
        if not fits:
            named = ", ".join(f"maxtext.{key}={value}" for key, value in given.items())
            raise UserError(
                f"The mesh does not fit the {size} {what}: {named} have the product {fixed}. Change one of them."
            )
