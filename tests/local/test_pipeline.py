"""The whole pipeline for real: the compiled YAML in KFP's local runner, with MaxText and Tunix."""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pandas as pd
import psutil
import yaml
from transformers import AutoConfig, AutoTokenizer

from components import manifest, record
from components.results import RunRecord
from tests.local.conftest import wait_for

PER_STEP = 8 * 8  # prompts x completions of tiny-qwen3
STAGES = ["prepare", "download", "convert", "train", "evaluate", "export", "publish", "report"]


def test_the_record_says_what_the_run_found(posttrain, short_run):
    run = posttrain.record("short")
    assert run.status == "succeeded"
    assert [stage.name for stage in run.stages] == STAGES
    found = run.evaluation
    assert found is not None
    assert (found.n_questions, found.samples_per_question) == (100, 2)
    assert found.delta.ci_low <= found.delta.value <= found.delta.ci_high
    assert abs(found.delta.value - (found.after.accuracy - found.before.accuracy)) < 1e-9
    assert run.parity is not None
    assert run.parity.passed


def test_the_page_stands_alone_and_says_the_verdict(posttrain, short_run):
    page = (short_run / "report.html").read_text()
    assert posttrain.record("short").evaluation.verdict in page
    assert "JAX sampler on CPU" in page


def test_what_ran_is_the_compiled_yaml(short_run):
    text = (short_run / "pipeline.yaml").read_text()
    assert len(list(yaml.safe_load_all(text))) == 1
    assert yaml.safe_load(text)["pipelineInfo"]["name"] == "grpo-post-training"


def test_every_rollout_is_kept_once(posttrain, short_run):
    rows = [json.loads(line) for path in (short_run / "train/rollouts").glob("*.jsonl") for line in path.open()]
    assert Counter(row["step"] for row in rows) == dict.fromkeys((1, 2, 3, 4), PER_STEP)
    assert all(set(row["rewards"]) == {"exact_answer", "has_format"} for row in rows)
    assert posttrain.record("short").training.rollouts == len(rows)


def test_the_curve_agrees_with_the_rollouts(posttrain, short_run):
    rows = [json.loads(line) for path in (short_run / "train/rollouts").glob("*.jsonl") for line in path.open()]
    by_step = pd.DataFrame(rows).groupby("step")["reward"].mean()
    curve = {point.step: point.reward for point in posttrain.record("short").training.curve}
    assert curve.keys() == set(by_step.index)
    for step, reward in curve.items():
        assert abs(reward - by_step[step]) < 1e-5


def test_no_evaluated_question_was_trained_on(short_run):
    data = short_run / "download/dataset"
    train, held_out = pd.read_parquet(data / "train.parquet"), pd.read_parquet(data / "eval.parquet")
    for column in ("id", "question", "cluster"):
        assert not set(train[column]) & set(held_out[column])


def test_folders_of_data_are_complete_and_know_where_they_come_from(posttrain, short_run):
    seen = {}
    for stage in posttrain.record("short").stages:
        for artifact in stage.artifacts.values():
            found = record.read(artifact["uri"])
            assert found.kind == artifact["kind"]
            assert found.parent_uris
            seen[artifact["uri"]] = found
            if artifact["kind"] != "rollouts":
                manifest.check(artifact["uri"])
    exported = next(r for r in seen.values() if r.kind == "hf-model" and r.run_id and "export" in r.data_uri)
    assert exported.base_model_id == "tiny://qwen3"
    assert exported.step == 4


def test_the_exported_model_loads_and_has_its_chat_template(posttrain, short_run):
    directory = Path(posttrain.record("short").model_uri)
    loaded = AutoConfig.from_pretrained(directory)
    assert (loaded.num_hidden_layers, loaded.head_dim, len(loaded.layer_types)) == (2, 32, 2)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    assert "<|im_start|>" in tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert "Verdict" in (directory / "README.md").read_text()


def test_a_second_run_converts_nothing_and_a_damaged_checkpoint_is_converted_anew(posttrain, short_run):
    code, said = posttrain.run("second")
    assert code == 0, said
    assert "already converted" in said
    converted = next(s for s in posttrain.record("second").stages if s.name == "convert").artifacts["checkpoint"]["uri"]
    victim = max((p for p in Path(converted).rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    code, said = posttrain.run("third", "train.steps=1", "train.checkpoint_period=1")
    assert code == 0, said
    assert "is damaged" in said
    manifest.check(converted)


def test_killed_in_training_it_leaves_nothing_running_and_resumes_from_its_checkpoint(posttrain, short_run):
    settings = [
        part
        for s in ("train.steps=40", "train.checkpoint_period=2", "evaluate.questions=100", "evaluate.samples=2")
        for part in ("--set", s)
    ]
    process = posttrain.start("run", "tiny-qwen3", "--output", "killed", *settings)
    directory = posttrain.root / "killed"
    wait_for(lambda: (directory / "train/grpo/checkpoints/actor/4").exists(), 300)
    below = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: all(not p.is_running() or p.status() == psutil.STATUS_ZOMBIE for p in below), 30)
    name = json.loads((directory / "plan.json").read_text())["run_id"]
    assert "stopped" in posttrain("status", name)[1]

    code, said = posttrain("run", "--resume", name)
    assert code == 0, said
    run = RunRecord.model_validate_json((directory / "run.json").read_text())
    assert run.training.resumed_from >= 4
    rows = [json.loads(line) for path in (directory / "train/rollouts").glob("*.jsonl") for line in path.open()]
    assert Counter(row["step"] for row in rows) == dict.fromkeys(range(1, 41), PER_STEP)
    assert [point.step for point in run.training.curve] == list(range(1, 41))
    completions = [json.loads(line) for line in (directory / "evaluate/result/completions-after.jsonl").open()]
    assert len({(c["id"], c["sample"], c["greedy"]) for c in completions}) == len(completions) == 100 * 3


def test_a_failing_workload_is_said_in_one_line_and_gets_a_page(posttrain, short_run):
    code, said = posttrain.run("failing", "maxtext.vocab_size=100")
    assert code == 1
    assert said.strip().splitlines()[-1].startswith("FAILED")
    run = posttrain.record("failing")
    assert (run.status, run.stages[-1].name) == ("failed", "train")
    assert run.error.startswith("train: ")
    assert (posttrain.root / "failing" / "report.html").exists()


def test_two_runs_at_once_share_a_conversion(posttrain, short_run, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(posttrain.store / "compiled", store / "compiled")
    fresh = type(posttrain)(tmp_path, store, posttrain.scratch)
    settings = [
        part for s in ("train.steps=1", "evaluate.questions=100", "evaluate.samples=1") for part in ("--set", s)
    ]
    both = [fresh.start("run", "tiny-qwen3", "--output", name, *settings) for name in ("one", "two")]
    said = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert len(list((store / "converted").iterdir())) == 1
