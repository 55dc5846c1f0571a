"""The workload of the serving check: what it asks for on this machine, in a pod without chips and on a TPU host."""

import kubernetes_schemas
import pytest
from serving_examples import plan_of

from components import storage
from components.errors import UserError
from components.record import ArtifactRecord
from components.serve import job
from components.serve.spec import Spec
from components.workloads import jobset
from components.workloads.workload import Cpu, Order, Tpu

EXPORTED = ArtifactRecord(kind="hf-model", format="safetensors", data_uri="gs://bucket/runs/r/export/model")


def spec_of(workload) -> Spec:
    assert workload.command[:4] == ("python", "-m", job.PROGRAM, "--spec")
    return Spec.model_validate_json(workload.command[4])


def test_every_place_of_the_program_is_one_of_the_workload(tmp_path):
    workload = job.workload(plan_of(tmp_path), EXPORTED)
    named = {part.name for part in (*workload.inputs, *workload.outputs)}
    told = spec_of(workload)
    assert {told.model, told.questions, told.result} == {f"@{name}@" for name in named}
    assert workload.inputs[0].uri == EXPORTED.data_uri
    assert workload.image == "serving"


def test_a_cpu_check_compiles_nothing_and_takes_little_memory_for_its_cache(tmp_path):
    workload = job.workload(plan_of(tmp_path), EXPORTED)
    assert isinstance(workload.needs, Cpu)
    assert {"--enforce-eager", "--max-model-len=40", "--max-num-seqs=4"} == set(spec_of(workload).arguments)
    assert workload.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert spec_of(workload).compiled is None


def test_the_preset_s_arguments_and_environment_win(tmp_path):
    settings = ("max-model-len: 64", "enforce-eager: false", "block-size: 16")
    plan = plan_of(tmp_path, f"serve.flags={{{', '.join(settings)}}}", "serve.env={VLLM_CPU_KVCACHE_SPACE: '2'}")
    workload = job.workload(plan, EXPORTED)
    arguments = set(spec_of(workload).arguments)
    assert arguments == {"--no-enforce-eager", "--max-model-len=64", "--max-num-seqs=4", "--block-size=16"}
    assert workload.env["VLLM_CPU_KVCACHE_SPACE"] == "2"


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ({}, "float32"),
        ({"export.dtype": "bfloat16"}, "bfloat16"),
        ({"export.dtype": "bfloat16", "serve.dtype": "float32"}, "float32"),
    ],
)
def test_it_computes_as_exported_unless_told_otherwise(tmp_path, dtypes, expected):
    plan = plan_of(tmp_path, *(f"{key}={value}" for key, value in dtypes.items()))
    assert spec_of(job.workload(plan, EXPORTED)).dtype == expected


@pytest.mark.parametrize("preset", ["gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"])
def test_on_tpu_one_host_serves_and_its_manifest_is_valid(tmp_path, preset):
    plan = plan_of(tmp_path, "serve.enabled=true", preset=preset)
    workload = job.workload(plan, EXPORTED)
    assert isinstance(workload.needs, Tpu)
    assert (workload.needs.slice.name, workload.needs.slice.hosts, workload.needs.pathways) == ("v6e-8", 1, False)
    order = Order(workload=workload, name="serve-1", directory="gs://bucket/runs/r/serve/attempt-1", silence_s=900)
    made = jobset.manifest(order, plan.config.cluster, plan.config.tpu)
    assert kubernetes_schemas.judged_by_kubernetes([made]) == kubernetes_schemas.judged_by_jobset([made]) == []
    (replicated,) = made["spec"]["replicatedJobs"]
    pod = replicated["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x4"
    assert pod["containers"][0]["resources"]["limits"] == {"google.com/tpu": "8"}
    assert pod["containers"][0]["image"].partition(":")[0] == "localhost/posttrain-serving"


def test_compiled_programs_of_a_tpu_are_kept_in_the_store_and_used_again(place):
    plan = plan_of(place, "serve.enabled=true", preset="qwen3-30b-a3b-v6e-64")
    first = spec_of(job.workload(plan, EXPORTED))
    assert (first.compiled, first.compiled_before) == ("@compiled@", None)
    (kept,) = [output for output in job.workload(plan, EXPORTED).outputs if output.name == "compiled"]
    storage.write_text(storage.join(kept.uri, "program"), "bytes")
    again = job.workload(plan, EXPORTED)
    assert spec_of(again).compiled_before == "@compiled_before@"
    assert [source.uri for source in again.inputs if source.name == "compiled_before"] == [kept.uri]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("serve.slice=v6e-32", "several hosts: take one of a single host"),
        ("serve.slice=v6e-3", "is no TPU slice"),
        ("serve.flags={port: 80}", "set by serve.port"),
        ("serve.env={HF_TOKEN: x}", "would stand in manifests and logs"),
        ("serve.questions=40", "greater than or equal to 50"),
        ("serve.prompts=5", "greater than or equal to 6"),
        ("evaluate.questions=60", "serve.questions 64 is more than evaluate.questions 60"),
        ("evaluate.greedy=false", "set evaluate.greedy=true"),
    ],
)
def test_a_check_that_cannot_be_is_refused_before_the_run(tmp_path, setting, said):
    with pytest.raises(UserError, match=said):
        plan_of(tmp_path, "serve.enabled=true", setting)
