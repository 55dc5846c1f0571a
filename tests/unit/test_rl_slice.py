"""RL on slices: both tutorials, every key broken one at a time, and MaxText and JAX themselves as the judges.

A process with many CPU devices runs MaxText's own division of devices, meshes, model and a pass over a batch (nothing is
computed, only traced) on the same settings: what `problems` refuses must fail there, and what it proposes must work there.
"""

import json
import math
import random
import re
import subprocess
import sys
from itertools import product
from types import SimpleNamespace

import pytest
import yaml

from components import maxtext_schema, rl_slice, tpu
from components.errors import UserError

V6E_32, V6E_64 = tpu.parse("v6e-32"), tpu.parse("v6e-64")

# the tutorials' settings
GEMMA = {
    "model_name": "gemma4-26b",
    "batch_size": 4,
    "train_micro_batch_size": 2,
    "rl.num_generations": 4,
    "rollout_tensor_parallelism": 4,
    "rollout_expert_parallelism": 1,
    "trainer_devices_fraction": 0.5,
    "sampler_devices_fraction": 0.5,
    "ici_tensor_parallelism": 2,
    "ici_expert_parallelism": 4,
    "ici_fsdp_parallelism": -1,
    "hbm_utilization_vllm": 0.7,
}
QWEN = {
    "model_name": "qwen3-30b-a3b",
    "batch_size": 4,
    "rollout_tensor_parallelism": 8,
    "rollout_expert_parallelism": 1,
    "trainer_devices_fraction": 0.5,
    "sampler_devices_fraction": 0.5,
    "ici_tensor_parallelism": 4,
    "ici_expert_parallelism": 4,
    "hbm_utilization_vllm": 0.65,
}

