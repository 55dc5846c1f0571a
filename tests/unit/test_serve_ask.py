"""The client against a server that speaks vLLM's protocol: what it finds where the served model is not the trained one."""

import pytest
from serving_examples import (
    ASKED,
    exported,
    questions,
    script,
    spec,
    with_other_chat_template,
    without_end_token,
)

from components.serve.judge import Judged, findings
from components.serve.server import ServerFault, serving
from components.serve.spec import Compared

openai = pytest.importorskip("openai", reason="OpenAI's client is not installed")
from components.serve.ask import Asker  # noqa: E402

RIGHT = [Judged(text, True, True) for _, text in ASKED.values()]


def asked(tmp_path, model=None, fault=None, requests=0):
    told = spec(tmp_path, **({"model": model} if model else {}))
    with serving(told, dict(script(fault, requests)), tmp_path / "server.log") as server:
        asker = Asker(server.address, told)
        try:
            return asker.ask(questions())
        except openai.APIError as error:
            raise server.explain(error, asker.count) from error


def found(answers) -> list[str]:
    served = [
        Judged(answer.text, answer.text == right, answer.ended)
        for answer, (_, right) in zip(answers.at_once, ASKED.values(), strict=True)
    ]
    compared = [
        Compared(id=a.id, tokens=len(a.token_ids), greedy=len(a.token_ids), max_logprob_diff=0) for a in answers.chats
    ]
    return findings("posttrain-test", questions(), answers, compared, served, RIGHT, exact=True, tolerance=1e-4)


def test_the_trained_model_gives_no_findings_and_everything_is_measured(tmp_path):
    answers = asked(tmp_path)
    assert found(answers) == []
    assert [len(group) for group in (answers.completions, answers.chats, answers.at_once)] == [6, 6, len(ASKED)]
    assert all(answer.ended and answer.logprobs == [-0.5] * len(answer.token_ids) for answer in answers.completions)
    assert answers.completions[0].prompt_ids == answers.chats[0].prompt_ids == questions()[0].prompt_ids
    assert len(answers.speed.first_token_s) == 6
    assert min(answers.speed.first_token_s) > 0
    assert min(answers.speed.tokens_per_s_alone, answers.speed.tokens_per_s_at_once) > 0
    assert answers.vllm == "0.0-scripted"


def test_another_chat_template_is_named_first(tmp_path):
    answers = asked(tmp_path, with_other_chat_template(exported(tmp_path / "model")))
    assert f"another prompt than training saw for {len(ASKED)} of {len(ASKED)} questions" in found(answers)[0]
    assert "chat_template.jinja" in found(answers)[0]


def test_a_missing_end_token_is_named_first(tmp_path):
    answers = asked(tmp_path, without_end_token(exported(tmp_path / "model")))
    assert "the end token is missing" in found(answers)[0]
    assert f"{len(ASKED)} of {len(ASKED)} served answers run on" in found(answers)[0]


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ("another", "somebody-else and not posttrain-test: another server answered"),
        ("deaf", "does not keep to stop sequences"),
        ("disturbed", "requests disturb each other"),
    ],
)
def test_a_server_at_fault_is_found(tmp_path, fault, finding):
    assert finding in found(asked(tmp_path, fault=fault))[0]


@pytest.mark.parametrize(("requests", "when"), [(0, "at its first request"), (9, "at request 10")])
def test_a_server_that_dies_says_at_which_request_and_of_what(tmp_path, requests, when):
    with pytest.raises(ServerFault) as raised:
        asked(tmp_path, fault="dies", requests=requests)
    assert f"ended {when} (exit code 0): RuntimeError: Unsupported CPU attention" in raised.value.reason
    assert any("head_dim=16" in line for line in raised.value.evidence)


def test_a_server_that_refuses_is_quoted(tmp_path, monkeypatch):
    monkeypatch.setattr("components.serve.server._LAST_WORDS_S", 0.1)
    with pytest.raises(ServerFault, match=r"refused at its first request: .*no such thing"):
        asked(tmp_path, fault="refuses")
