"""The presets ask the cluster for what the tutorials ask for, but where a reason is given here."""

import json

import kubernetes_schemas
import pytest
import tutorials

from components.config import load
from components.workloads.workload import Cpu, Tpu

PRESETS = [tutorials.GEMMA, tutorials.QWEN]
IN_TUTORIALS = pytest.mark.parametrize(("stage", "preset"), tutorials.MANIFESTS)

# -- the manifests ----------------------------------------------------------------------------------------------------

EVERYWHERE = {
    "metadata/name": "the stage and a hash of run, stage and attempt, so that two runs do not meet",
    "metadata/annotations/posttrain.dev/run-id": "the whole run id, for which a label may be too short",
    "*/labels/app.kubernetes.io/managed-by": "the project's name, on pods too",
    "*/labels/posttrain.dev/*": "run and stage: a run is found, watched and ended as a whole",
    "*/activeDeadlineSeconds": "the last bound of every workload, an hour behind the command's own deadline",
    "*/workload-container/command": "the pod carries out an order: it fetches, runs, stores, and hears its launcher",
    "*/workload-container/env/POSTTRAIN_WORKLOAD/*": "the order",
    "*/workload-container/image": "the tutorial's image does not hold this package; ours is made from it",
}
REASONS = {
    "train": {
        **EVERYWHERE,
        "*/args/--gcs_scratch_location": "below the attempt, so that runs do not share it",
        "*/ports/*/protocol": "the models write the server's default down",
    },
    "convert": {
        **EVERYWHERE,
        "*/env/HF_TOKEN/*": "an earlier stage has fetched the model, so no hub is read",
        "*/env/POSTTRAIN_SLICE/*": "a host knows which of several slices it belongs to",
        "*/volumes/dshm/*": "shared memory beyond Kubernetes' 64 MB, as later JobSets of the toolkit have it",
        "*/volumeMounts/dshm/*": "the same volume",
    },
}
REASONS["export"] = REASONS["convert"]


@IN_TUTORIALS
def test_a_manifest_is_the_tutorials_but_where_a_reason_is_given(stage, preset):
    mine = tutorials.ours(stage, preset, *tutorials.LIKE_THE_TUTORIALS)
    found = tutorials.differences(mine, tutorials.theirs(stage, preset))
    assert tutorials.without_reason(found, REASONS[stage]) == []
    assert tutorials.without_difference(found, REASONS[stage]) == []


def test_the_comparison_sees_a_field_that_is_changed_added_or_missing():
    mine = tutorials.theirs("train", tutorials.GEMMA)
    assert tutorials.differences(mine, tutorials.theirs("train", tutorials.GEMMA)) == []
    head, worker = (job["template"]["spec"]["template"]["spec"] for job in mine["spec"]["replicatedJobs"])
    head["initContainers"][1]["args"][3] = "--instance_count=2"
    head["containers"][0]["env"].pop(2)
    worker["containers"][0]["env"].append({"name": "MORE", "value": "1"})
    worker["containers"][0]["ports"].pop(3)
    worker["tolerations"][0]["effect"] = "NoExecute"
    pod = "spec/replicatedJobs/{}/template/spec/template/spec"
    expected = [
        f"{pod.format('pathways-head')}/containers/workload-container/env/JAX_PLATFORMS/name",
        f"{pod.format('pathways-head')}/containers/workload-container/env/JAX_PLATFORMS/value",
        f"{pod.format('pathways-head')}/initContainers/pathways-rm/args/--instance_count",
        f"{pod.format('worker')}/containers/pathways-worker/env/MORE/name",
        f"{pod.format('worker')}/containers/pathways-worker/env/MORE/value",
        f"{pod.format('worker')}/containers/pathways-worker/ports/8080/containerPort",
        f"{pod.format('worker')}/tolerations/0/effect",
    ]
    found = tutorials.differences(mine, tutorials.theirs("train", tutorials.GEMMA))
    assert found == expected
    assert tutorials.without_reason(found, ["*/env/*"]) == [expected[2], *expected[5:]]
    assert tutorials.without_difference(found, ["*/env/*", "metadata/name"]) == ["metadata/name"]


# -- the arguments of MaxText -----------------------------------------------------------------------------------------

PLACES = {
    "base_output_directory": "the run's own place",
    "load_parameters_path": "the weights of this run, or the converted ones of the store",
}
ARGUMENTS = {
    "train": {
        **PLACES,
        "run_name": "a folder of the run's own place, so no other run is resumed by its name",
        "tokenizer_path": "the files that the run has pinned and stored",
        "data_template_path": "the template that is stored with the questions, so that they agree",
    },
    "convert": {
        "base_output_directory": PLACES["base_output_directory"],
        "--hf_model_path": "the files that the run has pinned and stored",
    },
    "export": PLACES,
}
OF_GEMMA = {
    "mu_dtype": "train_rl's optimizer does not read it",
    "learning_rate_schedule_steps": "the schedule ends with the run; the tutorial's of 100 steps is cut off halfway",
}


@IN_TUTORIALS
def test_every_argument_of_the_tutorials_is_there_but_where_a_reason_is_given(stage, preset):
    reasons = ARGUMENTS[stage] | (OF_GEMMA if (stage, preset) == ("train", tutorials.GEMMA) else {})
    mine = tutorials.arguments(tutorials.workload(stage, preset).command)
    asked = tutorials.their_arguments(stage, preset)
    found = [key for key, value in asked.items() if key not in mine or mine[key] != value]
    assert len(asked) > 5
    assert tutorials.without_reason(found, reasons) == []
    assert tutorials.without_difference(found, reasons) == []


@pytest.mark.parametrize("preset", PRESETS)
def test_the_optimizer_is_the_one_that_the_tutorial_patches_in(preset):
    patched = "optax.adafactor" in tutorials.script("train", preset)
    assert load(preset).train.optimizer == ("adafactor" if patched else "adamw")
    assert tutorials.workload("train", preset).env["POSTTRAIN_OPTIMIZER"] == load(preset).train.optimizer


# -- the presets as they are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("overrides", [(), tutorials.LIKE_THE_TUTORIALS, ("tpu.capacity=spot", "tpu.slices=2")])
def test_what_a_preset_sends_passes_all_judges(preset, overrides):
    manifests = [tutorials.ours(stage, preset, *overrides) for stage in tutorials.STAGES]
    assert kubernetes_schemas.judged_by_kubernetes(manifests) == []
    assert kubernetes_schemas.judged_by_jobset(manifests) == []


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_holds_a_slice_only_while_the_slice_works(preset):
    needs = {stage: tutorials.workload(stage, preset).needs for stage in tutorials.STAGES}
    config = load(preset)
    assert isinstance(needs["train"], Tpu)
    assert needs["evaluate"] == needs["train"]
    for stage in ("convert", "export"):
        machine = getattr(config, stage)
        expected = Cpu(cores=config.cluster.cpu_cores, memory_gb=machine.memory_gb, disk_gb=machine.disk_gb)
        assert needs[stage] == expected


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stage", tutorials.STAGES)
def test_a_token_in_the_launchers_environment_is_in_nothing_that_a_preset_sends(preset, stage, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_SENTINELSENTINELSENTINEL")
    assert "SENTINEL" not in json.dumps(tutorials.ours(stage, preset))