# what breaks the gemma tutorial on v6e-32: changes, the key that the first problem must name, words of it, and words of
# what MaxText says where it stops
BROKEN = [
    ({"trainer_devices_fraction": 0.01}, "maxtext.trainer_devices_fraction", "gets 0 of 32", "ICI"),
    ({"trainer_devices_fraction": 0}, "maxtext.trainer_devices_fraction", "fraction", "greater than 0"),
    ({"trainer_devices_fraction": 1.5}, "maxtext.trainer_devices_fraction", "fraction", "less than or equal to 1"),
    ({"trainer_devices_fraction": 0.75}, "maxtext.trainer_devices_fraction", "base_emb_dim 2816", "Indivisible"),
    ({"trainer_devices_fraction": 0.125}, "maxtext.ici_tensor_parallelism", "4 trainer devices", "ICI"),
    ({"sampler_devices_fraction": 0.01}, "maxtext.sampler_devices_fraction", "gets 0 of 32", "ICI"),
    ({"sampler_devices_fraction": -0.5}, "maxtext.sampler_devices_fraction", "fraction", "greater than 0"),
    (
        {"sampler_devices_fraction": 0.2},
        "maxtext.rollout_tensor_parallelism",
        "6 sampler devices",
        "num_sampler_devices(6)",
    ),
    ({"sampler_devices_fraction": 0.125}, "maxtext.ici_expert_parallelism", "4 sampler devices", "ICI"),
    (
        {"rollout_tensor_parallelism": 3},
        "maxtext.rollout_tensor_parallelism",
        "16 sampler devices",
        "num_sampler_devices(16)",
    ),
    (
        {"rollout_tensor_parallelism": 32},
        "maxtext.rollout_tensor_parallelism",
        "16 sampler devices",
        "num_sampler_devices(16)",
    ),
    (
        {"rollout_tensor_parallelism": 0},
        "maxtext.rollout_tensor_parallelism",
        "neither positive nor -1",
        "must be -1 or > 0",
    ),
    (
        {"rollout_tensor_parallelism": -1},
        "maxtext.rollout_tensor_parallelism",
        "rollout_data_parallelism -1",
        "At most one",
    ),
    (
        {"rollout_expert_parallelism": 5},
        "maxtext.rollout_expert_parallelism",
        "16 sampler devices",
        "num_sampler_devices(16)",
    ),
    ({"rollout_expert_parallelism": -1}, "maxtext.rollout_expert_parallelism", "16 sampler devices", "At most one"),
    (
        {"rollout_expert_parallelism": -2},
        "maxtext.rollout_expert_parallelism",
        "neither positive nor -1",
        "must be -1 or > 0",
    ),
    (
        {"rollout_data_parallelism": 3},
        "maxtext.rollout_data_parallelism",
        "16 sampler devices",
        "!= len(sampler_devices)",
    ),
    (
        {"rollout_data_parallelism": 8},
        "maxtext.rollout_tensor_parallelism",
        "16 sampler devices",
        "!= len(sampler_devices)",
    ),
    ({"ici_tensor_parallelism": 3}, "maxtext.ici_tensor_parallelism", "16 trainer devices", "ICI"),
    ({"ici_tensor_parallelism": 4}, "maxtext.ici_tensor_parallelism", "global_num_kv_heads 2", "num_kv_heads (2)"),
    ({"ici_tensor_parallelism": -1}, "maxtext.ici_tensor_parallelism", "ici_fsdp_parallelism -1", "more than one ICI"),
    ({"ici_tensor_parallelism": 0}, "maxtext.ici_tensor_parallelism", "neither positive nor -1", "ICI"),
    ({"ici_expert_parallelism": 64}, "maxtext.ici_expert_parallelism", "16 trainer devices", "ICI"),
    ({"ici_fsdp_parallelism": 4}, "maxtext.ici_expert_parallelism", "16 trainer devices", "ICI"),
    ({"ici_data_parallelism": 3}, "maxtext.ici_data_parallelism", "16 trainer devices", "ICI"),
    ({"train_micro_batch_size": 1}, "train.micro_batch_size", "1 prompts x 4 completions", "shard_map"),
    (
        {"batch_size": 6, "train_micro_batch_size": -1, "rl.num_generations": 2},
        "train.batch_size",
        "6 prompts x 2",
        "shard_map",
    ),
    ({"rl.num_generations": 3}, "train.batch_size", "2 prompts x 3 completions", "shard_map"),
    ({"num_experts": 6, "num_experts_per_tok": 2}, "maxtext.ici_expert_parallelism", "num_experts 6", "Indivisible"),
    ({"base_emb_dim": 60}, "maxtext.trainer_devices_fraction", "base_emb_dim 60", "Indivisible"),
    ({"num_trainer_slices": 1}, "maxtext.num_trainer_slices", "cannot be used", "both -1 or both positive"),
    (
        {"num_trainer_slices": 1, "num_samplers_slices": 1, "ici_tensor_parallelism": 1, "ici_expert_parallelism": 1},
        "maxtext.num_samplers_slices",
        "cannot be used",
        "devices per slice -16",
    ),
    (
        {"rollout_tensor_parallelism": 3, "rollout_expert_parallelism": 5},
        "maxtext.rollout_expert_parallelism",
        "16",
        "num_sampler_devices(16)",
    ),
]
# refused though MaxText's arithmetic passes: vLLM refuses, JAX refuses on a real slice, or it would have no effect
REFUSED_ELSEWHERE = [
    ({"base_num_query_heads": 24, "rollout_tensor_parallelism": 16}, "maxtext.rollout_tensor_parallelism", "24 attention"),
    ({"rollout_tensor_parallelism": -1, "rollout_data_parallelism": 1, "base_num_query_heads": 8},
     "maxtext.rollout_data_parallelism", "8 attention"),
    ({"trainer_devices_fraction": 0.3}, "maxtext.trainer_devices_fraction", "9 of 32"),
    ({"dcn_fsdp_parallelism": 2}, "maxtext.dcn_fsdp_parallelism", "no effect"),
    ({"ici_sequence_parallelism": 2}, "maxtext.ici_sequence_parallelism", "no effect"),
    ({"train_micro_batch_size": 3}, "train.micro_batch_size", "train.batch_size 4"),
]  # fmt: skip
# and what must be let through
SOUND = [
    {"ici_expert_parallelism": 8},
    {"ici_data_parallelism": 2},
    {"ici_fsdp_parallelism": 2},
    {"trainer_devices_fraction": 0.25},
    {"trainer_devices_fraction": 0.25, "sampler_devices_fraction": 0.75},
    {"trainer_devices_fraction": 1.0, "sampler_devices_fraction": 1.0, "train_micro_batch_size": 4},
    {"use_pathways": False, "train_micro_batch_size": 4},
    {"chips_per_vm": 32, "train_micro_batch_size": 4},
    {"rollout_tensor_parallelism": -1, "rollout_data_parallelism": 4},
    {"rollout_tensor_parallelism": 2, "rollout_expert_parallelism": 4, "rollout_data_parallelism": 2},
    {"rollout_expert_parallelism": -1, "rollout_data_parallelism": 2},
    {"ici_expert_parallelism": 1, "train_micro_batch_size": 1, "rl.num_generations": 3},
    {"train_micro_batch_size": -1},
]

