"""Prompts as training makes them, and whether they fit the room that there is."""

import json
import shutil

import pytest

from components.errors import UserError
from components.sources import fit
from components.sources.tiny.make import WARM_QWEN3

TEMPLATE = (WARM_QWEN3 / "template.json").read_text()
SHORT, LONG = "Ana has 3 coins.", "Ana has 3 coins. Ben has 4 coins. Dana has 5 coins. How many coins have they?"


def length(question):
    (prompt,) = fit.prompts(WARM_QWEN3, TEMPLATE, [question])
    return len(prompt.ids)


def check(room, *, train=(SHORT,), evaluation=(SHORT,), need_train=1):
    fit.check_prompts(WARM_QWEN3, TEMPLATE, train, evaluation, room=room, need_train=need_train)


def test_a_prompt_is_the_message_of_the_template_within_the_models_own_chat_format():
    (prompt,) = fit.prompts(WARM_QWEN3, TEMPLATE, [SHORT])
    parts = json.loads(TEMPLATE)
    system = parts["SYSTEM_PROMPT"].format(**fit.TAGS)
    assert prompt.message == parts["TEMPLATE"].format(system_prompt=system, question=SHORT)
    from transformers import AutoTokenizer

    asked = [{"role": "user", "content": prompt.message}]
    told = AutoTokenizer.from_pretrained(WARM_QWEN3).apply_chat_template(
        asked, add_generation_prompt=True, return_dict=True
    )
    assert prompt.ids == told["input_ids"]


def test_prompts_come_in_the_order_of_the_questions():
    together = fit.prompts(WARM_QWEN3, TEMPLATE, [LONG, SHORT])
    assert together == [*fit.prompts(WARM_QWEN3, TEMPLATE, [LONG]), *fit.prompts(WARM_QWEN3, TEMPLATE, [SHORT])]
    assert fit.prompts(WARM_QWEN3, TEMPLATE, []) == []


def test_every_held_out_question_must_fit():
    check(length(LONG), evaluation=[SHORT, LONG])
    with pytest.raises(
        UserError, match=rf"1 of 2 held-out .* has {length(LONG)} tokens.*raise train\.max_prompt_tokens"
    ):
        check(length(LONG) - 1, evaluation=[SHORT, LONG])


def test_of_the_training_questions_as_many_must_fit_as_a_step_needs():
    check(length(SHORT), train=[SHORT, LONG, SHORT], need_train=2)
    with pytest.raises(UserError, match="Only 2 of 3 training questions"):
        check(length(SHORT), train=[SHORT, LONG, SHORT], need_train=3)


@pytest.mark.parametrize(
    ("file", "text"), [("chat_template.jinja", "{{ raise_exception('no\n\nuser') }}"), ("tokenizer.json", "{}")]
)
def test_a_tokenizer_or_chat_template_that_cannot_be_used_is_said_in_one_line(tmp_path, file, text):
    model = shutil.copytree(WARM_QWEN3, tmp_path / "model")
    (model / file).write_text(text)
    with pytest.raises(UserError, match=r"cannot be used: .* Mend those files") as error:
        fit.prompts(model, TEMPLATE, [SHORT])
    assert "\n" not in str(error.value)
