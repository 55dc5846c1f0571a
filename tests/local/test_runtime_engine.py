"""The code inside the training image, with the real MaxText on a tiny dense model: convert, sample, train, export."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from components.maxtext_runtime.entry import TO_HUGGINGFACE, TO_MAXTEXT, TRAIN_RL
from components.maxtext_runtime.generate_spec import Checkpoint, Spec
from components.maxtext_runtime.substitutions import ENGINE_LINE
from components.sources.tiny.make import SIZES, make

ENTRY = "components.maxtext_runtime.entry"
QUESTIONS = ["Ana has 37 coins and finds 5. How many coins now?", "Ben has 52 pens and eats 9. How many pens now?"]
MODEL = [
    "model_name=qwen3-0.6b",
    "scan_layers=False",
    "skip_jax_distributed_system=True",
    "override_model_config=True",
    *(f"{key}={value}" for key, value in SIZES["qwen3"].items()),
]
CONVERTER = [
    "use_multimodal=False",
    "hardware=cpu",
    "checkpoint_storage_use_zarr3=False",
    "checkpoint_storage_use_ocdbt=False",
]


def run(module: str, *args: str) -> str:
    """Runs a module as a workload would and returns what it printed; its errors are shown when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def hf_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hf") / "model"
    make("qwen3", directory)
    return directory


@pytest.fixture(scope="module")
def checkpoint(hf_model: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The model as a MaxText checkpoint, converted by the stock program."""
    output = tmp_path_factory.mktemp("maxtext")
    places = [f"--hf_model_path={hf_model}", f"base_output_directory={output}", "--lazy_load_tensors=True"]
    run(ENTRY, TO_MAXTEXT, *MODEL, *CONVERTER, *places, "--simulated_cpu_devices_count=2")
    return f"{output}/0/items"


@pytest.fixture(scope="module")
def loaded(hf_model: Path, checkpoint: str) -> tuple[Any, Any]:
    """The MaxText model of the checkpoint, in this process, and its config."""
    from components.maxtext_runtime import sizes
    from components.maxtext_runtime.logits import load_model

    args = [*MODEL, *CONVERTER, f"--hf_model_path={hf_model}", f"load_parameters_path={checkpoint}"]
    assert sizes.use_sizes_from_arguments(args)
    return load_model(args)


@pytest.fixture
def train_args(hf_model: Path, checkpoint: str, tmp_path: Path) -> list[str]:
    """Arguments of a train_rl run of two steps with MaxText's own reward functions."""
    import pandas as pd

    data = tmp_path / "data.parquet"
    pd.DataFrame({"question": QUESTIONS * 8, "answer": ["42", "43"] * 8}).to_parquet(data)
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"SYSTEM_PROMPT": "", "TEMPLATE": "{question}"}))
    return [
        *MODEL,
        "run_name=test",
        f"base_output_directory={tmp_path}",
        f"load_parameters_path={checkpoint}",
        f"tokenizer_path={hf_model}",
        "tokenizer_type=huggingface",
        f"data_template_path={template}",
        "dataset_name=parquet",
        f"hf_train_files={data}",
        "train_split=train",
        "num_batches=2",
        "batch_size=2",
        "rl.num_generations=4",
        "num_test_batches=0",
        "checkpoint_period=2",
        "max_prefill_predict_length=24",
        "max_target_length=40",
        "chips_per_vm=1",
        "rollout_tensor_parallelism=1",
        "trainer_devices_fraction=1.0",
        "sampler_devices_fraction=1.0",
        "use_pathways=False",
        "remat_policy=none",
        *(f"{offloaded}=device" for offloaded in ("decoder_layer_input", "query_proj", "key_proj", "value_proj")),
        "dtype=float32",
        "weight_dtype=float32",
        "log_config=False",
        'vllm_hf_overrides={"architectures": ["MaxTextForCausalLM"]}',
    ]


def test_the_converted_checkpoint_is_the_model(hf_model, loaded):
    from components.maxtext_runtime.parity import INDEPENDENT, parity

    found = parity(*loaded, str(hf_model))
    assert found.method == INDEPENDENT
    assert found.max_abs_parameter_diff == 0
    assert found.argmax_agreement == 1
    assert found.max_abs_diff < 0.01 * found.range  # MaxText rounds the unembedding to bfloat16
    assert found.max_abs_diff_same_rounding < 1e-5 * found.range


def test_parity_sees_one_wrong_tensor(hf_model, loaded, tmp_path):
    from components.maxtext_runtime.parity import parity

    damaged = tmp_path / "damaged"
    shutil.copytree(hf_model, damaged)
    tensors = load_file(damaged / "model.safetensors")
    name = "model.layers.1.self_attn.k_proj.weight"
    tensors[name] = tensors[name][::-1].copy()  # same values, rows in another order
    save_file(tensors, damaged / "model.safetensors", metadata={"format": "pt"})
    found = parity(*loaded, str(damaged))
    assert found.max_abs_parameter_diff > 0.01
    assert found.max_abs_diff > 0.01 * found.range