PROBE = """
import json, os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp, numpy as np
from flax import nnx
from flax.linen import logical_axis_rules
from jax.sharding import Mesh
from maxtext.configs import types
from maxtext.utils import max_logging, maxtext_utils, model_creation_utils as creation

REAL = jax.devices()
# what a machine without TPU needs, and a model of few layers; the sizes that are cut stay as they are
FIXED = {"tokenizer_path": "x", "hardware": "cpu", "run_name": "r", "base_output_directory": "/nowhere", "log_config": False,
         "remat_policy": "none", "decoder_layer_input": "device", "query_proj": "device", "key_proj": "device",
         "value_proj": "device", "megablox": False, "max_target_length": 16, "max_prefill_predict_length": 8,
         "override_model_config": True, "allow_split_physical_axes": True}
LAYERS = {"gemma4-26b": 6, "qwen3-30b-a3b": 1}

class InSlice:
    def __init__(self, device, index):
        self.device, self.slice_index = device, index

def judge(count, settings):
    devices = REAL[:count]
    if settings.get("num_samplers_slices", -1) > 0:
        devices = [InSlice(device, index * 2 // count) for index, device in enumerate(devices)]
    jax.devices = lambda *_: devices
    values = {**FIXED, "base_num_decoder_layers": LAYERS[settings["model_name"]], **settings}
    trainer, sampler, trainer_devices, sampler_devices = creation.setup_configs_and_devices(
        ["", sys.argv[1], *(f"{key}={value}" for key, value in values.items())], config_class=types.RLConfig)
    rollout = creation.get_rollout_kwargs_for_parallelism(sampler, len(sampler_devices))
    mesh = Mesh(maxtext_utils.create_device_mesh(trainer, trainer_devices), trainer.mesh_axes)
    maxtext_utils.create_device_mesh(sampler, sampler_devices)
    _, model = creation.create_nnx_abstract_model(trainer, mesh)
    graph, state = nnx.split(model)
    for leaf in jax.tree.leaves(state):
        leaf.sharding.shard_shape(leaf.shape)  # raises where a device would get a part of a row
    rows = trainer.micro_batch_size_to_train_on * trainer.rl.num_generations
    tokens = jax.ShapeDtypeStruct((rows, 16), jnp.int32)
    def forward(state, tokens):
        positions = jnp.broadcast_to(jnp.arange(16), tokens.shape)
        return nnx.merge(graph, state)(tokens, positions, jnp.ones_like(tokens), enable_dropout=False)
    with mesh, logical_axis_rules(trainer.logical_axis_rules):
        jax.eval_shape(jax.jit(forward), state, tokens)
    return {"trainer": len(trainer_devices), "sampler": len(sampler_devices), "rollout": rollout,
            "mesh": {{"stage": "pipeline"}.get(axis, axis): size for axis, size in mesh.shape.items()}}

verdicts = []
for count, settings in json.load(sys.stdin):
    try:
        verdicts.append(judge(count, settings))
    except Exception as error:
        verdicts.append({"error": f"{type(error).__name__}: {error}"[:300]})
print("VERDICTS" + json.dumps(verdicts))
"""


def cured(problem, settings):
    """The settings with what a problem proposes."""
    names = {shown: key for key, shown in {"train_micro_batch_size": "train.micro_batch_size",
                                           "batch_size": "train.batch_size"}.items()}  # fmt: skip
    advice = re.search(r": set (.+)\.$", problem)
    assert advice, problem
    changes = dict(change.split(" to ") for change in advice[1].split(" and "))
    return {**settings, **{names.get(k, k.removeprefix("maxtext.")): yaml.safe_load(v) for k, v in changes.items()}}


def case_name(value):
    return ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else ""


@pytest.fixture(scope="module")
def maxtext():
    """What MaxText says to (devices, settings): asked once for all."""
    asked = {}

    def add(count, settings):
        asked[json.dumps([count, settings])] = [count, settings]

    add(32, GEMMA)
    add(64, QWEN)
    for changes in SOUND:
        add(32, {**GEMMA, **changes})
    for changes, *_ in BROKEN:
        broken = {**GEMMA, **changes}
        add(32, broken)
        for problem in rl_slice.problems(broken, V6E_32):
            add(32, cured(problem, broken))
    root = maxtext_schema.package_root()
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(root / "configs" / "post_train" / "rl.yml")],
        input=json.dumps(list(asked.values())), capture_output=True, text=True, check=False,
    )  # fmt: skip
    answer = [line for line in done.stdout.splitlines() if line.startswith("VERDICTS")]
    assert answer, done.stderr[-3000:]
    verdicts = dict(zip(asked, json.loads(answer[0].removeprefix("VERDICTS")), strict=True))
    return lambda count, settings: verdicts[json.dumps([count, settings])]


