"""The page about Ray as a script, for each preset that it names, and as a list of presets."""

import re

import pytest
from test_docs import ROOT, SCRIPT, calls_of, parse

from components import config, tpu
from components.ray_config import RayConfig

PAGE = (ROOT / "docs" / "ray.md").read_text()


@pytest.mark.parametrize("preset", ["gemma4-e2b-ray-v6e-16", "gemma4-e2b-ray-tpu7x-16"])
def test_the_way_to_a_run_is_a_script_that_makes_the_slice_of_the_preset(preset, tmp_path, monkeypatch):
    (names,) = re.findall(rf"PRESET={preset} MACHINE=\S+ TOPOLOGY=\S+ HOSTS=\d+", PAGE)
    script = re.sub(r"PRESET=.*", names, "\n".join(SCRIPT.findall(PAGE)))
    calls = calls_of(script, tmp_path, ("gcloud", "kubectl", "posttrain"))
    monkeypatch.chdir(tmp_path)
    ran = [parse(call[1:]) for call in calls if call[0] == "posttrain"]
    assert [found.preset for found in ran] == [preset] * 3
    assert ran[0].cluster.images.keys() == {"ray-torchtpu", "ray-maxtext"}
    wanted = tpu.parse(ran[0].tpu.slice)
    (pool,) = [call for call in calls if call[:5] == ["gcloud", "container", "node-pools", "create", "slice-0"]]
    shape = {"machine-type": wanted.machine_type, "tpu-topology": wanted.topology, "num-nodes": wanted.hosts}
    assert {f"--{flag}={value}" for flag, value in shape.items()} <= set(pool)


def test_every_preset_under_ray_is_on_the_page():
    under_ray = [name for name in config.preset_names() if isinstance(config.load(name), RayConfig)]
    assert under_ray
    assert [name for name in under_ray if f"`{name}`" not in PAGE] == []
