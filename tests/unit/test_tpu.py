"""Slices: every row of Google's tables, the names that people use, and what cannot be had."""

import pytest
from maxtext.utils.accelerator_to_spec_map import UserFacingNameToSystemCharacteristics as MAXTEXT
from pydantic import ValidationError

from components import tpu
from components.errors import UserError

# by topology: chips, hosts, chips of a host, name
FLAT = {
    "1x1": (1, 1, 1, 1),
    "2x2": (4, 1, 4, 4),
    "2x4": (8, 1, 8, 8),
    "2x4/4t": (8, 2, 4, 8),
    "4x4": (16, 4, 4, 16),
    "4x8": (32, 8, 4, 32),
    "8x8": (64, 16, 4, 64),
    "8x16": (128, 32, 4, 128),
    "16x16": (256, 64, 4, 256),
}
CUBIC = {
    "2x2x1": (4, 1, 4, 8),
    "2x2x2": (8, 2, 4, 16),
    "2x2x4": (16, 4, 4, 32),
    "2x4x4": (32, 8, 4, 64),
    "4x4x4": (64, 16, 4, 128),
    "4x4x8": (128, 32, 4, 256),
    "4x8x8": (256, 64, 4, 512),
    "8x8x8": (512, 128, 4, 1024),
    "8x8x16": (1024, 256, 4, 2048),
    "8x16x16": (2048, 512, 4, 4096),
}
# generation: accelerator label, machine type without its end, Pathways' name, GiB of HBM, topologies
TABLE = {
    "v5e": ("tpu-v5-lite-podslice", "ct5lp-hightpu", "tpuv5e", 16, FLAT),
    "v5p": ("tpu-v5p-slice", "ct5p-hightpu", "tpuv5", 95, CUBIC),
    "v6e": ("tpu-v6e-slice", "ct6e-standard", "tpuv6e", 32, FLAT),
    "tpu7x": ("tpu7x", "tpu7x-standard", "tpu7x", 192, {"1x1x1": (1, 1, 1, 2), **CUBIC}),
}
ROWS = [
    (generation, written, *facts[:4], *row) for generation, facts in TABLE.items() for written, row in facts[4].items()
]


@pytest.mark.parametrize(
    "generation, written, accelerator, machine, pathways, hbm, chips, hosts, chips_per_host, size", ROWS
)
def test_a_row_of_the_table(
    generation, written, accelerator, machine, pathways, hbm, chips, hosts, chips_per_host, size
):
    slice_ = tpu.parse(f"{generation}:{written}")
    topology = written.split("/")[0]
    assert slice_ == tpu.Slice(
        generation=generation, topology=topology, chips=chips, hosts=hosts, chips_per_host=chips_per_host
    )
    assert slice_.name == f"{generation}-{size}"
    assert slice_.accelerator == accelerator
    assert slice_.machine_type == f"{machine}-{chips_per_host}t"
    assert slice_.pathways_type == f"{pathways}:{topology}"
    assert slice_.hbm_gb == hbm
    if "/" not in written:
        assert tpu.parse(f"{generation}-{size}") == slice_


# the slices that the played GKE nodes of the cluster checks have
@pytest.mark.parametrize(
    "name, accelerator, topology, hosts, chips",
    [
        ("v6e-8", "tpu-v6e-slice", "2x4", 1, 8),
        ("v6e-16", "tpu-v6e-slice", "4x4", 4, 4),
        ("v6e-32", "tpu-v6e-slice", "4x8", 8, 4),
        ("v6e-64", "tpu-v6e-slice", "8x8", 16, 4),
        ("v6e-128", "tpu-v6e-slice", "8x16", 32, 4),
        ("v6e-256", "tpu-v6e-slice", "16x16", 64, 4),
        ("tpu7x-16", "tpu7x", "2x2x2", 2, 4),
    ],
)
def test_what_the_cluster_checks_play(name, accelerator, topology, hosts, chips):
    slice_ = tpu.parse(name)
    assert (slice_.accelerator, slice_.topology, slice_.hosts, slice_.chips_per_host) == (
        accelerator,
        topology,
        hosts,
        chips,
    )


@pytest.mark.parametrize("name", [n for n in MAXTEXT if n.split("-")[0] in TABLE])
def test_a_name_means_the_shape_and_the_devices_that_maxtext_takes_it_for(name):
    slice_ = tpu.parse(name)
    assert slice_.name == name
    assert slice_.topology == MAXTEXT[name].topology_name.split(":")[1]
    assert slice_.devices == MAXTEXT[name].devices_per_slice