def test_the_gemma_tutorial_on_v6e_32():
    split = rl_slice.devices(GEMMA, V6E_32)
    assert (split.trainer, split.sampler, split.idle, split.shared) == (16, 16, 0, 0)
    assert (split.rollout_tp, split.rollout_ep, split.rollout_dp) == (4, 1, 4)
    assert {axis: size for axis, size in split.mesh.items() if size > 1} == {"tensor": 2, "expert": 4, "fsdp": 2}
    assert split.trainer_fsdp == 2
    assert split.lines() == [
        "trainer: 16 devices = tensor 2 x expert 4 x fsdp 2",
        "sampler: 16 devices = 4 copies of the model x tensor 4 x expert 1",
    ]


def test_the_qwen_tutorial_on_v6e_64():
    split = rl_slice.devices(QWEN, V6E_64)
    assert (split.trainer, split.sampler) == (32, 32)
    assert (split.rollout_tp, split.rollout_ep, split.rollout_dp) == (8, 1, 4)
    assert {axis: size for axis, size in split.mesh.items() if size > 1} == {"tensor": 4, "expert": 4, "fsdp": 2}


@pytest.mark.parametrize("changes", [{}, *SOUND], ids=case_name)
def test_what_passes_here_is_divided_as_maxtext_divides_it(maxtext, changes):
    settings = {**GEMMA, **changes}
    assert rl_slice.problems(settings, V6E_32) == []
    split, theirs = rl_slice.devices(settings, V6E_32), maxtext(32, settings)
    assert "error" not in theirs, theirs
    assert (split.trainer, split.sampler) == (theirs["trainer"], theirs["sampler"])
    assert split.mesh == theirs["mesh"]
    assert theirs["rollout"] == {
        "tensor_parallel_size": split.rollout_tp,
        "data_parallel_size": split.rollout_dp,
        "expert_parallel_size": split.rollout_ep,
    }


def test_maxtext_divides_the_qwen_tutorial_as_we_do(maxtext):
    assert rl_slice.devices(QWEN, V6E_64).mesh == maxtext(64, QWEN)["mesh"]


@pytest.mark.parametrize("changes, key, words", [*(row[:3] for row in BROKEN), *REFUSED_ELSEWHERE], ids=case_name)
def test_a_broken_key_is_named_with_a_value_that_cures(changes, key, words):
    settings = {**GEMMA, **changes}
    problems = rl_slice.problems(settings, V6E_32)
    assert problems
    assert words in problems[0] and key in problems[0].split(": set ")[1]
    for problem in problems:
        assert "\n" not in problem and problem.endswith(".")
        after = rl_slice.problems(cured(problem, settings), V6E_32)
        assert problem not in after
        assert len(after) < len(problems)
    with pytest.raises(UserError, match=re.escape(problems[0])):
        rl_slice.devices(settings, V6E_32)


@pytest.mark.parametrize("changes, theirs", [(row[0], row[3]) for row in BROKEN], ids=case_name)
def test_maxtext_stops_at_what_is_refused_and_works_after_the_cure(maxtext, changes, theirs):
    settings = {**GEMMA, **changes}
    assert theirs in maxtext(32, settings).get("error", "")
    for problem in rl_slice.problems(settings, V6E_32):
        healed = cured(problem, settings)
        if not rl_slice.problems(healed, V6E_32):
            assert "error" not in maxtext(32, healed), problem


def test_when_three_sizes_are_wrong_the_defaults_are_proposed():
    settings = {**GEMMA, "ici_data_parallelism": 3, "ici_tensor_parallelism": 5, "ici_fsdp_parallelism": 7}
    (problem,) = rl_slice.problems({**settings, "ici_expert_parallelism": 9}, V6E_32)
    assert rl_slice.problems(cured(problem, settings), V6E_32) == []


def test_what_no_change_of_few_keys_cures_is_still_told():
    (problem,) = rl_slice.problems({**GEMMA, "base_emb_dim": 61, "ici_expert_parallelism": 1}, V6E_64)
    assert problem.startswith("base_emb_dim 61") and ": change maxtext.ici_fsdp_parallelism or " in problem


