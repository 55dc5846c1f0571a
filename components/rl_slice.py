"""The arithmetic of RL on TPU slices, checked before anything is submitted.

`train_rl` divides the devices of the slices between a trainer and a sampler, gives each a mesh, and cuts the model and
the batch along them. What cannot be divided fails only after the slice has been waited for and paid. In: MaxText
settings and the slices. Out: `problems`, one sentence each with the key to change and a value that fits; `devices`, the
division itself, for a person to read; `memory`, a rough figure of what the chips must hold.

All rules are those of MaxText 0.2.5 (train_rl.py, model_creation_utils.setup_configs_and_devices, moe.py, attentions.py)
and of JAX 0.11 (mesh_utils.py); the tests run them next to these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any, Literal

import yaml

from components import maxtext_schema
from components.errors import UserError
from components.tpu import Slice

# The axes of the trainer's mesh (base.yml, mesh_axes; its axis stage is called pipeline in the settings).
AXES = (
    "diloco",
    "data",
    "pipeline",
    "fsdp_transpose",
    "context",
    "context_usp_ulysses",
    "context_autoregressive",
    "tensor",
    "tensor_sequence",
    "expert",
    "autoregressive",
    "fsdp",
)
_ICI = {axis: f"ici_{axis}_parallelism" for axis in AXES}
# MaxText's defaults: configs/post_train/rl.yml, else configs/base.yml.
DEFAULTS: Mapping[str, Any] = {
    "trainer_devices_fraction": 0.5,
    "sampler_devices_fraction": 0.5,
    "chips_per_vm": 4,
    "use_pathways": True,
    "num_trainer_slices": -1,
    "num_samplers_slices": -1,
    "rollout_tensor_parallelism": 1,
    "rollout_expert_parallelism": 1,
    "rollout_data_parallelism": -1,
    **dict.fromkeys(_ICI.values(), 1),
    "ici_fsdp_parallelism": -1,
    "batch_size": 1,
    "train_micro_batch_size": -1,
    "rl.num_generations": 2,
    "num_experts": 1,
    "sparse_matmul": True,
    "weight_dtype": "bfloat16",
    "hbm_utilization_vllm": 0.72,
}
_ROLLOUT = ("rollout_tensor_parallelism", "rollout_expert_parallelism", "rollout_data_parallelism")
_FRACTIONS = ("trainer_devices_fraction", "sampler_devices_fraction")
_SLICE_COUNTS = ("num_trainer_slices", "num_samplers_slices")
_BATCH = ("train_micro_batch_size", "batch_size")

# Sizes of the model that are cut along the trainer's mesh (base.yml, logical_axis_rules): size, axes.
_CUT_BY = (
    ("base_num_kv_heads", ("tensor", "tensor_sequence", "autoregressive")),
    ("global_num_kv_heads", ("tensor", "tensor_sequence", "autoregressive")),
    ("num_experts", ("expert",)),
    ("base_emb_dim", ("fsdp", "fsdp_transpose", "context", "context_usp_ulysses", "expert")),
)
_ROWS_CUT_BY = ("data", "fsdp", "fsdp_transpose", "expert")

# Names in a preset of the settings that a section of it owns; all others stand below maxtext.
_PRESET_NAMES = {"train_micro_batch_size": "train.micro_batch_size", "batch_size": "train.batch_size"}


@dataclass(frozen=True)
class Split:
    """Who gets which devices. A device is a chip, but one of the two TensorCores of a tpu7x chip.

    Attributes:
      trainer, sampler: devices of each.
      idle: devices of neither. They are paid for all the same.
      shared: devices of both.
      mesh: size of every axis of the trainer's mesh.
      rollout_tp, rollout_ep, rollout_dp: devices that share a layer, devices that share the experts, copies of the model.
    """

    trainer: int
    sampler: int
    idle: int
    shared: int
    mesh: Mapping[str, int]
    rollout_tp: int
    rollout_ep: int
    rollout_dp: int

    @property
    def trainer_fsdp(self) -> int:
        """Devices of the trainer among which the weights are spread besides the explicit axes."""
        return self.mesh["fsdp"]

    def lines(self) -> list[str]:
        """The division as a person reads it."""
        axes = " x ".join(f"{axis} {size}" for axis, size in self.mesh.items() if size > 1) or "one device"
        lines = [
            f"trainer: {self.trainer} devices = {axes}",
            f"sampler: {self.sampler} devices = {self.rollout_dp} copies of the model x tensor {self.rollout_tp} "
            f"x expert {self.rollout_ep}",
        ]
        if self.idle:
            lines.append(f"idle: {self.idle} devices that are paid for")
        if self.shared:
            lines.append(f"shared: {self.shared} devices hold both the trainer's and the sampler's weights")
        return lines


@dataclass(frozen=True)
class Memory:
    """An estimate of what one device holds, in GiB. Activations and buffers of the compiler come on top.

    Attributes:
      trainer: policy, reference, gradients and optimizer.
      sampler: weights.
      sampler_limit: what vLLM may take for weights and KV cache.
      device: memory of a device.
      shared: whether trainer and sampler are on the same devices.
    """

    trainer: float
    sampler: float
    sampler_limit: float
    device: float
    shared: bool

    @property
    def fits(self) -> bool:
        """Whether the weights alone leave anything at all."""
        used = self.trainer + self.sampler if self.shared else self.trainer
        return used < self.device and self.sampler < self.sampler_limit

    def lines(self) -> list[str]:
        """The estimate as a person reads it."""
        return [
            f"memory of a trainer device (estimate): {self.trainer:.1f} of {self.device:.0f} GiB for policy, reference, "
            "gradients and optimizer; activations come on top",
            f"memory of a sampler device (estimate): {self.sampler:.1f} of {self.sampler_limit:.1f} GiB for weights; the "
            "rest is KV cache",
            *(["this does not fit: take a larger slice, or train.optimizer=adafactor"] if not self.fits else []),
        ]


def problems(settings: Mapping[str, Any], slice_: Slice, slices: int = 1) -> list[str]:
    """What would fail on these slices, one sentence each, with the key to change and a value that fits.

    `settings` are MaxText's, by their own names, model_name among them; those that are absent have MaxText's defaults.
    """
    case = _Case(_complete(settings), slice_, slices)
    for checks in _CHECKS:
        if found := [f"{fault.text}: {_cure(case, check, fault)}." for check in checks if (fault := check(case))]:
            return found
    return []


def devices(settings: Mapping[str, Any], slice_: Slice, slices: int = 1) -> Split:
    """How `train_rl` divides the devices. UserError with the first of the `problems` if it cannot."""
    for problem in problems(settings, slice_, slices):
        raise UserError(problem)
    case = _Case(_complete(settings), slice_, slices)
    rollout = case.rollout()
    return Split(
        trainer=case.trainer,
        sampler=case.sampler,
        idle=max(0, case.total - case.trainer - case.sampler),
        shared=max(0, case.trainer + case.sampler - case.total),
        mesh=case.mesh(case.trainer),
        rollout_tp=rollout["rollout_tensor_parallelism"],
        rollout_ep=rollout["rollout_expert_parallelism"],
        rollout_dp=rollout["rollout_data_parallelism"],
    )


def memory(
    settings: Mapping[str, Any],
    slice_: Slice,
    slices: int = 1,
    *,
    parameters: float,
    optimizer: Literal["adamw", "adafactor"] = "adamw",
) -> Memory:
    """A rough estimate of the memory of a device, for a model of so many `parameters`.

    The trainer holds policy, reference and gradients, AdamW two moments more, Adafactor next to nothing; with more than
    one micro-batch also the gradients' sum. All have the type of the weights: MaxText's mu_dtype and grad_dtype do not
    reach the optimizer of `train_rl` (utils_rl.get_optimizer). UserError as `devices`.
    """
    split = devices(settings, slice_, slices)
    values = _complete(settings)
    weights = parameters * (4 if values["weight_dtype"] == "float32" else 2) / 2**30
    copies = (
        3 + (2 if optimizer == "adamw" else 0) + (values["train_micro_batch_size"] not in (-1, values["batch_size"]))
    )
    device = slice_.hbm_gb * slice_.chips / slice_.devices
    return Memory(
        trainer=copies * weights / (split.trainer / (split.mesh["data"] * split.mesh["diloco"])),
        sampler=weights / (split.rollout_tp * split.rollout_ep),
        sampler_limit=device * values["hbm_utilization_vllm"],
        device=device,
        shared=split.shared > 0,
    )


def _complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with MaxText's defaults and the sizes of MaxText's own file for the model below them."""
    path = maxtext_schema.package_root() / "configs" / "models" / f"{settings['model_name']}.yml"
    sizes = yaml.safe_load(path.read_text()) if path.is_file() else {}
    return {**DEFAULTS, **sizes, **settings}


