"""What `prepare` does for the Ray pipelines: checks what can be checked before anything is spent, and pins revisions.

In: a configuration. Out: the plan of a run. Mistakes are `UserError`s of one line.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from typing import Any

from components import ray_args, storage
from components.config import AnyConfig
from components.errors import UserError
from components.plan import AnyPlan
from components.ray_config import RayConfig, RayFinetuneConfig, RayPretrainConfig
from components.ray_plan import FinetunePlan, PretrainPlan
from components.sources import check, frozen, instructions, model

# the axis of each kind that is -1 in MaxText's base.yml
_FREE = {"ici": "ici_fsdp_parallelism", "dcn": "dcn_data_parallelism"}


def plan(config: AnyConfig, **common: Any) -> AnyPlan:
    """Returns the plan of a fresh run; `common` are the fields that plans of every pipeline have."""
    if isinstance(config, RayFinetuneConfig):
        revision = model.resolve_revision(config.model.source, config.model.revision)
        return FinetunePlan(config=config, model_revision=revision, **common)
    assert isinstance(config, RayPretrainConfig)
    return PretrainPlan(config=config, **common)


def check_inputs(config: AnyConfig) -> None:
    """Raises UserError when the model or the instructions, as far as they are here, are not usable, or the parallelism
    does not fit the slices or workers.
    """
    if isinstance(config, RayConfig) and (slice_ := ray_args.slice_of(config)):
        ray_args.check_slice(slice_)
    if isinstance(config, RayFinetuneConfig):
        _check_model(config)
        instructions.check(config.data, need=config.examples_per_step)
    if isinstance(config, RayPretrainConfig):
        check_parallelism(config)


def _check_model(config: RayFinetuneConfig) -> None:
    source = config.model.source
    if "://" not in source:
        check.check_model_directory(source)
        frozen.check(config.model.frozen, source)
    elif source.startswith(model.TINY) and config.model.frozen:
        with tempfile.TemporaryDirectory() as scratch:
            made = model.fetch_model(source, None, storage.join(scratch, "model"))
            frozen.check(config.model.frozen, made.data_uri)


def check_parallelism(config: RayPretrainConfig) -> None:
    """Raises UserError when MaxText's mesh is not of as many devices as a slice has, and of as many slices as there are,
    with every number of them with which an elastic training goes on.

    One key of each kind may be -1, which takes what is left; that is base.yml's ici_fsdp_parallelism and
    dcn_data_parallelism. A worker without chips is one device, and all of them are one slice.
    """
    slice_ = ray_args.slice_of(config)
    if slice_ is None or config.tpu is None:
        for workers, which in _counts(config, config.ray.workers):
            _check_mesh(config, "ici", workers, f"workers{which}")
        _check_mesh(config, "dcn", 1, "slice")
        return
    _check_mesh(config, "ici", slice_.devices, f"devices of a {slice_.name}")
    for slices, which in _counts(config, config.tpu.slices):
        _check_mesh(config, "dcn", slices, f"slices{which}")


def _counts(config: RayPretrainConfig, most: int) -> Iterator[tuple[int, str]]:
    """With how many slices, or workers without chips, the training begins or goes on, and what makes it so many."""
    yield most, ""
    for fewer in range(config.elastic.least, most) if config.elastic else ():
        yield fewer, " that elastic.least allows"


def _check_mesh(config: RayPretrainConfig, kind: str, size: int, what: str) -> None:
    given = {_FREE[kind]: -1} | {
        key: value
        for key, value in config.maxtext.items()
        if key.startswith(f"{kind}_") and key.endswith("_parallelism") and isinstance(value, int)
    }
    named = ", ".join(f"maxtext.{key}={value}" for key, value in given.items())
    if any(value < 1 and value != -1 for value in given.values()):
        raise UserError(f"An axis of the mesh is 1 or more, or -1, what is left: {named}. Change it.")
    automatic = list(given.values()).count(-1)
    if automatic > 1:
        raise UserError(f"Only one axis of the mesh may be -1, what is left: {named}. Change one of them.")
    fixed = math.prod(value for value in given.values() if value != -1)
    if size % fixed or (not automatic and size != fixed):
        raise UserError(
            f"The mesh does not fit the {size} {what}: the product of {named} is {fixed}. Change one of them."
        )
