"""TPU slices: generation, topology, chips, hosts, machine types and names.

In: what a person writes, such as "v6e-32" or "v6e:4x8". Out: a `Slice` with everything that a manifest or a plan needs
to know about it. Pure arithmetic on Google's tables; a slice that cannot be had is a `UserError` that names the nearest
ones that can.

Sources: docs.cloud.google.com/tpu/docs (v5e, v5p, v6e, tpu7x), cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus,
GoogleCloudPlatform/cluster-toolkit pkg/config/hardware.go, AI-Hypercomputer/xpk system_characteristics.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict

from components.errors import UserError, did_you_mean

GenerationName = Literal["v5e", "v5p", "v6e", "tpu7x"]

# topology: chips of a host; the first is meant where a person names none
_Shapes = Mapping[str, tuple[int, ...]]

_FLAT_SHAPES: _Shapes = {
    "1x1": (1,),
    "2x2": (4,),
    "2x4": (8, 4),
    "4x4": (4,),
    "4x8": (4,),
    "8x8": (4,),
    "8x16": (4,),
    "16x16": (4,),
}


@dataclass(frozen=True)
class _Generation:
    """What the slices of a generation share. `cores_in_name`: how many of a name's N a chip counts for."""

    accelerator: str
    machine: str
    pathways: str
    hbm_gb: int
    cores_in_name: int
    devices_per_chip: int
    # the largest slice in cubes of 4x4x4 chips; None for the generations whose slices are flat
    cubes: int | None


_GENERATIONS: Mapping[str, _Generation] = {
    "v5e": _Generation("tpu-v5-lite-podslice", "ct5lp-hightpu", "tpuv5e", 16, 1, 1, None),
    "v5p": _Generation("tpu-v5p-slice", "ct5p-hightpu", "tpuv5", 95, 2, 1, 140),
    "v6e": _Generation("tpu-v6e-slice", "ct6e-standard", "tpuv6e", 32, 1, 1, None),
    "tpu7x": _Generation("tpu7x", "tpu7x-standard", "tpu7x", 192, 2, 2, 144),
}


class Slice(BaseModel):
    """A TPU slice; `parse` makes one.

    Attributes:
      generation: v5e, v5p, v6e or tpu7x.
      topology: how the chips are arranged, such as "4x8".
      chips: their number.
      hosts: machines, which is pods of a workload.
      chips_per_host: chips of one machine, which a pod asks for as google.com/tpu.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    generation: GenerationName
    topology: str
    chips: int
    hosts: int
    chips_per_host: int

    @property
    def name(self) -> str:
        """The name by size, such as "v6e-32". N counts chips; TensorCores, two a chip, for v5p and tpu7x."""
        return f"{self.generation}-{self.chips * self._facts.cores_in_name}"

    @property
    def accelerator(self) -> str:
        """Value of the node label cloud.google.com/gke-tpu-accelerator."""
        return self._facts.accelerator

    @property
    def pathways_type(self) -> str:
        """What the Pathways resource manager takes as --instance_type."""
        return f"{self._facts.pathways}:{self.topology}"

    @property
    def machine_type(self) -> str:
        """Compute Engine's machine type of every host."""
        return f"{self._facts.machine}-{self.chips_per_host}t"

    @property
    def hbm_gb(self) -> int:
        """Memory of one chip in GiB."""
        return self._facts.hbm_gb

    @property
    def devices(self) -> int:
        """What JAX counts as devices: the chips, but both TensorCores of a tpu7x chip."""
        return self.chips * self._facts.devices_per_chip

    @property
    def _facts(self) -> _Generation:
        return _GENERATIONS[self.generation]


_WRITTEN = re.compile(
    r"(?P<generation>[a-z0-9]+)(?:-(?P<size>[1-9][0-9]{0,6})|:(?P<topology>[^/]{1,20}))(?:/(?P<host>[0-9]{1,3})t)?"
)