@pytest.mark.parametrize("seed", range(200))
def test_who_follows_the_advice_arrives(seed):
    chance = random.Random(seed)
    slice_ = tpu.parse(chance.choice(["v6e-8", "v6e-16", "v6e-32", "v6e-64", "v5p-128", "tpu7x-16"]))
    slices = chance.choice([1, 1, 2])
    settings = dict(chance.choice([GEMMA, QWEN, {"model_name": "llama3.1-8b"}]))
    for key in chance.sample(["trainer", "sampler"], chance.randint(0, 2)):
        settings[f"{key}_devices_fraction"] = chance.choice([0.1, 0.25, 0.3, 0.75, 1.0])
    for axis in chance.sample(["data", "tensor", "expert", "fsdp"], chance.randint(0, 3)):
        settings[f"ici_{axis}_parallelism"] = chance.choice([-1, 1, 2, 3, 4, 6, 16])
    for size in chance.sample(["tensor", "expert", "data"], chance.randint(0, 2)):
        settings[f"rollout_{size}_parallelism"] = chance.choice([-1, 1, 2, 3, 4, 5, 16])
    for _ in range(6):
        problems = rl_slice.problems(settings, slice_, slices)
        if not problems:
            break
        settings = cured(problems[0], settings)
    split = rl_slice.devices(settings, slice_, slices)
    assert split.trainer == math.prod(split.mesh.values())
    assert split.sampler == split.rollout_tp * split.rollout_ep * split.rollout_dp
    assert split.trainer + split.sampler + split.idle - split.shared == slice_.devices * slices


def test_more_than_two_slices_leave_some_idle():
    settings = {**GEMMA, "ici_expert_parallelism": 2, "train_micro_batch_size": 4}
    (problem,) = rl_slice.problems(settings, V6E_32, 4)
    assert "64 of 128" in problem
    assert rl_slice.devices(cured(problem, settings), V6E_32, 4).idle == 64


def test_a_device_of_tpu7x_is_a_tensorcore():
    split = rl_slice.devices({**GEMMA, "ici_expert_parallelism": 2}, tpu.parse("tpu7x-16"))
    assert (split.trainer, split.sampler) == (8, 8)


def test_several_slices_are_divided_between_trainer_and_sampler():
    split = rl_slice.devices({**GEMMA, "train_micro_batch_size": 4}, V6E_32, 2)
    assert (split.trainer, split.sampler, split.mesh["fsdp"]) == (32, 32, 4)


def test_a_mesh_that_would_reach_over_slices_is_refused():
    (problem,) = rl_slice.problems(
        {**GEMMA, "trainer_devices_fraction": 0.75, "sampler_devices_fraction": 0.25}, V6E_32, 2
    )
    assert "48 of 64" in problem and "maxtext.trainer_devices_fraction to 0.25" in problem
    (problem,) = rl_slice.problems({**GEMMA, "train_micro_batch_size": 4, "use_pathways": False}, V6E_32, 2)
    assert "64 of 64" in problem and "maxtext.use_pathways to True" in problem


def test_idle_and_shared_devices_are_told():
    idle = rl_slice.devices({**GEMMA, "trainer_devices_fraction": 0.25}, V6E_32)
    assert idle.idle == 8 and any("idle: 8" in line for line in idle.lines())
    shared = {**GEMMA, "trainer_devices_fraction": 1.0, "sampler_devices_fraction": 1.0, "train_micro_batch_size": 4}
    assert any("shared: 32" in line for line in rl_slice.devices(shared, V6E_32).lines())


def test_absent_settings_have_maxtexts_defaults():
    configs = maxtext_schema.package_root() / "configs"
    base = yaml.safe_load((configs / "base.yml").read_text())
    own = yaml.safe_load((configs / "post_train" / "rl.yml").read_text())
    theirs = {**base, **own, **{f"rl.{key}": value for key, value in own["rl"].items()}}
    assert {key: theirs[key] for key in rl_slice.DEFAULTS} == rl_slice.DEFAULTS
    assert {"stage" if axis == "pipeline" else axis for axis in rl_slice.AXES} == set(base["mesh_axes"])
    bare = rl_slice.devices({"model_name": "qwen3-0.6b"}, V6E_32)
    assert (bare.trainer, bare.sampler, bare.rollout_dp, bare.mesh["fsdp"]) == (16, 16, 16, 16)


