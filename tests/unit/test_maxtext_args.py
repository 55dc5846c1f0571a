"""The command lines are the tutorials' own, and MaxText knows every argument on them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from components import config, maxtext_args, maxtext_schema

PLACES = {
    "rl_yml": "rl.yml",
    "run_name": "grpo",
    "output": "o",
    "parameters": "p",
    "model": "m",
    "dataset": "d",
    "reward_file": "r",
}


def every_line(loaded: config.Config) -> dict[str, list[str]]:
    return {
        "to_maxtext": maxtext_args.to_maxtext(loaded, hf_model="m", output="o"),
        "train_rl": maxtext_args.train_rl(loaded, **PLACES),
        "to_huggingface": maxtext_args.to_huggingface(loaded, parameters="p", hf_model="m", output="o"),
    }


@pytest.mark.parametrize("preset", config.preset_names())
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


def test_on_tpu_the_stock_module_runs_and_on_cpu_our_entry_with_the_same_arguments():
    arguments = ["run_name=grpo"]
    tpu = maxtext_args.command("python3", maxtext_args.TRAIN_RL, arguments, on_tpu=True)
    cpu = maxtext_args.command("python3", maxtext_args.TRAIN_RL, arguments)
    assert tpu == ("python3", "-m", maxtext_args.TRAIN_RL, "run_name=grpo")
    assert cpu[3:] == (maxtext_args.TRAIN_RL, "run_name=grpo")


def test_the_stock_modules_exist():
    root = Path(next(iter(importlib.util.find_spec("maxtext").submodule_search_locations)))
    for module in (maxtext_args.TO_MAXTEXT, maxtext_args.TRAIN_RL, maxtext_args.TO_HUGGINGFACE):
        assert (root.parent / (module.replace(".", "/") + ".py")).is_file()


def test_a_preset_s_own_maxtext_settings_win():
    loaded = config.load("tiny-qwen3", ["maxtext.remat_policy=full"])
    assert "remat_policy=full" in maxtext_args.train_rl(loaded, **PLACES)
    assert "remat_policy=none" not in maxtext_args.train_rl(loaded, **PLACES)