def parse(text: str) -> Slice:
    """Returns the slice that a person means by its size ("v6e-32", "v5p-8") or its topology ("v6e:4x8").

    Eight chips of v5e or v6e in a 2x4 exist as one host with eight or as two hosts with four: "v6e-8" and "v6e:2x4" mean
    the one host; "v6e:2x4/4t", after the end of the machine type, the two.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise UserError(
            f"'{text}' is no TPU slice: write a generation and a size, such as v6e-32, or a topology, such as v6e:4x8. "
            f"Generations: {', '.join(_GENERATIONS)}."
        )
    generation = "v5e" if written["generation"] == "v5litepod" else written["generation"]
    if generation not in _GENERATIONS:
        raise UserError(
            f"'{text}' is no TPU slice: there is no generation '{generation}'.{did_you_mean(generation, _GENERATIONS)} "
            f"Generations: {', '.join(_GENERATIONS)}."
        )
    topology = written["topology"] or _topology_of_size(text, generation, int(written["size"]))
    hosts_have = _shapes(generation).get(topology)
    if hosts_have is None:
        dimensions = "AxB" if _GENERATIONS[generation].cubes is None else "AxBxC"
        wanted = math.prod(int(number) for number in re.findall(r"[0-9]{1,6}", topology))
        raise UserError(
            f"'{text}' is no TPU slice: {topology} is no topology ({dimensions}, smallest first) of {generation}. "
            f"{_nearest(generation, wanted)}"
        )
    chips_per_host = int(written["host"]) if written["host"] else hosts_have[0]
    if chips_per_host not in hosts_have:
        forms = " or ".join(f"{generation}:{topology}/{chips}t" for chips in hosts_have)
        raise UserError(f"'{text}' is no TPU slice: no host of a {topology} has {chips_per_host} chips. Write {forms}.")
    chips = _chips(topology)
    return Slice(
        generation=cast(GenerationName, generation),
        topology=topology,
        chips=chips,
        hosts=chips // chips_per_host,
        chips_per_host=chips_per_host,
    )


def _topology_of_size(text: str, generation: str, size: int) -> str:
    cores = _GENERATIONS[generation].cores_in_name
    fitting = [topology for topology in _shapes(generation) if _chips(topology) * cores == size]
    if not fitting:
        unit = "chips" if cores == 1 else f"TensorCores, {cores} a chip"
        raise UserError(
            f"'{text}' is no TPU slice: {generation} has none of {size} {unit}. {_nearest(generation, size / cores)}"
        )
    # of the shapes with that many chips, Google's default is the one nearest to a cube
    return min(fitting, key=lambda topology: sum(_sides(topology)))


def _nearest(generation: str, chips: float) -> str:
    """Names the two slices with nearly so many chips."""
    by_distance = sorted(_shapes(generation), key=lambda topology: abs(math.log(_chips(topology) / max(chips, 1))))
    cores = _GENERATIONS[generation].cores_in_name
    named = (f"{generation}:{topology} ({generation}-{_chips(topology) * cores})" for topology in by_distance[:2])
    return f"The nearest are {' and '.join(named)}."


@cache
def _shapes(generation: str) -> _Shapes:
    """Every topology of a generation, smallest first."""
    most = _GENERATIONS[generation].cubes
    if most is None:
        return _FLAT_SHAPES
    small: _Shapes = {"2x2x1": (4,), "2x2x2": (4,), "2x2x4": (4,), "2x4x4": (4,)}
    single: _Shapes = {"1x1x1": (1,)} if generation == "tpu7x" else {}
    cubes = sorted(
        (a * b * c, a + b + c, (a, b, c))
        for a in range(1, most + 1)
        for b in range(a, most // a + 1)
        for c in range(b, most // (a * b) + 1)
    )
    whole: _Shapes = {"x".join(str(4 * side) for side in sides): (4,) for _, _, sides in cubes}
    return {**single, **small, **whole}


def _sides(topology: str) -> list[int]:
    return [int(side) for side in topology.split("x")]


def _chips(topology: str) -> int:
    return math.prod(_sides(topology))
