"""The compiled YAML: one portable document, the same bytes every time, nothing heavy or secret in it."""

import json

import pytest
import yaml

from components import config
from pipelines.compile import compile_yaml

EXECUTORS_AT_MOST = 10
BYTES_AT_MOST = 60_000


@pytest.fixture(scope="module", params=config.preset_names())
def compiled(request) -> str:
    return compile_yaml(config.load(request.param))


def executors(text: str) -> dict:
    return yaml.safe_load(text)["deploymentSpec"]["executors"]


def test_the_same_bytes_every_time(compiled):
    name = json.loads(yaml.safe_load(compiled)["root"]["inputDefinitions"]["parameters"]["config"]["defaultValue"])[
        "preset"
    ]
    assert compile_yaml(config.load(name)) == compiled


def test_one_document_small_enough_to_read(compiled):
    assert len(list(yaml.safe_load_all(compiled))) == 1  # Vertex refuses a second one
    assert len(compiled.encode()) < BYTES_AT_MOST
    assert len(executors(compiled)) <= EXECUTORS_AT_MOST


def test_each_stage_waits_for_what_it_reads(compiled):
    tasks = yaml.safe_load(compiled)["root"]["dag"]["tasks"]
    assert {name: set(task.get("dependentTasks", [])) for name, task in tasks.items()} == {
        "prepare": set(),
        "download": {"prepare"},
        "convert": {"prepare", "download"},
        "train": {"prepare", "download", "convert"},
        "evaluate": {"prepare", "download", "convert", "train"},
        "export": {"prepare", "download", "train", "evaluate"},
        "report": {"prepare", "evaluate", "export"},
    }


def test_components_install_nothing_and_run_a_baked_module(compiled):
    for executor in executors(compiled).values():
        script = " ".join(executor["container"]["command"])
        assert "pip install" not in script
        assert "from components." in script


def test_artifacts_keep_schemas_that_every_backend_knows(compiled):
    titles = {word for word in compiled.split() if word.startswith(("system.", "google.")) and "@" not in word}
    assert titles <= {"system.Artifact", "system.Model", "system.Dataset", "system.Metrics", "system.HTML"}


def test_every_parameter_has_a_description_and_a_default(compiled):
    for name, parameter in yaml.safe_load(compiled)["root"]["inputDefinitions"]["parameters"].items():
        assert parameter["description"], name
        assert "defaultValue" in parameter, name


def test_the_default_configuration_is_the_preset(compiled):
    default = yaml.safe_load(compiled)["root"]["inputDefinitions"]["parameters"]["config"]["defaultValue"]
    parsed = config.parse(json.loads(default))
    assert parsed == config.load(parsed.preset)