@dataclass(frozen=True)
class _Case:
    """Settings on slices, and what follows from them. A mesh that cannot be made is an empty mapping."""

    values: Mapping[str, Any]
    slice: Slice
    slices: int

    @property
    def total(self) -> int:
        return self.slice.devices * self.slices

    @property
    def divided(self) -> bool:
        """Only then do the fractions matter; else trainer and sampler both have all devices."""
        return bool(self.values["use_pathways"]) and self.total >= 2 * self.values["chips_per_vm"]

    @property
    def trainer(self) -> int:
        return int(self.total * self.values["trainer_devices_fraction"]) if self.divided else self.total

    @property
    def sampler(self) -> int:
        return int(self.total * self.values["sampler_devices_fraction"]) if self.divided else self.total

    @property
    def micro_batch(self) -> int:
        given: int = self.values["train_micro_batch_size"]
        return self.values["batch_size"] if given == -1 else given

    def rollout(self) -> Mapping[str, int]:
        return _filled({key: self.values[key] for key in _ROLLOUT}, self.sampler)

    def mesh(self, devices: int) -> Mapping[str, int]:
        """By axis. Trainer and sampler have meshes of the same settings, each of its own devices."""
        sizes = _filled({key: self.values[key] for key in _ICI.values()}, devices)
        return {axis: sizes[key] for axis, key in _ICI.items()} if sizes else {}

    def with_(self, changes: Mapping[str, Any]) -> _Case:
        return _Case({**self.values, **changes}, self.slice, self.slices)


