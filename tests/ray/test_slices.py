"""Which slices Ray itself has, against what is refused before a run."""

import json
import subprocess

import pytest

from components import ray_args, tpu
from components.errors import UserError
from components.workloads.interpreter import interpreter
from tests.ray.support import need

RAY_HAS = """
import json
from ray._private.accelerators.tpu import VALID_TPU_TOPOLOGY as known, get_chips_per_host
flat = {name: {shape: get_chips_per_host(shape, name) for shape in known[name]} for name in ("v5litepod", "v6e")}
print(json.dumps({"flat": flat, "v5p": sorted(known["v5p"]), "tpu7x": sorted(known["v7x"])}))
"""
SIDES = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32)


@pytest.fixture(scope="module")
def ray_has():
    need("ray-torchtpu")
    done = subprocess.run([interpreter("ray-torchtpu"), "-c", RAY_HAS], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def taken(name):
    try:
        ray_args.check_slice(tpu.parse(name))
    except UserError as error:
        return False if str(error).startswith("tpu.slice: Ray") else None  # Google has no such slice
    return True


@pytest.mark.parametrize("generation", ["v5p", "tpu7x"])
def test_of_slices_in_three_dimensions_those_are_taken_that_ray_has(ray_has, generation):
    shapes = [f"{a}x{b}x{c}" for a in SIDES for b in SIDES if b >= a for c in SIDES if c >= b]
    found = {shape: taken(f"{generation}:{shape}") for shape in shapes}
    ours = {shape for shape, is_taken in found.items() if is_taken is not None}
    assert {shape for shape in ours if found[shape]} == ours & set(ray_has[generation])
    assert any(found[shape] is False for shape in ours)


@pytest.mark.parametrize(("generation", "name"), [("v5e", "v5litepod"), ("v6e", "v6e")])
def test_of_flat_slices_those_are_taken_whose_hosts_ray_takes_for_what_they_are(ray_has, generation, name):
    for shape in ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"):
        for chips in (4, 8):
            written = f"{generation}:{shape}/{chips}t"
            if (is_taken := taken(written)) is not None:
                assert is_taken == (ray_has["flat"][name][shape] == chips), written
