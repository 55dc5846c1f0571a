"""A user's mistake costs one line and exit code 2, before anything is spent, and leaves nothing behind."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from components.sources.tiny import make
from pipelines import cli


@pytest.fixture
def model(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("model") / "tiny"
    make.make("qwen3", directory)
    return directory


@pytest.fixture
def posttrain(tmp_path, monkeypatch, capsys):
    """Runs the command in an empty directory; returns what it said on standard error after checking that it refused."""
    monkeypatch.chdir(tmp_path)

    def refused(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["posttrain", *arguments])
        before = sorted(p for p in tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr().err.strip()
        assert ended.value.code == 2
        assert len(said.splitlines()) == 1, said
        assert sorted(p for p in tmp_path.rglob("*")) == before, "something was left behind"
        return said

    return refused


def local(model: Path, *more: str) -> list[str]:
    return ["run", "tiny-qwen3", "--set", f"model.source={model}", *more]


def data(path: Path, rows: list[dict]) -> list[str]:
    pd.DataFrame(rows).to_parquet(path)
    return ["run", "tiny-qwen3", "--set", f"data.train={path}"]


def test_unknown_preset(posttrain):
    assert "Did you mean 'tiny-qwen3'" in posttrain("run", "tiny-qwen")


def test_unknown_key(posttrain):
    assert "Did you mean 'learning_rate'" in posttrain("run", "tiny-qwen3", "--set", "train.learning_rte=1")


def test_wrong_type(posttrain):
    assert "'train.steps' is 'many'" in posttrain("run", "tiny-qwen3", "--set", "train.steps=many")


def test_batch_not_divisible(posttrain):
    assert "not divisible" in posttrain("run", "tiny-qwen3", "--set", "train.micro_batch_size=3")


def test_context_shorter_than_the_prompt(posttrain):
    said = posttrain("run", "tiny-qwen3", "--set", "train.max_prompt_tokens=8")
    assert "train.max_prompt_tokens" in said


def test_missing_model_directory(posttrain, tmp_path):
    assert "nowhere" in posttrain(*local(tmp_path / "nowhere"))


def test_directory_without_config(posttrain, model):
    (model / "config.json").unlink()
    assert "config.json" in posttrain(*local(model))


def test_damaged_safetensors(posttrain, model):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert "model.safetensors" in posttrain(*local(model))


def test_safetensors_with_a_nonsense_header(posttrain, model):
    (model / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    assert "model.safetensors" in posttrain(*local(model))


def test_tokenizer_without_chat_template(posttrain, model):
    (model / "chat_template.jinja").unlink()
    assert "chat template" in posttrain(*local(model))


def test_missing_tokenizer(posttrain, model):
    (model / "tokenizer.json").unlink()
    assert "tokenizer" in posttrain(*local(model))


def test_dataset_without_an_answer_column(posttrain, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "q.parquet"
    said = posttrain(*data(path, [{"question": "1+1?", "result": "2"}]))
    assert "answer" in said
    assert "result" in said


def test_empty_dataset(posttrain, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "q.parquet"
    pd.DataFrame({"question": pd.Series(dtype=str), "answer": pd.Series(dtype=str)}).to_parquet(path)
    assert "q.parquet" in posttrain("run", "tiny-qwen3", "--set", f"data.train={path}")


def test_missing_dataset(posttrain, tmp_path):
    assert "nowhere.parquet" in posttrain("run", "tiny-qwen3", "--set", f"data.train={tmp_path / 'nowhere.parquet'}")


def test_unknown_reward_function(posttrain):
    said = posttrain("run", "tiny-qwen3", "--set", "train.rewards={exact_anser: 1.0}")
    assert "Did you mean 'exact_answer'" in said


def test_occupied_output(posttrain, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    assert "not empty" in posttrain("run", "tiny-qwen3", "--output", str(tmp_path / "there"))


def test_output_below_a_file(posttrain, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "is a file" in posttrain("run", "tiny-qwen3", "--output", str(tmp_path / "file" / "run"))


def test_no_write_permission(posttrain):
    assert "Nothing can be written" in posttrain("run", "tiny-qwen3", "--output", "/proc/run")


def test_store_without_write_permission(posttrain):
    assert "--store" in posttrain("run", "tiny-qwen3", "--store", "/proc/store")


def test_neither_preset_nor_resume(posttrain):
    assert "Say which preset" in posttrain("run")


def test_resume_of_an_unknown_run(posttrain):
    assert "There is no run 'gone'" in posttrain("run", "--resume", "gone")


def test_status_of_an_unknown_run(posttrain):
    assert "There is no run 'gone'" in posttrain("status", "gone")


DISK_FULL = """
import resource, sys, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from pipelines import cli
sys.argv = ["posttrain", "run", "tiny-qwen3", "--output", sys.argv[1]]
cli.main()
"""


def test_disk_full(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-B", "-c", DISK_FULL, str(tmp_path / "run")], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_needs_nothing_heavy():
    heavy = "{'kfp', 'pandas', 'pydantic', 'jax', 'numpy'}"
    code = f"import sys; from pipelines import cli; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sizes_that_the_model_does_not_have(posttrain):
    assert "head_dim 32" in posttrain("run", "tiny-qwen3", "--set", "model.sizes.head_dim=16")


def test_sizes_of_a_local_model(posttrain, model):
    assert "vocab_size 512" in posttrain(*local(model, "--set", "model.sizes.vocab_size=1024"))


def test_plan_refuses_what_run_would_refuse(posttrain):
    assert "There is no reward function" in posttrain("plan", "tiny-qwen3", "--set", "train.rewards={nope: 1.0}")


def test_a_preset_file_that_is_not_there(posttrain):
    assert "There is no file mine.yaml" in posttrain("run", "mine.yaml")


def test_a_compiled_pipeline_is_no_preset(posttrain, tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "tiny.yaml"
    path.write_text("pipelineInfo: {name: grpo}\n")
    assert "compiled pipeline" in posttrain("run", str(path))


def test_the_home_of_a_run_is_on_this_machine(posttrain):
    assert "--store may be in gs://" in posttrain("run", "tiny-qwen3", "--output", "gs://bucket/x")


def test_pods_cannot_work_on_the_disk_of_one_machine(posttrain):
    assert "give --store gs://BUCKET/FOLDER" in posttrain("run", "tiny-qwen3", "--set", "engine=jobset")


def test_compile_into_a_folder_that_is_not_there(posttrain):
    assert "Nothing can be written" in posttrain("compile", "tiny-qwen3", "-o", "nowhere/x.yaml")


@pytest.mark.parametrize(
    "template",
    [
        {"TEMPLATE": "{question}"},
        {"SYSTEM_PROMPT": 5, "TEMPLATE": "{question}"},
        {"SYSTEM_PROMPT": "", "TEMPLATE": "{question} {foo}"},
        {"SYSTEM_PROMPT": "{", "TEMPLATE": "{question}"},
        {"SYSTEM_PROMPT": "{0}", "TEMPLATE": "{question}"},
        {"SYSTEM_PROMPT": "", "TEMPLATE": "no place"},
    ],
)
def test_a_template_that_cannot_be_filled(posttrain, tmp_path_factory, template):
    path = tmp_path_factory.mktemp("template") / "t.json"
    path.write_text(json.dumps(template))
    assert "t.json" in posttrain("run", "tiny-qwen3", "--set", f"data.template={path}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{}"),
        ("tokenizer.json", '{"model": {"type": "Nonsense"}}'),
        ("chat_template.jinja", "{% for %}"),
        ("chat_template.jinja", "{{ raise_exception('no') }}"),
    ],
)
def test_a_tokenizer_or_chat_template_that_does_not_work(posttrain, model, name, content):
    (model / name).write_text(content)
    assert "cannot be used" in posttrain(*local(model))


@pytest.mark.parametrize("code", ["import sys; sys.exit(0)", "def mine(completions, **kw):\n    raise SystemExit(0)"])
def test_a_reward_file_that_ends_the_program(posttrain, tmp_path_factory, code):
    path = tmp_path_factory.mktemp("rewards") / "mine.py"
    path.write_text(code)
    settings = ["--set", f"train.reward_file={path}", "--set", "train.rewards={mine: 1.0}"]
    assert "mine" in posttrain("run", "tiny-qwen3", *settings)


@pytest.mark.parametrize("preset", ["llama3-8b-ray-2xv6e-16", "gemma4-26b-v6e-32"])
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_store_of_this_machine_is_refused_for_pods(posttrain, tmp_path, command, preset):
    assert "which cannot reach" in posttrain(command, preset, "--store", str(tmp_path / "store"))
