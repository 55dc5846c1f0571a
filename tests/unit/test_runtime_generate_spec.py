"""The specification of a sampling run: it survives the command line, and a mistake in it is one line with a cure."""

from __future__ import annotations

import json

import pytest

from components.errors import UserError
from components.maxtext_runtime.generate_spec import Checkpoint, Spec, read_questions

SPEC = Spec(
    questions="questions.jsonl",
    checkpoints=(Checkpoint("base", "store/base/0/items", "base.jsonl"), Checkpoint("trained", "run/80", "t.jsonl")),
    samples_per_question=4,
    max_new_tokens=16,
    seed=3,
)


def test_a_specification_survives_the_command_line():
    assert Spec.from_json(SPEC.to_json()) == SPEC
    assert SPEC.passes == 5


def test_mistakes_in_a_specification_name_the_cure():
    values = json.loads(SPEC.to_json())

    def read(**changed):
        return Spec.from_json(json.dumps(values | changed))

    with pytest.raises(UserError, match="Did you mean 'temperature'"):
        read(temperatur=1.0)
    with pytest.raises(UserError, match="checkpoint"):
        read(checkpoints=[])
    with pytest.raises(UserError, match="greedy"):
        read(samples_per_question=0, greedy=False)
    with pytest.raises(UserError, match="temperature"):
        read(temperature=0)
    with pytest.raises(UserError, match="not a specification"):
        Spec.from_json("{")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no question"),
        ([{"id": 1, "question": "a"}, {"id": 1, "question": "b"}], "twice"),
        ([{"id": 1, "prompt": "a"}], "question"),
    ],
)
def test_questions_need_an_id_and_a_text_each(tmp_path, lines, message):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=message):
        read_questions(path)
