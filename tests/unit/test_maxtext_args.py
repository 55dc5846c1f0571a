"""The command lines are the tutorials' own, and MaxText knows every argument on them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from components import config, maxtext_args, maxtext_schema

PLACES = {"run_name": "grpo", "output": "o", "parameters": "p"}


def every_line(loaded: config.Config) -> dict[str, list[str]]:
    return {
        "to_maxtext": maxtext_args.to_maxtext(loaded, hf_model="m", output="o"),
        "train_rl": maxtext_args.train_rl(loaded, **PLACES),
        "to_huggingface": maxtext_args.to_huggingface(loaded, parameters="p", hf_model="m", output="o"),
    }


@pytest.mark.parametrize(
    "preset", [name for name in config.preset_names() if isinstance(config.load(name), config.Config)]
)
def test_maxtext_knows_every_argument(preset):
    schema = maxtext_schema.installed()
    for arguments in every_line(config.load(preset)).values():
        names = [a.partition("=")[0] for a in arguments if "=" in a and not a.startswith("--")]
        assert [n for n in names if n not in schema.settings] == []
        assert len(names) == len(set(names))


def test_reading_the_schema_imports_neither_maxtext_nor_jax():
    assert importlib.util.find_spec("maxtext")
    code = "from components import config; config.load('tiny-qwen3'); import sys; "
    code += "sys.exit(bool({'jax', 'maxtext'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_program_is_the_same_on_every_engine():
    command = maxtext_args.command(maxtext_args.TRAIN_RL, ["run_name=grpo"])
    assert command == ("python", "-m", maxtext_args.ENTRY, maxtext_args.TRAIN_RL, "run_name=grpo")


@pytest.mark.parametrize("preset", ["gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"])
def test_nothing_that_a_cpu_needs_reaches_a_tpu(preset):
    line = maxtext_args.train_rl(config.load(preset), **PLACES)
    assert not any(argument.startswith(("hardware=", "use_pathways=", "megablox=")) for argument in line)


def test_the_stock_modules_exist():
    root = Path(next(iter(importlib.util.find_spec("maxtext").submodule_search_locations)))
    for module in (maxtext_args.TO_MAXTEXT, maxtext_args.TRAIN_RL, maxtext_args.TO_HUGGINGFACE):
        assert (root.parent / (module.replace(".", "/") + ".py")).is_file()


def test_a_preset_s_own_maxtext_settings_win():
    loaded = config.load("tiny-qwen3", ["maxtext.remat_policy=full"])
    assert "remat_policy=full" in maxtext_args.train_rl(loaded, **PLACES)
    assert "remat_policy=none" not in maxtext_args.train_rl(loaded, **PLACES)
