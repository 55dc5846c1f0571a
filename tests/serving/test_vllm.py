"""The real vLLM serves the tiny model: what the check measures of it, and how it names what vLLM makes of a broken one.

vLLM's environment takes 5.6 GB, so these tests do not make it: they skip where it is not set up. It is made by the first
`posttrain run` with serve.enabled=true, or by
`python -c 'from components.workloads.interpreter import interpreter as i; i("serving")'`.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from components.errors import WorkloadError
from components.serve import job
from components.serve.judge import max_logprob_diff
from components.serve.prompts import prompts
from components.serve.spec import REPORT, SERVER_LOG, Question, Report, Spec
from components.sources.tiny import word_problems
from components.sources.tiny.make import WARM_QWEN3
from components.workloads import interpreter, process
from components.workloads.workload import Workload

HEAD = 16  # vLLM on a CPU has attention for heads of 32 and more


@pytest.fixture(scope="module", autouse=True)
def _vllm() -> None:
    if interpreter.variable("serving") not in os.environ and not interpreter.is_made("serving"):
        pytest.skip(f"vLLM's environment is not set up in {interpreter.IMAGES / 'serving'}")


def served(folder: Path, model: Path = WARM_QWEN3) -> Report:
    """What the check's program reports of a model."""
    texts = [row["question"] for row in word_problems.rows("eval", 12, 0)]
    template = (WARM_QWEN3 / "template.json").read_text()
    asked = prompts(dict(zip(texts, texts, strict=True)), template, WARM_QWEN3)
    (folder / "questions.jsonl").write_text("".join(question.model_dump_json() + "\n" for question in asked))
    spec = Spec(
        model=str(model),
        questions=str(folder / "questions.jsonl"),
        result=str(folder),
        name="posttrain-test",
        dtype="float32",
        port=0,
        startup_s=900,
        prompts=8,
        max_tokens=16,
        concurrency=4,
        arguments=("--enforce-eager", "--max-model-len=40", "--max-num-seqs=4"),
    )
    workload = Workload(
        stage="serve",
        run_id="r",
        command=("python", "-m", job.PROGRAM, "--spec", spec.model_dump_json()),
        env=job.CPU_ENV,
        image="serving",
    )
    try:
        process.run(workload, str(folder / "log.txt"), print)
    except WorkloadError as error:
        assert (folder / REPORT).exists(), error.reason
    return Report.model_validate_json((folder / REPORT).read_text())


def test_vllm_answers_as_transformers_does_token_by_token(tmp_path):
    report = served(tmp_path)
    assert report.fault is None and report.answers
    assert len(report.compared) == 16
    assert all(one.greedy == one.tokens > 5 for one in report.compared)
    assert max_logprob_diff(report.compared) < 1e-4
    assert all(answer.ended for answer in report.answers.at_once)
    assert report.answers.models == ["posttrain-test"]
    assert report.answers.vllm == "0.32.0"
    assert "Application shutdown complete" in (tmp_path / SERVER_LOG).read_text()


def test_another_chat_template_and_a_lost_end_token_show_in_what_vllm_answers(tmp_path):
    model = without_end_token(tmp_path / "model")
    template = model / "chat_template.jinja"
    template.write_text("Be helpful.\n" + template.read_text())
    report = served(tmp_path, model)
    assert report.fault is None and report.answers
    asked = [Question.model_validate_json(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    pairs = list(zip(asked, report.answers.at_once, strict=True))
    assert all(answer.prompt_ids != question.prompt_ids for question, answer in pairs)
    assert not any(answer.ended for _, answer in pairs)


def test_an_engine_that_dies_though_it_was_healthy_is_found_at_the_first_request(tmp_path):
    report = served(tmp_path, with_small_heads(tmp_path / "model"))
    assert report.fault
    assert "ended at its first request" in report.fault.reason
    assert f"head_dim={HEAD}" in report.fault.reason


def test_a_shard_that_was_cut_off_is_named_before_the_server_is_ready(tmp_path):
    model = tmp_path / "model"
    shutil.copytree(WARM_QWEN3, model)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    report = served(tmp_path, model)
    assert report.fault
    assert "ended before it was ready (exit code 1): " in report.fault.reason
    assert "afetensor" in report.fault.reason


def without_end_token(folder: Path) -> Path:
    """The tiny model after its end token was lost everywhere."""
    shutil.copytree(WARM_QWEN3, folder)
    for name, key in (
        ("tokenizer_config", "eos_token"),
        ("config", "eos_token_id"),
        ("generation_config", "eos_token_id"),
    ):
        values = json.loads((folder / f"{name}.json").read_text())
        (folder / f"{name}.json").write_text(json.dumps({k: v for k, v in values.items() if k != key}))
    return folder


def with_small_heads(folder: Path) -> Path:
    """The tiny model with the first half of every attention head."""
    shutil.copytree(WARM_QWEN3, folder)
    config = json.loads((folder / "config.json").read_text())
    wide = config["head_dim"]
    (folder / "config.json").write_text(json.dumps({**config, "head_dim": HEAD}))
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            tensors[name] = tensor.reshape(-1, wide, tensor.shape[1])[:, :HEAD].reshape(-1, tensor.shape[1])
        elif name.endswith("o_proj.weight"):
            tensors[name] = tensor.reshape(tensor.shape[0], -1, wide)[..., :HEAD].reshape(tensor.shape[0], -1)
        elif name.endswith(("q_norm.weight", "k_norm.weight")):
            tensors[name] = tensor[:HEAD]
    save_file({name: tensor.copy() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder
