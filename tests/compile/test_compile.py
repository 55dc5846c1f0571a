"""The compiled YAML: one portable document, the same bytes every time, nothing heavy or secret in it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from google.auth.credentials import AnonymousCredentials
from google.protobuf import json_format
from kfp import compiler, components, dsl
from kfp.pipeline_spec import pipeline_spec_pb2

from components import config
from pipelines.compile import compile_yaml
from tests.compile.allowed import ALLOWED, faults

EXECUTORS_AT_MOST = 10
BYTES_AT_MOST = 60_000
# of one parameter's value: https://github.com/kubeflow/pipelines/issues/12510
CHARACTERS_AT_MOST = 10_000
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=config.preset_names())
def compiled(request) -> str:
    return compile_yaml(config.load(request.param))


def tree(text: str) -> dict:
    return yaml.safe_load(text)


def executors(text: str) -> dict:
    return tree(text)["deploymentSpec"]["executors"]


def parameters(text: str) -> dict:
    return tree(text)["root"]["inputDefinitions"]["parameters"]


def preset(text: str) -> config.AnyConfig:
    return config.parse(json.loads(parameters(text)["config"]["defaultValue"]))


def tasks(text: str) -> dict:
    """Every task by its name, whichever frame it stands in, with the frames themselves."""
    spec = tree(text)
    dags = [part["dag"] for part in (spec["root"], *spec["components"].values()) if "dag" in part]
    return {task["taskInfo"]["name"]: task for dag in dags for task in dag["tasks"].values()}


def runs_something(task: dict) -> bool:
    """Whether a task is more than the frame of others."""
    return "cachingOptions" in task


# -- the document -----------------------------------------------------------------------------------------------------


def test_the_same_bytes_every_time(compiled):
    assert compile_yaml(config.load(preset(compiled).preset)) == compiled


def test_the_same_bytes_in_any_process_with_the_image_as_it_was_given(tmp_path):
    image = f"us-docker.pkg.dev/acme/images/posttrain-launcher@sha256:{'0123456789abcdef' * 4}"
    texts = set()
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        command = [sys.executable, "-m", "pipelines.cli", "compile", "tiny-qwen3", "-o", "made.yaml"]
        environment = os.environ | {"PYTHONHASHSEED": seed, "POSTTRAIN_IMAGE": image, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, check=True, cwd=tmp_path / seed, env=environment)
        texts.add((tmp_path / seed / "made.yaml").read_text())
    (text,) = texts
    assert {executor["container"]["image"] for executor in executors(text).values()} == {image}


def test_one_document_small_enough_to_read(compiled):
    assert len(list(yaml.safe_load_all(compiled))) == 1  # Vertex refuses a second one, such as one of platforms
    assert len(compiled.encode()) < BYTES_AT_MOST
    assert len(executors(compiled)) <= EXECUTORS_AT_MOST


def test_components_install_nothing_and_run_a_baked_module(compiled):
    for executor in executors(compiled).values():
        script = " ".join(executor["container"]["command"])
        assert "pip install" not in script
        assert "from components." in script


# -- who takes it -----------------------------------------------------------------------------------------------------


def test_every_field_is_one_that_older_backends_know(compiled):
    assert faults(tree(compiled)) == []


@dsl.component(base_image="python")
def nothing(status: dsl.PipelineTaskFinalStatus) -> None:
    pass


@dsl.component(base_image="python", task_config_passthroughs=[dsl.TaskConfigField.RESOURCES])
def passing_on(given: dsl.TaskConfig = None) -> None:
    pass


@dsl.component(base_image="python")
def told(text: str) -> None:
    pass


@dsl.pipeline(name="newer")
def final_status():
    with dsl.ExitHandler(nothing()):
        told(text="x")


@dsl.pipeline(name="newer")
def task_config():
    passing_on()


@dsl.pipeline(name="newer", pipeline_config=dsl.PipelineConfig(workspace=dsl.WorkspaceConfig(size="1Gi")))
def workspace_import():
    dsl.importer("gs://bucket/x", dsl.Model, download_to_workspace=True)


@dsl.pipeline(name="newer")
def schema_of_vertex():
    dsl.importer("gs://bucket/x", type("VertexModel", (dsl.Artifact,), {"schema_title": "google.VertexModel"}))


@dsl.pipeline(name="newer")
def unknown_placeholder():
    told(text=dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER)


@pytest.mark.parametrize(
    ("newer", "named"),
    [
        (final_status, {"taskFinalStatus: unknown", "'TASK_FINAL_STATUS' is not"}),
        (task_config, {"taskConfigPassthroughs: unknown", "'TASK_CONFIG' is not"}),
        (workspace_import, {"downloadToWorkspace: unknown"}),
        (schema_of_vertex, {"'google.VertexModel' is not"}),
        (unknown_placeholder, {"'{{$.pipeline_job_create_time_utc}}' is not"}),
    ],
)
def test_what_older_backends_do_not_know_is_named(tmp_path, newer, named):
    file = tmp_path / "newer.yaml"
    compiler.Compiler().compile(newer, package_path=str(file))
    found = faults(next(yaml.safe_load_all(file.read_text())))
    assert {word for word in named if any(word in fault for fault in found)} == named


def test_the_list_of_known_fields_names_nothing_that_the_format_does_not_have():
    for message, fields in ALLOWED.items():
        if not isinstance(fields, dict):
            continue
        *outer, name = message.split(".")
        found = pipeline_spec_pb2.DESCRIPTOR.message_types_by_name[(outer or [name])[0]]
        for inner in (*outer[1:], name) if outer else ():
            found = found.nested_types_by_name[inner]
        assert fields.keys() <= {field.json_name for field in found.fields}, message


def test_the_parsers_of_kfp_take_it(compiled):
    json_format.ParseDict(tree(compiled), pipeline_spec_pb2.PipelineSpec())
    assert components.load_component_from_text(compiled).name == tree(compiled)["pipelineInfo"]["name"]


def test_the_client_of_vertex_takes_it_with_every_parameter(compiled, tmp_path):
    from google.cloud import aiplatform

    file = tmp_path / "pipeline.yaml"
    file.write_text(compiled)
    aiplatform.PipelineJob(  # reads, checks and converts it; the submission is in tests/clients
        display_name="x",
        template_path=str(file),
        pipeline_root="gs://bucket/root",
        parameter_values=dict.fromkeys(parameters(compiled), "given"),
        project="acme",
        location="us-central1",
        credentials=AnonymousCredentials(),
    )


# -- the graph --------------------------------------------------------------------------------------------------------


WAITS = {
    "grpo": {
        "improve": set(),
        "prepare": set(),
        "download": {"prepare"},
        "convert": {"prepare", "download"},
        "train": {"prepare", "download", "convert"},
        "evaluate": {"prepare", "download", "convert", "train"},
        "export": {"prepare", "download", "train", "evaluate"},
        "publish": {"prepare", "download", "train", "evaluate", "export"},
        "serving-check": {"prepare", "download", "evaluate", "export", "publish"},
        "serve": set(),  # its frame waits
        "report": {"exit-handler-1"},
    },
    "ray-finetune": {
        "fine-tune": set(),
        "prepare": set(),
        "download": {"prepare"},
        "collectives": {"prepare", "download"},
        "finetune": {"prepare", "download", "collectives"},
        "export": {"prepare", "download", "finetune"},
        "report": {"exit-handler-1"},
    },
    "ray-pretrain": {"pre-train": set(), "prepare": set(), "pretrain": {"prepare"}, "report": {"exit-handler-1"}},
}


def test_each_stage_waits_for_what_it_reads(compiled):
    found = {name: set(task.get("dependentTasks", [])) for name, task in tasks(compiled).items()}
    assert found == WAITS[preset(compiled).pipeline]


def test_the_exit_task_comes_last_however_the_others_went_and_needs_nothing_of_them(compiled):
    last = [name for name, task in tasks(compiled).items() if "strategy" in task.get("triggerPolicy", {})]
    assert last == ["report"]
    report = tasks(compiled)["report"]
    assert report["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    given = {name: value.get("componentInputParameter") for name, value in report["inputs"].pop("parameters").items()}
    assert given.pop("job_id") is None
    assert given == {name: name for name in parameters(compiled)}
    assert report["inputs"] == {}


def test_the_serving_check_runs_when_prepare_says_so(compiled):
    conditions = {name: task["triggerPolicy"]["condition"] for name, task in tasks(compiled).items()
                  if "condition" in task.get("triggerPolicy", {})}  # fmt: skip
    wanted = {"serving-check": "inputs.parameter_values['pipelinechannel--prepare-Output'] == true"}
    assert conditions == (wanted if preset(compiled).pipeline == "grpo" else {})


def test_no_task_is_taken_from_a_backends_cache(compiled):
    cached = {name: task["cachingOptions"] for name, task in tasks(compiled).items() if runs_something(task)}
    assert len(cached) == len(executors(compiled))
    assert set(map(str, cached.values())) == {"{}"}


def test_no_task_counts_on_the_backend_to_try_it_again(compiled):
    assert [name for name, task in tasks(compiled).items() if "retryPolicy" in task] == []


# -- what a person sees in a UI ---------------------------------------------------------------------------------------


def test_the_pipeline_says_what_its_preset_is_for(compiled):
    info = tree(compiled)["pipelineInfo"]
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,127}", info["name"])  # as Vertex wants it
    assert info["description"] == preset(compiled).description


def test_every_parameter_reads_well_in_a_form(compiled):
    for name, parameter in parameters(compiled).items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert re.fullmatch(r"[A-Z][^\n`]{15,200}\.", parameter["description"]), name
        assert parameter["parameterType"] == "STRING"  # KFP turns the whole numbers in a mapping into fractions
        assert len(parameter["defaultValue"]) < CHARACTERS_AT_MOST


def test_the_form_can_be_sent_as_it_is_but_for_the_store(compiled):
    defaults = {name: parameter["defaultValue"] for name, parameter in parameters(compiled).items()}
    assert {name for name, value in defaults.items() if value} == {"config"}
    assert preset(compiled) == config.load(preset(compiled).preset)


def test_artifacts_keep_schemas_that_every_backend_knows(compiled):
    titles = {word for word in compiled.split() if word.startswith(("system.", "google.")) and "@" not in word}
    assert titles <= {"system.Artifact", "system.Model", "system.Dataset", "system.Metrics", "system.HTML"}
