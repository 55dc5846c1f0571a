"""`posttrain run|upload|schedule|runs|status|cancel --on kfp|vertex`, as typed, against played services."""

import json

import pytest

from pipelines import cli
from pipelines.compile import compile_yaml
from pipelines.options import ON, TARGET_OPTIONS
from pipelines.targets.kfp_client import KfpSettings
from pipelines.targets.vertex_client import VertexSettings

STORE = "gs://bucket/posttrain"


@pytest.fixture
def posttrain(kfp_service, monkeypatch, capsys):
    """Types a command for the played KFP; returns exit code and what was said."""
    monkeypatch.setenv("POSTTRAIN_KFP_HOST", kfp_service.url)
    # as POSTTRAIN_IMAGE would, had it been set when the components were imported
    named = lambda chosen: compile_yaml(chosen).replace("/PROJECT/", "/acme/")  # noqa: E731
    monkeypatch.setattr("pipelines.there.compile_yaml", named)

    def type_(*words):
        try:
            cli.main(list(words))
            code = 0
        except SystemExit as end:
            code = end.code
        out = capsys.readouterr()
        return code, out.out + out.err

    return type_


def test_every_setting_of_a_target_is_an_option():
    fields = set(KfpSettings.model_fields) | set(VertexSettings.model_fields)
    assert fields == set(TARGET_OPTIONS)
    assert set(ON) == {"local", KfpSettings.target, VertexSettings.target}


def test_a_run_says_where_to_look_and_carries_what_was_set(posttrain, kfp_service):
    code, said = posttrain(
        "run", "tiny-qwen3", "--on", "kfp", "--store", STORE, "--set", "seed=7", "--set", "train.steps=5"
    )
    assert code == 0, said
    assert "page: " in said
    assert f"data: {STORE}/runs/tiny-qwen3-" in said
    (made,) = kfp_service.asked("POST", "/apis/v2beta1/runs")
    sent = made.json["runtime_config"]["parameters"]
    assert sent["overrides"] == "seed=7\ntrain.steps=5"
    assert sent["store"] == STORE
    assert sent["run_id"] in said


def test_upload_and_schedule(posttrain, kfp_service):
    code, said = posttrain("upload", "tiny-qwen3", "--on", "kfp")
    assert code == 0 and "page: " in said
    code, said = posttrain("schedule", "tiny-qwen3", "--on", "kfp", "--cron", "0 3 * * 1", "--store", STORE)
    assert code == 0 and "0 3 * * 1" in said
    (made,) = kfp_service.asked("POST", "/apis/v2beta1/recurringruns")
    assert made.json["trigger"]["cron_schedule"]["cron"] == "0 0 3 * * 1"
    assert "run_id" not in made.json["runtime_config"]["parameters"]


def test_a_run_is_listed_shown_and_ended(posttrain):
    _, said = posttrain("run", "tiny-qwen3", "--on", "kfp", "--store", STORE)
    name = said.split(":", 1)[0]
    assert name in posttrain("runs", "--on", "kfp")[1]
    assert posttrain("status", name, "--on", "kfp")[1].startswith(f"{name}: ")
    code, said = posttrain("cancel", name, "--on", "kfp")
    assert code == 0 and "ends within the silence bound" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "tiny-qwen3", "--on", "kfp"], "give --store gs://BUCKET/FOLDER"),
        (["run", "tiny-qwen3", "--on", "kfp", "--store", "here"], "give --store gs://BUCKET/FOLDER"),
        (["run", "tiny-qwen3", "--on", "kfp", "--store", STORE, "--set", "data.train=q.jsonl"], "is on this machine"),
        (["run", "tiny-qwen3", "--on", "kfp", "--store", STORE, "--set", "seedz=1"], "'seedz' is not a key"),
        (["run", "tiny-qwen3", "--on", "kfp", "--store", STORE, "--output", "x"], "are of local runs"),
        (
            ["run", "tiny-qwen3", "--on", "kfp", "--store", STORE, "--project", "p"],
            "--project is no setting of --on kfp",
        ),
        (["run", "tiny-qwen3", "--on", "vertex", "--store", STORE], "--on vertex needs a Google Cloud project"),
        (["schedule", "tiny-qwen3", "--on", "kfp", "--store", STORE, "--cron", "0 0 3 * * 1"], "five"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_called(posttrain, kfp_service, words, said):
    code, text = posttrain(*words)
    assert code == 2
    assert said in text
    assert text.count("\n") == 1
    assert [request for request in kfp_service.requests if request.method != "GET"] == []


def test_the_run_that_is_sent_is_the_preset_s_own_bytes(posttrain, kfp_service):
    posttrain("run", "tiny-qwen3", "--on", "kfp", "--store", STORE, "--set", "seed=7")
    (spec,) = kfp_service.specs.values()
    default = spec["root"]["inputDefinitions"]["parameters"]["config"]["defaultValue"]
    assert json.loads(default)["seed"] == 0
