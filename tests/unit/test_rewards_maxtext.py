"""Called as MaxText calls it, in a process of its own: the rewards that come back and the rollouts that are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REWARDS = {"numbers": 1.0, "has_format": 0.1}

# Loads the file once per function, as MaxText 0.2.4 does, and calls as Tunix and as MaxText's own evaluation do.
TRAINER = """
import importlib.util, json, sys
from types import SimpleNamespace
import numpy as np

def load(name):
    spec = importlib.util.spec_from_file_location("_user_module_" + name, sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name, None)

names = json.loads(sys.argv[2])
functions = [load(name) for name in names]
assert [function.__name__ for function in functions] == names
assert load("no_such_function") is None
config = SimpleNamespace(
    reasoning_start_token="<reasoning>", reasoning_end_token="</reasoning>", reasoning_start_token_in_prompt=False,
    solution_start_token="<answer>", solution_end_token="</answer>",
)
for call in json.loads(sys.argv[3]):
    columns = {"answer": np.array(call["answer"]), "question": np.array(call["question"])}
    if isinstance(call["question"], str):
        columns = {"answer": call["answer"], "question": call["question"]}
    if "mode" in call:
        columns["mode"] = call["mode"]
    print(json.dumps([
        function(prompts=call["prompts"], completions=call["completions"], tmvp_config=config, **columns)
        for function in functions
    ]))
"""


def train(calls: list[dict[str, Any]], environment: dict[str, str], rewards: dict[str, float] = REWARDS) -> list[Any]:
    """Runs a trainer on these calls; returns what the functions gave for each call."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            TRAINER,
            str(ROOT / "components" / "rewards" / "maxtext_rewards.py"),
            json.dumps(list(rewards)),
            json.dumps(calls),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "POSTTRAIN_REWARDS": json.dumps(rewards), **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]


BATCH = {
    "prompts": ["<q>37+5?", "<q>\u00bd?"],
    "completions": ["<reasoning>.</reasoning><answer>42</answer>", "<answer>\\frac{2}{4}</answer>"],
    "answer": [json.dumps(["42", "42"]), json.dumps(["0.5"])],
    "question": ["37+5?", "\u00bd?"],
    "mode": "train",
}


def test_rewards_are_weighted_and_every_rollout_is_kept(tmp_path: Path) -> None:
    given = train([BATCH], {"POSTTRAIN_ROLLOUTS": str(tmp_path / "deep" / "kept")})
    assert given == [[[1.0, 1.0], [0.1, 0.0]]]
    first, second = rows(tmp_path / "deep" / "kept")
    assert first == {
        "step": 1,
        "question_id": "38e16db0341f",
        "question": "37+5?",
        "answer": ["42"],
        "prompt": "<q>37+5?",
        "completion": BATCH["completions"][0],
        "reward": 1.1,
        "rewards": {"numbers": 1.0, "has_format": 0.1},
    }
    assert (second["question"], second["reward"]) == ("\u00bd?", 1.0)


def test_steps_count_on_from_the_checkpoint_each_in_a_file_of_its_own(tmp_path: Path) -> None:
    environment = {"POSTTRAIN_ROLLOUTS": str(tmp_path), "POSTTRAIN_START_STEP": "40", "POSTTRAIN_CALLS_PER_STEP": "2"}
    train([BATCH] * 5, environment)
    assert [row["step"] for row in rows(tmp_path)] == [41] * 4 + [42] * 4 + [43] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"rollouts-{n}.jsonl" for n in (41, 42, 43)]


def test_a_step_that_is_trained_again_takes_the_place_of_its_first_time(tmp_path: Path) -> None:
    for start in ("40", "41"):
        train([BATCH] * 2, {"POSTTRAIN_ROLLOUTS": str(tmp_path), "POSTTRAIN_START_STEP": start})
    assert [row["step"] for row in rows(tmp_path)] == [41] * 2 + [42] * 2 + [43] * 2


@pytest.mark.parametrize("evaluation", [{**BATCH, "mode": "eval"}, {k: v[0] for k, v in BATCH.items() if k != "mode"}])
def test_what_maxtext_evaluates_is_rewarded_but_not_kept(tmp_path: Path, evaluation: dict[str, Any]) -> None:
    if "mode" not in evaluation:  # MaxText's own: lists of one, the question as a string
        evaluation = {key: value if key == "question" else [value] for key, value in evaluation.items()}
    given = train([BATCH, evaluation, BATCH], {"POSTTRAIN_ROLLOUTS": str(tmp_path)})
    assert given[1][0][0] == 1.0
    assert [row["step"] for row in rows(tmp_path)] == [1, 1, 2, 2]


def test_an_unscorable_completion_gives_zero_and_is_kept_as_unscored(tmp_path: Path) -> None:
    batch = {**BATCH, "answer": [json.dumps([]), json.dumps([""])]}
    assert train([batch], {"POSTTRAIN_ROLLOUTS": str(tmp_path)}) == [[[0.0, 0.0], [0.1, 0.0]]]
    assert [row["rewards"] for row in rows(tmp_path)] == [
        {"numbers": None, "has_format": 0.1},
        {"numbers": None, "has_format": 0.0},
    ]


@pytest.mark.parametrize(
    ("column", "golds"), [('["0.5", "half"]', ["0.5", "half"]), ("[]", []), ("[1, 2]", ["[1, 2]"]), ("12", ["12"])]
)
def test_an_answer_column_may_itself_be_a_list_of_texts(tmp_path: Path, column: str, golds: list[str]) -> None:
    batch = {**BATCH, "answer": [json.dumps([column, column])] * 2}
    train([batch], {"POSTTRAIN_ROLLOUTS": str(tmp_path)})
    assert [row["answer"] for row in rows(tmp_path)] == [golds, golds]


def test_a_users_function_is_found_by_name(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def brief(completions, **kwargs):\n    return [float(len(c) < 30) for c in completions]\n")
    environment = {"POSTTRAIN_REWARD_FILE": str(mine), "POSTTRAIN_ROLLOUTS": str(tmp_path / "kept")}
    given = train([BATCH], environment, {"brief": 0.5, "has_format": 0.1})
    assert given == [[[0.0, 0.5], [0.1, 0.0]]]
    assert rows(tmp_path / "kept")[1]["rewards"] == {"brief": 0.5, "has_format": 0.0}


def test_it_needs_no_installed_package_before_the_first_symbolic_answer() -> None:
    """-S leaves the installed packages out; `exact_answer` is what the tiny presets pay for."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from components.rewards import maxtext_rewards\n"
        "print(maxtext_rewards.exact_answer([''], ['<answer>4.0</answer>'], answer=['[\"4\"]'], question=['2+2?']))\n"
    )
    environment = {"POSTTRAIN_REWARDS": '{"exact_answer": 1.0}'}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[1.0]\n", "")


def test_nothing_is_kept_when_nobody_asks(tmp_path: Path) -> None:
    assert train([BATCH], {"POSTTRAIN_ROLLOUTS": ""}) == [[[1.0, 1.0], [0.1, 0.0]]]
