"""Every RayJob that the project can send is one that KubeRay and Kubernetes take, and says what the workload needs."""

import copy
import json
import re
from pathlib import Path

import kubernetes_schemas
import pytest
import ray_examples
from ray_examples import CRDS, PRESETS, SHAPES, container, environment, judged, manifest, sent, templates, variants

from components import config
from components.config import ClusterConfig
from components.workloads import rayjob
from components.workloads.rayjob import build
from components.workloads.workload import ORDER_VARIABLE, Order, Ray

IMAGES = Path(__file__).parents[2] / "images"
IRONWOOD = ("two devices a chip", "gemma4-e2b-ray-tpu7x-16")


def crds(of: str) -> tuple[str, ...]:
    """The versions of KubeRay that a shape or a preset is for."""
    return CRDS[1:] if of in IRONWOOD else CRDS


def leaves(value, path=()):
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path, value


# -- judges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_every_variant_passes_the_schemas(shape):
    assert judged(variants(shape), crds(shape)) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_manifest_says_nothing_empty_but_ray_parameters(shape):
    found = [path for one in variants(shape) for path, value in leaves(one) if value in (None, "", {}, [])]
    assert {path[-1] for path in found} <= {"rayStartParams"}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("overrides", [(), ("cluster.queue=q", "cluster.service_account=me", "ray.gcs_fuse=true")])
def test_what_a_preset_sends_passes_the_schemas(preset, overrides):
    found = sent(preset, *overrides)
    templates_of_claims = [one for one in found.values() if one["kind"] == "ResourceClaimTemplate"]
    jobs = [one for one in found.values() if one["kind"] == "RayJob"]
    assert judged(jobs, crds(preset)) == []
    assert [
        problem
        for job in jobs
        for problem in kubernetes_schemas.crd_problems(ray_examples.ray_cluster(job), ray_examples.CLUSTER_CRD)
    ] == []
    assert all(kubernetes_schemas.kubernetes_problems([one], "1.35") == [] for one in templates_of_claims)


def test_only_ironwood_needs_a_kuberay_that_knows_the_resources_of_a_group():
    for preset in PRESETS:
        problems = judged([one for one in sent(preset).values() if one["kind"] == "RayJob"], CRDS[:1])
        assert bool(problems) is (preset in IRONWOOD)
        assert all("'resources' was unexpected" in problem for problem in problems)


WORKER = ("spec", "rayClusterSpec", "workerGroupSpecs", 0)
POD = (*WORKER, "template", "spec")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "submissionModes"), "K8sJobMode"),
        (("spec", "backoffLimit"), "0"),
        ((*WORKER, "numOfHost"), 4),
        ((*WORKER, "replicas"), "1"),
        ((*POD, "nodeSelectors"), {}),
        ((*POD, "containers", 0, "resources", "limits", "memory"), "much"),
        ((*POD, "resourceClaims"), [{"names": "x"}]),
    ],
)
def test_the_judges_refuse_a_fault_anywhere(path, value):
    broken = copy.deepcopy(manifest("elastic slices"))
    node = broken
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    assert judged([manifest("elastic slices")]) == []
    assert judged([broken]) != []


# -- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_the_head_and_nobody_else_has_the_order(shape):
    wanted = ray_examples.order(SHAPES[shape])
    job = manifest(shape)
    read = environment(job, "head")[ORDER_VARIABLE].replace("$$", "$")  # as Kubernetes hands it over
    assert Order.model_validate_json(read) == wanted
    others = [environment(job, role) for role in templates(job) if role != "head"]
    assert all(ORDER_VARIABLE not in variables for variables in others)


def test_a_workload_without_ray_is_a_head_alone_on_the_machine_that_it_asks_for():
    job = manifest("no workers")
    assert "workerGroupSpecs" not in job["spec"]["rayClusterSpec"]
    assert container(job, "head")["resources"] == {
        "requests": {"cpu": "2", "memory": "4500M"},
        "limits": {"memory": "4500M"},
    }
    (scratch,) = templates(job)["head"]["spec"]["volumes"]
    assert scratch["emptyDir"]["sizeLimit"] == "20G"


