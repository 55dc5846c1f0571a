"""The serving check in a cluster: of the TPU presets placed on a slice of one host, which is played; of the tiny model
really run, from the image with vLLM, on the node that runs pods.
"""

import json

import pytest

from components import storage
from components.record import ArtifactRecord
from components.serve import job
from components.serve.judge import max_logprob_diff
from components.serve.prompts import prompts
from components.serve.spec import REPORT, Report
from components.sources.tiny import word_problems
from components.sources.tiny.make import WARM_QWEN3
from components.workloads import interpreter
from tests.cluster import harness, support
from tests.cluster.harness import REAL_POOL, Cluster, wait_until
from tests.cluster.support import Launcher


@pytest.fixture
def serving_image(cluster: Cluster) -> str:
    """The image images/serving, on the nodes: 5.6 GB, so only where vLLM's environment was wanted before."""
    if not interpreter.is_made("serving"):
        pytest.skip(f"vLLM's environment is not set up in {interpreter.IMAGES / 'serving'}")
    built = harness.image("serving")
    cluster.load(built)
    return built


@pytest.mark.parametrize("preset", ["gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"])
def test_the_check_is_one_pod_on_a_host_with_eight_chips(cluster, namespace, bucket, played_slice, tmp_path, preset):
    for other in ("v6e-16", "cpu"):  # which have room, but not the chips
        played_slice(other)
    plan = support.plan(bucket, namespace, preset, "serve.enabled=true")
    exported = ArtifactRecord(kind="hf-model", format="safetensors", data_uri=plan.stage_dir("export"))
    launcher = Launcher(plan, job.workload(plan, exported), cluster, tmp_path)
    try:
        launcher.says("created JobSet")
        pool = played_slice("v6e-8")
        wait_until(lambda: [p for p in support.pods(cluster, plan) if p["spec"].get("nodeName")], 60)
        (pod,) = support.pods(cluster, plan)
        assert pod["spec"]["nodeName"] == f"{pool}-0"
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"google.com/tpu": "8"}
    finally:
        launcher.process.kill()


def test_the_tiny_model_is_served_in_a_pod_as_transformers_computes_it(
    cluster, namespace, bucket, serving_image, tmp_path
):
    settings = [
        "serve.enabled=true",
        "serve.dtype=float32",
        f"cluster.cpu_pool={REAL_POOL}",
        "cluster.cpu_cores=1",
        f"cluster.images={{serving: {serving_image}}}",
        f"cluster.env={json.dumps(bucket.env)}",
    ]
    plan = support.plan(bucket, namespace, "tiny-qwen3", *settings)
    exported = ArtifactRecord(kind="hf-model", format="safetensors", data_uri=plan.stage_dir("export"))
    storage.copy_tree(WARM_QWEN3, exported.data_uri)
    texts = [row["question"] for row in word_problems.rows("eval", 12, 0)]
    asked = prompts(dict(zip(texts, texts, strict=True)), (WARM_QWEN3 / "template.json").read_text(), WARM_QWEN3)
    storage.write_text(job.questions_file(plan), "".join(question.model_dump_json() + "\n" for question in asked))

    ended = Launcher(plan, job.workload(plan, exported), cluster, tmp_path).result(900)
    assert "outcome" in ended, ended
    report = Report.model_validate_json(storage.read_bytes(storage.join(job.result_dir(plan), REPORT)))
    assert report.fault is None and report.answers
    assert len(report.compared) >= 12
    assert all(one.greedy == one.tokens for one in report.compared)
    assert max_logprob_diff(report.compared) < 1e-4
    assert all(answer.ended for answer in report.answers.at_once)
    assert support.pods(cluster, plan) == []
