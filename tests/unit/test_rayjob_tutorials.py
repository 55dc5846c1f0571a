"""The presets ask KubeRay for what the tutorials ask for, but where a reason is given here."""

import shlex

import kubernetes_schemas
import pytest
import ray_examples
import tutorials
from ray_examples import sent, theirs

from components import config
from components.ray_config import RayFinetuneConfig, RayPretrainConfig

MANIFESTS = {
    "gemma4-e2b-ray-v6e-16": "002-rayjob-torchtpu.v6e-16.yaml",
    "gemma4-e2b-ray-tpu7x-16": "002-rayjob-torchtpu.tpu7x-16.yaml",
    "llama3-70b-ray-2xv6e-16": "004-rayjob-maxtext-multislice.yaml",
    "llama3-8b-ray-elastic-spot": "004-rayjob-maxtext-elastic-spot.yaml",
}
TUNED, TRAINED = list(MANIFESTS)[:2], list(MANIFESTS)[2:]
CLUSTER = "spec/rayClusterSpec"
HEAD = f"{CLUSTER}/headGroupSpec/template"
WORKER = f"{CLUSTER}/workerGroupSpecs/0/template"

# path of the field: why it differs
ALWAYS = {
    "metadata/name": "it follows from run, stage and attempt, so that a restarted launcher finds it",
    "metadata/labels/*": "by them a run's objects are found again",
    "metadata/annotations/posttrain.dev/run-id": "a label has no room for it",
    "*/template/metadata/labels/*": "by them the launcher finds all pods of the object",
    "spec/submitterPodTemplate/metadata/labels/*": "by them the launcher finds all pods of the object",
    "spec/entrypoint": "the pod's own program carries out the order; it notices a silent launcher",
    "spec/activeDeadlineSeconds": "an hour more than the command has, for machines, image, inputs and outputs",
    "spec/ttlSecondsAfterFinished": "the slice is let go at once; the logs have been followed from the start",
    "*/env/POSTTRAIN_WORKLOAD/*": "the order",
    "*/env/RAY_AUTH_MODE/*": "Ray 2.60 would want a token that KubeRay before 1.5 cannot hand out",
    "*/env/RAY_USAGE_STATS_ENABLED/*": "nothing is sent to others",
    "*/image": "the project's own images",
    f"{HEAD}/spec/containers/ray-head/ports/*/protocol": "the default, which the model writes out",
    "*/resources/limits/cpu": "a limit would only slow down what could use idle cores; Ray counts the requests",
    "*/resources/limits/memory": "GB of 1e9 bytes, as everywhere here",
    f"{HEAD}/spec/containers/ray-head/resources/requests/memory": "GB of 1e9 bytes, as everywhere here",
    f"{HEAD}/spec/*/scratch/*": "inputs and outputs have a disk with a limit of its own",
    "*/nodeSelector/cloud.google.com/gke-nodepool": "pods without chips stay off the hosts of slices",
    "*/terminationGracePeriodSeconds": "time for the pod to say how it ended",
    f"{CLUSTER}/rayVersion": "the newest that the programs were run with; its JaxTrainer sets MEGASCALE_* itself",
    f"{CLUSTER}/workerGroupSpecs/0/groupName": "there is one group",
    f"{WORKER}/spec/tolerations/*": "GKE taints the hosts of slices",
    "spec/submitterPodTemplate/spec/containers/ray-job-submitter/resources/requests/cpu": "it only follows a log",
}
OF_TUNING = {
    "*/env/HF_TOKEN/*": "the model lies in the store before the pods start: they need no token",
    f"{CLUSTER}/workerGroupSpecs/0/rayStartParams/metrics-export-port": "as in the other tutorial",
    f"{WORKER}/spec/containers/ray-worker/resources/requests/memory": "GB of 1e9 bytes, as everywhere here",
    f"{WORKER}/spec/containers/ray-worker/securityContext/privileged": "as in the other tutorial: the devices are root's",
    f"{WORKER}/spec/volumes/dshm/emptyDir/sizeLimit": "GB of 1e9 bytes, as everywhere here",
}
OF_TRAINING = {
    f"{CLUSTER}/headGroupSpec/rayStartParams/num-cpus": "as in the other tutorial: no work of Ray's on the head",
    "*/gcs-fuse-csi-ephemeral/*": "named bucket, at /gcs/<bucket>; our images run as root, so without uid and gid",
    "*/volumes/bucket/*": "the same volume",
    "*/volumeMounts/bucket/*": "the same volume",
    f"{HEAD}/spec/*/dshm/*": "KubeRay itself gives every Ray container /dev/shm; of the workers' the size is ours to say",
    "*/serviceAccountName": "another placeholder",
    "*/nodeSelector/iam.gke.io/gke-metadata-server-enabled": "every pool of a cluster with Workload Identity has it",
    f"{WORKER}/spec/resourceClaims/netdev/resourceClaimTemplateName": "made by the launcher, named by what it claims",
}
REASONS = {
    "gemma4-e2b-ray-v6e-16": OF_TUNING,
    "gemma4-e2b-ray-tpu7x-16": OF_TUNING,
    "llama3-70b-ray-2xv6e-16": OF_TRAINING
    | {
        "*/env/MEGASCALE_NUM_SLICES/*": "JaxTrainer sets it for the slices that there are",
        "*/env/MEGASCALE_PORT/*": "JaxTrainer sets it",
    },
    "llama3-8b-ray-elastic-spot": OF_TRAINING,
}
LIKE_THE_TUTORIAL = {TRAINED[0]: ("ray.gcs_fuse=true", "cluster.service_account=ksa-name")}
LIKE_THE_TUTORIAL[TRAINED[1]] = LIKE_THE_TUTORIAL[TRAINED[0]]


