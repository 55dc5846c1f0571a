"""What each reward function pays for, what a user's own may look like, and which mistakes are told before a run."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from components.errors import UserError
from components.rewards.batch import Batch
from components.rewards.functions import REWARDS, available, check_rewards, score

RIGHT = "<reasoning>37+5</reasoning><answer>42</answer>"


@pytest.mark.parametrize(
    ("name", "completion", "value"),
    [
        ("exact_answer", RIGHT, 1.0),
        ("exact_answer", "<answer>42.0</answer>", 1.0),
        ("exact_answer", "<answer>84/2</answer>", 1.0),
        ("exact_answer", "<answer>\\sqrt{1764}</answer>", 0.0),
        ("exact_answer", "42", 0.0),
        ("numbers", RIGHT, 1.0),
        ("numbers", "<answer>\\sqrt{1764}</answer>", 1.0),
        ("numbers", "<answer>43</answer>", 0.0),
        ("numbers", "forty-two", 0.0),
        ("close_number", "<answer>38</answer>", 1.0),
        ("close_number", "<answer>37</answer>", 0.0),
        ("close_number", "<answer>-42</answer>", 0.0),
        ("has_format", RIGHT, 1.0),
        ("has_format", "<answer>42</answer>", 0.0),
        ("has_format", "<answer>42</answer><reasoning>37+5</reasoning>", 0.0),
        ("format_tags", RIGHT, 1.0),
        ("format_tags", RIGHT + "<answer>", 0.5),
        ("format_tags", "", -1.0),
    ],
)
def test_value_of_a_completion(name: str, completion: str, value: float) -> None:
    assert REWARDS[name](Batch([completion], [["42"]])) == [value]


def test_any_of_several_gold_answers_is_right() -> None:
    assert REWARDS["exact_answer"](Batch([RIGHT], [["B", "42"]])) == [1.0]


def test_without_a_gold_answer_what_compares_with_it_is_not_scored() -> None:
    (values,) = score([RIGHT], [[]], dict.fromkeys(REWARDS, 1.0))
    assert {name for name, value in values.items() if value is None} == {"exact_answer", "numbers", "close_number"}
    assert values["has_format"] == 1.0


def test_weights_scale_and_keep_their_order() -> None:
    weights = {"has_format": 0.1, "exact_answer": 2.0}
    rows = score([RIGHT, "42"], [["42"], ["42"]], weights)
    assert rows == [{"has_format": 0.1, "exact_answer": 2.0}, {"has_format": 0.0, "exact_answer": 0.0}]
    assert list(rows[0]) == list(weights)


@pytest.fixture
def reward_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(
        "import json\n"
        "from math import sqrt\n"
        "def short(completions, **kwargs):\n"
        "    return [1.0 if len(c) < 20 else 0.0 for c in completions]\n"
        "def maxtext_style(prompts, completions, tmvp_config, answer=None, question=None, **kw):\n"
        "    return [float(json.loads(a)[0] in c and q != '' and p != '') "
        "for p, c, a, q in zip(prompts, completions, answer, question)]\n"
        "def undecided(completions):\n"
        "    return [None for _ in completions]\n"
        "def raises(completions):\n"
        "    raise KeyError('gone')\n"
        "def too_few(completions):\n"
        "    return [1.0]\n"
        "def nan(completions):\n"
        "    return [float('nan') for _ in completions]\n"
        "def text(completions):\n"
        "    return ['1' for _ in completions]\n"
        "def exact_answer(completions):\n"
        "    return [0.5 for _ in completions]\n"
        "def _helper(completions):\n"
        "    return []\n"
    )
    return path


def test_the_functions_of_a_file_stand_beside_ours(reward_file: Path) -> None:
    known = available(str(reward_file))
    assert set(known) - set(REWARDS) == {"short", "maxtext_style", "undecided", "raises", "too_few", "nan", "text"}
    weights = {"short": 2.0, "maxtext_style": 1.0, "undecided": 1.0, "exact_answer": 1.0}
    check_rewards(weights, str(reward_file))
    rows = score([RIGHT, "no"], [["42"], ["42"]], weights, questions=["q", "q"], rewards=known)
    assert rows[0] == {"short": 0.0, "maxtext_style": 1.0, "undecided": None, "exact_answer": 0.5}
    assert rows[1] == {"short": 2.0, "maxtext_style": 0.0, "undecided": None, "exact_answer": 0.5}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "KeyError: 'gone'"),
        ("too_few", "returned 1 values for 6 completions"),
        ("nan", "returned nan"),
        ("text", "returned '1'"),
        ("shrt", "Did you mean 'short'?"),
        ("_helper", "no reward function '_helper'"),
    ],
)
def test_a_function_that_does_not_work_is_told_in_one_line(reward_file: Path, name: str, said: str) -> None:
    with pytest.raises(UserError) as told:
        check_rewards({name: 1.0}, str(reward_file))
    assert said in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist"),
        ("def f(:\n", "SyntaxError"),
        ("import not_there_at_all\n", "ModuleNotFoundError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("from math import sqrt\nx = 1\n", "defines no reward function"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "mine.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=said):
        check_rewards({"exact_answer": 1.0}, str(path))


def test_our_own_names_and_weights_are_checked_too() -> None:
    check_rewards({"exact_answer": 1.0, "has_format": 0.1})
    with pytest.raises(UserError, match="Did you mean 'exact_answer'"):
        check_rewards({"exact_anwser": 1.0})
    with pytest.raises(UserError, match="finite"):
        check_rewards({"exact_answer": math.nan})
