"""The serving check of the TPU presets on a slice of one host, played: the API server and the scheduler are real."""

import pytest

from components.record import ArtifactRecord
from components.serve import job
from tests.cluster import support
from tests.cluster.harness import wait_until
from tests.cluster.support import Launcher


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