def test_both_samplers_follow_the_maxtext_model(hf_model, loaded):
    """The cache sampler and the one that runs MaxText itself give the same greedy completions."""
    import jax.numpy as jnp
    from flax import nnx
    from transformers import AutoTokenizer

    from components.maxtext_runtime import hf_weights, sampler
    from components.maxtext_runtime.cpu_rollout import left_pad
    from components.maxtext_runtime.full_forward import FullForward
    from components.maxtext_runtime.plain import plain_model

    model, config = loaded
    tokenizer = AutoTokenizer.from_pretrained(hf_model)
    chats = [[{"role": "user", "content": question}] for question in QUESTIONS]
    texts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats]
    prompts, lengths = left_pad([tokenizer.encode(text) for text in texts], 24, tokenizer.pad_token_id)
    plain = plain_model(hf_weights.hf_config(config), bf16_unembedding=True)
    exported = hf_weights.exporter(config)(nnx.to_pure_dict(nnx.state(model.base, nnx.Param)))
    for name, tensor in load_file(hf_model / "model.safetensors").items():
        np.testing.assert_array_equal(exported[name], tensor)

    def greedy(engine: Any, weights: Any) -> list[list[int]]:
        keys = sampler.row_keys((0,), jnp.arange(2, dtype=jnp.uint32))
        numbers = jnp.float32(0), jnp.int32(-1), jnp.float32(1)
        ids = {"pad_id": tokenizer.pad_token_id, "eos_ids": (tokenizer.eos_token_id,)}
        return sampler.generate(engine, weights, prompts, lengths, keys, *numbers, steps=16, **ids).tokens.tolist()

    with_cache = greedy(plain, exported)
    assert with_cache == greedy(FullForward(model), nnx.state(model))
    assert "<answer>" in tokenizer.decode(with_cache[0])


def test_checkpoints_are_sampled_alike_and_every_question_once_per_sample(hf_model, checkpoint, train_args, tmp_path):
    questions = tmp_path / "questions.jsonl"
    rows = [{"id": f"q{at}", "question": question} for at, question in enumerate(QUESTIONS * 5)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outputs = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    same = tuple(Checkpoint(output.stem, checkpoint, str(output)) for output in outputs)
    spec = Spec(str(questions), same, samples_per_question=3, max_new_tokens=16)
    printed = run("components.maxtext_runtime.generate", "--spec", spec.to_json(), *train_args)
    assert ENGINE_LINE in printed
    assert "generate: two 40/40" in printed
    assert outputs[0].read_text() == outputs[1].read_text()
    answers = [json.loads(line) for line in outputs[0].read_text().splitlines()]
    asked = [(answer["id"], answer["greedy"], answer["sample"]) for answer in answers]
    assert asked == [
        (row["id"], greedy, n) for row in rows for greedy, n in [(True, 0), *((False, n) for n in range(3))]
    ]
    for text in QUESTIONS:  # the same question several times over: its samples differ
        same_text = {row["id"] for row in rows if row["question"] == text}
        assert len({a["completion"] for a in answers if a["id"] in same_text and not a["greedy"]}) > 1
    assert len({answer["completion"] for answer in answers if answer["greedy"]}) == 2  # greedy depends on the question
    for answer in answers:
        assert 0 < answer["n_tokens"] <= 16
        assert answer["truncated"] or answer["n_tokens"] > 1
        assert "<|im_end|>" not in answer["completion"]


def test_stock_training_runs_with_the_cpu_engine_and_stock_rewards(train_args, tmp_path):
    printed = run(ENTRY, TRAIN_RL, *train_args)
    assert ENGINE_LINE in printed
    assert (tmp_path / "test" / "checkpoints" / "actor" / "2" / "model_params").is_dir()


def test_export_gives_the_model_back_with_proof(hf_model, checkpoint, tmp_path):
    proof, output = tmp_path / "parity.json", tmp_path / "exported"
    places = [f"load_parameters_path={checkpoint}", f"base_output_directory={output}", f"--hf_model_path={hf_model}"]
    options = [f"tokenizer_path={hf_model}", "weight_dtype=float32", "--override_model_architecture"]
    asked = ["--source", str(hf_model), "--report", str(proof), "--dtype", "float32"]
    run("components.export.program", *asked, *MODEL, *CONVERTER, *places, *options)
    found = json.loads(proof.read_text())
    assert found["parity"]["argmax_agreement"] == 1
    assert found["parity"]["max_abs_parameter_diff"] == 0
    assert "problem" not in found
    source, exported = (load_file(directory / "model.safetensors") for directory in (hf_model, output))
    assert source.keys() == exported.keys()
    for name, tensor in source.items():
        np.testing.assert_array_equal(exported[name], tensor)


def test_a_directory_without_a_configuration_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", ENTRY, TO_HUGGINGFACE, "model_name=qwen3-0.6b", f"--hf_model_path={tmp_path}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: {tmp_path} has no config.json: it is not a Hugging Face model directory"
    ]