def _filled(sizes: Mapping[str, int], total: int) -> Mapping[str, int]:
    """The sizes with the one that is -1 put to what the others leave of `total`; empty where that cannot be."""
    explicit = math.prod(size for size in sizes.values() if size != -1)
    automatic = [key for key, size in sizes.items() if size == -1]
    if len(automatic) > 1 or explicit < 1 or total < 1 or total % explicit or (not automatic and total != explicit):
        return {}
    return {key: total // explicit if size == -1 else size for key, size in sizes.items()}


@dataclass(frozen=True)
class _Fault:
    """What is wrong, and the keys that can mend it, the likeliest first."""

    text: str
    keys: tuple[str, ...]


def _range(case: _Case) -> _Fault | None:
    for key in _FRACTIONS:
        if not 0 < case.values[key] <= 1:
            return _Fault(f"{_shown(key)} {case.values[key]} is no fraction above 0 and up to 1", (key,))
    for key in (*_ROLLOUT, *_ICI.values()):
        if case.values[key] < 1 and case.values[key] != -1:
            return _Fault(f"{_shown(key)} {case.values[key]} is neither positive nor -1 (automatic)", (key,))
    return None


def _without_effect(case: _Case) -> _Fault | None:
    # train_rl makes one mesh without a DCN dimension, and reads only the axes of that mesh
    for key, size in case.values.items():
        dcn = key.startswith("dcn_") and key.endswith("_parallelism")
        if (dcn or key == "ici_sequence_parallelism") and size not in (1, -1):
            return _Fault(f"{_shown(key)} {size} has no effect, as train_rl's mesh has no such axis", (key,))
    return None


def _whole_slices(case: _Case) -> _Fault | None:
    given = [key for key in _SLICE_COUNTS if case.values[key] != -1]
    if not given:
        return None
    return _Fault(
        f"{' and '.join(_shown(key) for key in given)} cannot be used: MaxText 0.2.5 loses the number of slices there and "
        f"stops, while {_shown(_FRACTIONS[0])} divides slices as well",
        tuple(given),
    )


def _boxes(case: _Case) -> _Fault | None:
    for who, count, key in (("trainer", case.trainer, _FRACTIONS[0]), ("sampler", case.sampler, _FRACTIONS[1])):
        keys = tuple(sorted(_FRACTIONS, key=lambda fraction: fraction != key)) if case.divided else ("use_pathways",)
        part = f"the {who} gets {count} of {case.total} devices"
        if count < 1:
            return _Fault(part, keys)
        if count > case.slice.devices:
            return _Fault(f"{part}, but its mesh cannot reach over slices of {case.slice.devices}", keys)
        if not _may_be_box(count, case.slice):
            return _Fault(f"{part}, which is no box of a {case.slice.topology} as JAX wants for a mesh", keys)
    return None


def _may_be_box(count: int, slice_: Slice) -> bool:
    """Whether the first (or, as well, the last) so many devices fill a box, in any order that devices may come in.

    JAX's order is host by host, the first dimension fastest; that of Pathways is not written down.
    """
    cores = slice_.devices // slice_.chips
    if count % cores:
        return count == 1
    sides = [int(side) for side in slice_.topology.split("x")]
    host = [min(2, side) for side in sides[:2]] + [1] * (len(sides) - 2) if slice_.hosts > 1 else sides
    hosts = [side // own for side, own in zip(sides, host, strict=True)]
    chips = count // cores
    return any(_fills(chips, order) for order in permutations(sides)) or (
        chips % slice_.chips_per_host == 0
        and any(_fills(chips // slice_.chips_per_host, order) for order in permutations(hosts))
    )


def _fills(count: int, sides: tuple[int, ...]) -> bool:
    for side in sides:
        if count <= side:
            return True
        if count % side:
            return False
        count //= side
    return True


def _rollout(case: _Case) -> _Fault | None:
    if case.rollout():
        return None
    return _Fault(
        f"{case.sampler} sampler devices cannot be divided by {_sizes(case, _ROLLOUT)}",
        _ROLLOUT,
    )


def _heads(case: _Case) -> _Fault | None:
    # vLLM, ModelConfig.verify_with_parallel_config
    heads, tp = case.values.get("base_num_query_heads"), case.rollout().get("rollout_tensor_parallelism")
    if not heads or not tp or heads % tp == 0:
        return None
    return _Fault(
        f"vLLM cannot divide the {heads} attention heads of {case.values['model_name']} by {_shown(_ROLLOUT[0])} {tp}",
        (_ROLLOUT[0], _ROLLOUT[2]),
    )


def _mesh(case: _Case) -> _Fault | None:
    for who, count in (("trainer", case.trainer), ("sampler", case.sampler)):
        if not case.mesh(count):
            given = tuple(key for key in _ICI.values() if case.values[key] != 1)
            return _Fault(
                f"{count} {who} devices cannot be divided by {_sizes(case, given)}",
                tuple(dict.fromkeys((*given, _ICI["fsdp"]))),
            )
    return None


def _model(case: _Case) -> _Fault | None:
    mesh = case.mesh(case.trainer)
    for name, axes in _CUT_BY if mesh else ():
        size, parts = case.values.get(name, 1), math.prod(mesh[axis] for axis in axes)
        # 1 and less: the model does not have it
        if size > 1 and size % parts:
            cutting = tuple(_ICI[axis] for axis in axes if mesh[axis] > 1)
            return _Fault(
                f"{name} {size} of {case.values['model_name']} cannot be divided by the {parts} trainer devices of "
                f"{' x '.join(_shown(key) for key in cutting)}",
                (*cutting, *_FRACTIONS),
            )
    return None


def _rows(case: _Case) -> _Fault | None:
    batch, micro = case.values["batch_size"], case.micro_batch
    if batch % micro:
        return _Fault(f"{_shown('batch_size')} {batch} cannot be divided by {_shown(_BATCH[0])} {micro}", _BATCH)
    mesh = case.mesh(case.trainer)
    # moe.py replicates a batch that cannot be divided, except between the devices that share the experts
    if not mesh or mesh["expert"] == 1 or case.values["num_experts"] <= 1 or not case.values["sparse_matmul"]:
        return None
    generations, parts = case.values["rl.num_generations"], math.prod(mesh[axis] for axis in _ROWS_CUT_BY)
    rows = micro * generations
    # a single row is taken for a decoding step, which is replicated
    if rows == 1 or rows % parts == 0:
        return None
    explicit = _BATCH if case.values["train_micro_batch_size"] != -1 else ("batch_size",)
    return _Fault(
        f"a pass of {micro} prompts x {generations} completions cannot be divided by the {parts} trainer devices of "
        f"{' x '.join(_shown(_ICI[axis]) for axis in _ROWS_CUT_BY if mesh[axis] > 1)}",
        explicit,
    )


_Check = Callable[[_Case], _Fault | None]
# one group after the other: a later one would only complain about the consequences of an earlier one
_CHECKS: tuple[tuple[_Check, ...], ...] = (
    (_range,),
    (_without_effect, _whole_slices, _boxes),
    (_rollout, _heads, _mesh, _model, _rows),
)


def _cure(case: _Case, check: _Check, fault: _Fault) -> str:
    """The smallest change of the fault's keys (one, two, or all to their defaults) after which all is well; else one that
    breaks nothing; else one that breaks nothing that comes before.
    """
    every = [each for checks in _CHECKS for each in checks]
    sound = [each for each in every if each is check or not each(case)]
    for needed in (every, sound, sound[: sound.index(check) + 1]):
        for changes in _changes(case, fault.keys):
            changed = case.with_(changes)
            if not any(each(changed) for each in needed):
                return "set " + " and ".join(f"{_shown(key)} to {value}" for key, value in changes.items())
    return "change " + " or ".join(_shown(key) for key in fault.keys)


def _changes(case: _Case, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    choices = {key: _choices(case, key) for key in keys}
    for key in keys:
        yield from ({key: value} for value in choices[key])
    for first, second in combinations(keys, 2):
        yield from ({first: one, second: two} for one, two in product(choices[first], choices[second]))
    yield {key: DEFAULTS[key] for key in keys}


def _choices(case: _Case, key: str) -> list[Any]:
    """Values that a key could have instead, the nearest first."""
    now = case.values[key]
    if key in _SLICE_COUNTS:
        return [-1]
    if key == "use_pathways":
        return [True]
    if key in _FRACTIONS:
        # what was apart stays apart
        most = max(now, 1 - sum(case.values[other] for other in _FRACTIONS if other != key))
        return _nearest(now, [part / 16 for part in range(1, 17) if part / 16 <= most])
    if key == "batch_size":
        return _nearest(now, range(1, now + case.trainer + 1))
    if key == "train_micro_batch_size":
        return _nearest(now, {*_divisors(case.trainer), *_divisors(case.values["batch_size"])})
    return [*_nearest(now, _divisors(case.total)), -1]


def _nearest(wanted: float, values: Iterable[float]) -> list[float]:
    return sorted(values, key=lambda value: abs(math.log(value / max(wanted, 1e-3))))


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _sizes(case: _Case, keys: tuple[str, ...]) -> str:
    return " x ".join(f"{_shown(key)} {case.values[key]}" for key in keys)


def _shown(key: str) -> str:
    return _PRESET_NAMES.get(key, f"maxtext.{key}")