@pytest.mark.parametrize(
    ("shape", "replicas", "least", "hosts"),
    [
        ("workers without chips", 2, 1, 1),
        ("a slice", 1, 1, 4),
        ("two devices a chip", 1, 1, 2),
        ("elastic slices", 4, 2, 4),
    ],
)
def test_a_replica_is_a_whole_slice(shape, replicas, least, hosts):
    (group,) = manifest(shape)["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    counts = (group["replicas"], group["minReplicas"], group["maxReplicas"], group["numOfHosts"])
    assert counts == (replicas, least, replicas, hosts)
    needs = SHAPES[shape]
    assert isinstance(needs, Ray) and needs.workers == replicas * hosts


@pytest.mark.parametrize("shape", [shape for shape, needs in SHAPES.items() if isinstance(needs, Ray) and needs.slice])
def test_workers_on_chips_ask_for_all_chips_of_a_host_of_that_slice(shape):
    job, slice_ = manifest(shape, capacity="spot"), SHAPES[shape].slice
    worker, spec = container(job, "workers"), templates(job)["workers"]["spec"]
    for side in ("requests", "limits"):
        assert worker["resources"][side]["google.com/tpu"] == str(slice_.chips_per_host)
    assert spec["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": slice_.accelerator,
        "cloud.google.com/gke-tpu-topology": slice_.topology,
        "cloud.google.com/gke-spot": "true",
    }
    assert {toleration["key"] for toleration in spec["tolerations"]} == {"google.com/tpu", "cloud.google.com/gke-spot"}


def test_ray_is_told_of_both_devices_of_a_chip_where_there_are_two():
    ironwood, trillium = manifest("two devices a chip"), manifest("a slice")
    (group,) = ironwood["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["resources"] == {"TPU": "8"}
    for role, expected in (("head", "2"), ("workers", "2"), ("submitter", None)):
        assert environment(ironwood, role).get("RAY_TPU_RESOURCE_PER_CHIP") == expected
        assert "RAY_TPU_RESOURCE_PER_CHIP" not in environment(trillium, role)


def test_the_interfaces_that_workers_claim_are_described_before():
    order = ray_examples.order(SHAPES["elastic slices"])
    (template,) = rayjob.companions(order)
    spec = templates(manifest("elastic slices"))["workers"]["spec"]
    (claim,) = spec["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert container(manifest("elastic slices"), "workers")["resources"]["claims"] == [{"name": claim["name"]}]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 2
    assert rayjob.companions(ray_examples.order(SHAPES["a slice"])) == []


def test_the_bucket_is_a_folder_of_head_and_workers():
    job = manifest("elastic slices")
    for role in ("head", "workers"):
        template = templates(job)[role]
        assert template["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
        assert {"name": "bucket", "mountPath": "/gcs/my-bucket"} in container(job, role)["volumeMounts"]
    assert "annotations" not in templates(job)["submitter"]["metadata"]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_pod_says_whose_it_is(shape):
    for template in templates(manifest(shape, "everything")).values():
        labels = template["metadata"]["labels"]
        assert labels["posttrain.dev/object"] == "finetune-0123456789"
        assert labels["posttrain.dev/stage"] == "finetune"
        assert template["spec"]["serviceAccountName"] == "posttrain-workload"
        assert template["spec"]["priorityClassName"] == "high"


def test_the_queue_is_that_of_the_configuration():
    assert manifest("a slice", "everything")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "user-queue"
    assert "kueue.x-k8s.io/queue-name" not in manifest("a slice")["metadata"]["labels"]


def test_the_job_is_not_tried_again_and_leaves_no_ray_cluster():
    spec = manifest("a slice", deadline_s=600.5)["spec"]
    assert (spec["backoffLimit"], spec["shutdownAfterJobFinishes"]) == (0, True)
    assert "ttlSecondsAfterFinished" not in spec  # the Ray cluster, and its slice, are let go at once
    assert spec["activeDeadlineSeconds"] == 601 + 3600


@pytest.mark.parametrize("preset", PRESETS)
def test_a_token_in_the_launchers_environment_is_in_nothing_that_a_preset_sends(preset, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_SENTINELSENTINELSENTINEL")
    found = sent(preset, "cluster.hf_secret=hf-secret/token")
    assert "SENTINEL" not in json.dumps(found)
    assert "HF_TOKEN" not in json.dumps(found)  # what the programs read was fetched before they start


@pytest.mark.parametrize("image", ["ray-torchtpu", "ray-maxtext"])
def test_the_ray_of_the_manifest_is_that_of_the_images(image):
    assert f"\nray=={build.RAY_VERSION} \\\n" in (IMAGES / image / "requirements.txt").read_text()


@pytest.mark.parametrize("image", ["ray-torchtpu", "ray-maxtext"])
def test_the_locks_pin_every_package_with_hashes_and_name_no_host(image):
    text = (IMAGES / image / "requirements.txt").read_text()
    packages = [line for line in text.splitlines() if not line.startswith(("    ", "#"))]
    assert len(packages) > 100 and all(re.fullmatch(r"\S+==\S+ \\", line) for line in packages)
    assert "://" not in text


def test_maxtext_in_the_image_is_the_one_whose_settings_presets_are_checked_against():
    from components import maxtext_schema

    lock = (IMAGES / "ray-maxtext" / "requirements.txt").read_text()
    assert f"\nmaxtext=={maxtext_schema.installed().version} \\\n" in lock


def test_images_are_those_of_the_configuration():
    chosen = config.load("gemma4-e2b-ray-v6e-16", ["cluster.images={ray-torchtpu: mine:1}"])
    order = ray_examples.order(SHAPES["a slice"])
    job = rayjob.manifest(order, chosen.cluster, chosen.tpu)
    assert {container(job, role)["image"] for role in templates(job)} == {"mine:1"}
    assert container(rayjob.manifest(order, ClusterConfig(), chosen.tpu), "head")["image"].startswith("localhost/")