def box_orders(slice_):
    """The devices of a slice in JAX's order (host by host) and plainly, with either dimension the fastest."""
    sides = [int(side) for side in slice_.topology.split("x")]
    kind = {"v6e": "TPU v6 lite", "v5p": "TPU v5", "tpu7x": "TPU7x"}[slice_.generation]
    cores = slice_.devices // slice_.chips
    chips = [tuple(reversed(at)) for at in product(*(range(side) for side in reversed(sides)))]
    hosts = sorted(chips, key=lambda at: (tuple(reversed([at[0] // 2, at[1] // 2, *at[2:]])), at[1], at[0]))
    for order in (chips, sorted(chips), hosts):
        yield [
            SimpleNamespace(
                id=index, platform="tpu", device_kind=kind, core_on_chip=core, coords=(*at, 0)[:3], process_index=0
            )
            for index, (at, core) in enumerate(product(order, range(cores)))
        ]


@pytest.mark.parametrize("name", ["v6e-16", "v6e-32", "v6e-64", "v5p:2x2x4", "v5p:4x4x4", "tpu7x:2x2x2"])
def test_no_number_of_devices_is_refused_that_jax_can_make_a_mesh_of(name):
    from jax.experimental import mesh_utils

    slice_ = tpu.parse(name)
    refused = []
    for count in range(1, slice_.devices + 1):
        settings = {"model_name": "none", "trainer_devices_fraction": (count + 0.01) / slice_.devices,
                    "sampler_devices_fraction": 1.0}  # fmt: skip
        settings["trainer_devices_fraction"] = min(1.0, settings["trainer_devices_fraction"])
        if any("no box" in problem for problem in rl_slice.problems(settings, slice_)):
            refused.append(count)
            for devices in box_orders(slice_):
                for part in (devices[:count], devices[-count:]):
                    with pytest.raises(AssertionError):
                        mesh_utils.create_device_mesh((count,), part, allow_split_physical_axes=True)
    assert refused and slice_.devices not in refused


@pytest.mark.parametrize("name", ["v6e-16", "v6e-32", "v6e-64", "v6e-256", "v5p-128", "tpu7x-64"])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_the_halves_and_quarters_that_people_use_are_boxes(name, part):
    settings = {"model_name": "none", "trainer_devices_fraction": part, "sampler_devices_fraction": 1 - part}
    assert rl_slice.problems(settings, tpu.parse(name)) == []


def test_memory_of_the_gemma_tutorial():
    # 26e9 parameters of two bytes are 48.4 GiB
    adafactor = rl_slice.memory(GEMMA, V6E_32, parameters=26e9, optimizer="adafactor")
    assert adafactor.trainer == pytest.approx(4 * 48.43 / 16, rel=1e-3)  # policy, reference, gradients and their sum
    assert adafactor.sampler == pytest.approx(48.43 / 4, rel=1e-3)
    assert (adafactor.sampler_limit, adafactor.device, adafactor.fits) == (pytest.approx(22.4), 32, True)
    adamw = rl_slice.memory(GEMMA, V6E_32, parameters=26e9, optimizer="adamw")
    assert adamw.trainer == pytest.approx(6 * 48.43 / 16, rel=1e-3)
    assert all("estimate" in line for line in adamw.lines()) and len(adamw.lines()) == 2


def test_memory_follows_micro_batches_types_and_copies():
    def trainer(**changes):
        return rl_slice.memory({**GEMMA, **changes}, V6E_32, parameters=26e9, optimizer="adafactor").trainer

    assert trainer(train_micro_batch_size=-1) == pytest.approx(trainer() * 3 / 4)
    assert trainer(weight_dtype="float32") == pytest.approx(trainer() * 2)
    assert trainer(ici_data_parallelism=2) == pytest.approx(trainer() * 2)


def test_a_model_that_does_not_fit_is_told_so():
    big = rl_slice.memory({**GEMMA, "weight_dtype": "float32"}, V6E_32, parameters=26e9)
    assert not big.fits
    assert "does not fit" in big.lines()[-1] and "adafactor" in big.lines()[-1]
    together = {**GEMMA, "trainer_devices_fraction": 1.0, "sampler_devices_fraction": 1.0, "train_micro_batch_size": 4}
    alone = rl_slice.memory(together, V6E_32, parameters=45e9)
    assert alone.trainer < alone.device and alone.shared and alone.trainer + alone.sampler > alone.device
    assert not alone.fits


def test_a_tensorcore_of_tpu7x_has_half_the_memory_of_the_chip():
    settings = {**GEMMA, "ici_expert_parallelism": 2}
    assert rl_slice.memory(settings, tpu.parse("tpu7x-16"), parameters=26e9).device == 96