@pytest.mark.parametrize("preset", MANIFESTS)
def test_a_rayjob_differs_from_the_tutorials_only_with_a_reason(preset):
    stage = "finetune" if preset in TUNED else "pretrain"
    mine = sent(preset, *LIKE_THE_TUTORIAL.get(preset, ()))[stage]
    found = tutorials.differences(mine, theirs(MANIFESTS[preset])["RayJob"])
    reasons = ALWAYS | REASONS[preset]
    assert tutorials.without_reason(found, reasons) == []
    assert tutorials.without_difference(found, reasons) == []


@pytest.mark.parametrize("preset", TRAINED)
def test_the_interfaces_are_claimed_as_in_the_tutorial(preset):
    mine, other = sent(preset)["ResourceClaimTemplate"], theirs(MANIFESTS[preset])["ResourceClaimTemplate"]
    assert mine["spec"] == other["spec"]
    assert mine["apiVersion"] == other["apiVersion"]


# -- the programs' own settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", TRAINED)
def test_maxtext_is_told_what_the_tutorial_tells_it(preset):
    said = tutorials.arguments(word for word in entrypoint(preset) if "=" in word)
    order = ray_examples.environment(sent(preset)["pretrain"], "head")["POSTTRAIN_WORKLOAD"]
    command = ray_examples.Order.model_validate_json(order).workload.command
    mine = tutorials.arguments(command[command.index("--") + 1 :])
    ours = {"base_output_directory", "run_name"}
    assert len(said) > 7
    assert {key: mine.get(key) for key in said.keys() - ours} == {key: said[key] for key in said.keys() - ours}


def entrypoint(preset):
    """Words of the tutorial's command."""
    (found,) = [theirs(MANIFESTS[preset])["RayJob"]["spec"]["entrypoint"]]
    return shlex.split(shlex.split(found)[-1])


@pytest.mark.parametrize("preset", TUNED)
def test_fine_tuning_takes_the_tutorials_slice_and_one_worker_for_each_device(preset):
    text = theirs(MANIFESTS[preset])["RayJob"]["spec"]["entrypoint"]
    wanted = {
        word for word in shlex.split(text) if word.startswith(("--topology", "--accelerator-type", "--num-workers"))
    }
    order = ray_examples.environment(sent(preset)["finetune"], "head")["POSTTRAIN_WORKLOAD"]
    command = ray_examples.Order.model_validate_json(order).workload.command
    assert len(wanted) == 3
    assert {word.replace("--num-workers", "--workers") for word in wanted} <= set(command)


@pytest.mark.parametrize("preset", TUNED)
def test_fine_tuning_has_the_numbers_of_the_tutorials_script(preset):
    text = kubernetes_schemas.shared_file("seeds", "002_23611080f7ae2818.txt").read_text()
    chosen = config.load(preset)
    assert isinstance(chosen, RayFinetuneConfig)
    tune = chosen.finetune
    for line in (
        f'default="train[:{chosen.data.rows}]"',
        f"default={tune.epochs},",
        f"default={tune.batch_size_per_device},",
        f"max_seq_len = {tune.max_tokens}",
        f"lr={tune.learning_rate:.0e}".replace("e-05", "e-5") + f", weight_decay={tune.weight_decay}",
        f'default="{chosen.model.source.removeprefix("hf://")}"',
        f'"{chosen.data.source.removeprefix("hf://datasets/")}", split',
        f"text_model.{chosen.model.frozen[0]}.requires_grad_(False)",
        'f"{}"'.format(chosen.data.text.replace("{", "{x['").replace("}", "']}").replace("\n", "\\n")),
    ):
        assert line in text, line


def test_elastic_training_has_the_tutorials_bounds():
    chosen = config.load("llama3-8b-ray-elastic-spot")
    assert isinstance(chosen, RayPretrainConfig) and chosen.elastic
    order = ray_examples.environment(sent(chosen.preset)["pretrain"], "head")["POSTTRAIN_WORKLOAD"]
    command = ray_examples.Order.model_validate_json(order).workload.command
    assert {"--workers=8", "--least=4", "--max-failures=3", "--chips=4"} <= set(command)