def test_the_official_name_of_v5e_is_understood():
    assert tpu.parse("v5litepod-16") == tpu.parse("v5e-16")
    assert tpu.parse("v5litepod:4x4") == tpu.parse("v5e:4x4")


def test_a_shape_that_is_not_the_default_of_its_size_can_be_asked_for():
    long = tpu.parse("v5p:4x4x16")
    assert (long.chips, long.name) == (256, tpu.parse("v5p:4x8x8").name)
    assert tpu.parse(long.name).topology == "4x8x8"


@pytest.mark.parametrize("generation, cubes", [("v5p", 140), ("tpu7x", 144)])
def test_the_largest_slice_is_the_pod(generation, cubes):
    assert tpu.parse(f"{generation}-{cubes * 128}").chips == cubes * 64
    with pytest.raises(UserError, match=f"{generation}-{cubes * 128}"):
        tpu.parse(f"{generation}-{(cubes + 1) * 128}")


@pytest.mark.parametrize(
    "impossible, named",
    [
        ("v6e-24", ["v6e-16", "v6e-32"]),
        ("v6e-2", ["v6e-1", "v6e-4"]),
        ("v6e-512", ["v6e-256"]),
        ("v6e-9999999", ["v6e-256"]),
        ("v5p-4", ["v5p-8", "TensorCores"]),
        ("v5p-9", ["v5p-8"]),
        ("tpu7x-12", ["tpu7x-8", "tpu7x-16"]),
        ("v5p:4x8", ["v5p:2x4x4", "AxBxC"]),
        ("tpu7x:4x4", ["tpu7x:2x2x4", "AxBxC"]),
        ("v6e:2x2x2", ["v6e:2x4", "AxB"]),
        ("v5e:2x2x4", ["v5e:4x4", "AxB"]),
        ("v6e:8x4", ["v6e:4x8"]),
        ("v5p:8x4x4", ["v5p:4x4x8"]),
        ("v5p:2x2x8", ["v5p:2x4x4"]),
        ("v5p:4x4x6", ["v5p:4x4x4", "v5p:4x4x8"]),
        ("v6e:a4x8", ["v6e:4x8"]),
        ("v6e:4x", ["v6e:2x2"]),
        ("v6e:0x8", ["v6e:1x1"]),
        ("v6e:4x8x", ["v6e:4x8"]),
        ("v6e:4x8/8t", ["v6e:4x8/4t"]),
        ("v6e:2x4/1t", ["v6e:2x4/8t", "v6e:2x4/4t"]),
        ("v6e-8/2t", ["v6e:2x4/8t", "v6e:2x4/4t"]),
        ("v6-32", ["v6e"]),
        ("v4-8", ["v5p", "v6e"]),
        ("tpu7-16", ["tpu7x"]),
        ("a4x8", ["v6e:4x8", "v6e-32"]),
        ("4x8", ["v6e:4x8"]),
        ("v6e", ["v6e-32"]),
        ("v6e-", ["v6e-32"]),
        ("v6e-0", ["v6e-32"]),
        ("v6e-032", ["v6e-32"]),
        ("v6e--32", ["v6e-32"]),
        ("v6e-32 ", ["v6e-32"]),
        ("v6e-٣٢", ["v6e-32"]),
        ("V6E-32", ["v6e-32"]),
        ("", ["v6e-32"]),
        ("v6e-" + "9" * 5000, ["v6e-32"]),
        ("v6e:" + "9" * 20, ["v6e:16x16"]),
        ("v6e:" + "9" * 5000, ["v6e:4x8"]),
    ],
)
def test_an_impossible_slice_names_the_nearest_possible_ones_in_one_line(impossible, named):
    with pytest.raises(UserError) as error:
        tpu.parse(impossible)
    message = str(error.value)
    assert "\n" not in message
    assert all(name in message for name in named), message


def test_what_an_error_proposes_can_be_had():
    with pytest.raises(UserError) as error:
        tpu.parse("v5p-100")
    proposed = [word for word in str(error.value).replace("(", " ").split() if word.startswith("v5p:")]
    assert len(proposed) == 2
    assert all(tpu.parse(word).generation == "v5p" for word in proposed)


def test_a_slice_cannot_be_changed_and_survives_json():
    slice_ = tpu.parse("v5p-128")
    with pytest.raises(ValidationError):
        slice_.chips = 3
    assert tpu.Slice.model_validate_json(slice_.model_dump_json()) == slice_
