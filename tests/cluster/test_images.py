"""The images, built from the Dockerfiles and run in pods as the manifests run them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components import storage
from components.workloads.workload import HEARTBEAT, LOG, ORDER_VARIABLE, OUTCOME, Order, PodOutcome, Workload
from tests.cluster import harness
from tests.cluster.harness import REAL_POOL, ROOT, Bucket, Cluster, wait_until


def run_pod(
    cluster: Cluster, namespace: str, image: str, command: list[str], *, env: dict[str, str] | None = None, **spec: Any
) -> str:
    """Runs a command in a pod of an image, as no root and with no rights; returns what it printed. It must succeed."""
    container = {
        "name": "main",
        "image": image,
        "command": command,
        "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
        "workingDir": "/tmp",
        "securityContext": {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "it"},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"cloud.google.com/gke-nodepool": REAL_POOL},
            "containers": [container],
            **spec,
        },
    }
    cluster.apply(pod, "-n", namespace)
    phase = ("get", "pod", "it", "-n", namespace, "-o", "jsonpath={.status.phase}")
    wait_until(lambda: cluster.kubectl(*phase) in ("Succeeded", "Failed"), 120)
    said = cluster.kubectl("logs", "it", "-n", namespace)
    assert cluster.kubectl(*phase) == "Succeeded", said
    return said


def test_the_launcher_image_has_the_command(cluster, namespace, launcher_image):
    said = run_pod(cluster, namespace, launcher_image, ["python3", "-m", "pipelines.cli", "presets"])
    assert "tiny-qwen3" in said


def test_a_pod_of_the_launcher_image_reaches_its_cluster_with_the_rights_of_its_account(
    cluster, namespace, launcher, launcher_image
):
    program = f"""
from components.config import ClusterConfig
from components.workloads import api, kube
client = kube.connect(ClusterConfig())
print(api.request(client, "GET", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets", patience_s=10)["items"])
try:
    api.request(client, "GET", "/api/v1/namespaces/{namespace}/secrets", patience_s=10)
except api.Refused as refused:
    print(refused.status)
"""
    said = run_pod(cluster, namespace, launcher_image, ["python3", "-c", program], serviceAccountName=launcher)
    assert said.split() == ["[]", "403"]


@pytest.fixture(params=["image", "launcher_image"])
def either(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_an_image_says_which_code_it_has(cluster, namespace, either):
    program = "from components.record import code_version; print(code_version())"
    said = run_pod(cluster, namespace, either, ["python3", "-c", program]).strip()
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", said)
    assert contents(either)["config"]["Labels"]["org.opencontainers.image.revision"] == said


def test_a_pod_carries_out_an_order_and_stores_what_came_of_it(cluster, namespace, image, bucket: Bucket):
    directory = storage.join(bucket.uri, "attempt")
    workload = Workload(
        stage="train", run_id="r", command=("python", "-c", "print('the work')"), marker="the work", deadline_s=60
    )
    order = Order(workload=workload, name="it", directory=directory, silence_s=60)
    storage.write_text(storage.join(directory, HEARTBEAT), "1")
    env = {**bucket.env, ORDER_VARIABLE: order.model_dump_json()}
    said = run_pod(cluster, namespace, image, ["python3", "-m", "components.workloads.inside"], env=env)
    assert "the work" in said
    outcome = PodOutcome.model_validate_json(storage.read_text(storage.join(directory, OUTCOME)))
    assert outcome.succeeded and outcome.name == "it"
    assert "the work" in storage.read_text(storage.join(directory, LOG))


def test_a_large_file_travels_in_pieces_between_a_pod_and_this_machine(cluster, namespace, image, bucket: Bucket):
    # large enough for an upload in several requests, whose address the server itself tells the client
    program = f"""
from components import storage
open("/tmp/large", "wb").write(b"x" * 40_000_000)
storage.copy_file("/tmp/large", "{bucket.uri}/large")
print(storage.crc32c("/tmp/large"), storage.crc32c("{bucket.uri}/large"))
"""
    here, there = run_pod(cluster, namespace, image, ["python3", "-c", program], env=bucket.env).split()
    assert here == there == storage.crc32c(storage.join(bucket.uri, "large"))


def test_the_training_image_is_its_base_with_the_package_on_top(cluster, image):
    built = harness.image("training", "--build-arg", f"BASE={image}", "--build-arg", "NEEDS_TPU=")
    below, above = (contents(name)["rootfs"]["diff_ids"] for name in (image, built))
    assert above[: len(below)] == below


def test_a_base_without_what_training_needs_of_a_tpu_is_not_built_on(cluster, image):
    with pytest.raises(AssertionError, match="vllm"):
        harness.image("training", "--build-arg", f"BASE={image}")


@pytest.fixture
def checkout(cluster: Cluster, launcher_image: str, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A checkout of its own below `tmp_path`; called, it builds its launcher image and returns its name."""
    for name in ("components", "pipelines", "configs", "images"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
    for name in ("pyproject.toml", ".dockerignore"):
        shutil.copy2(ROOT / name, tmp_path)
    name = f"localhost/posttrain-launcher:{tmp_path.name.lower()}"
    command = [str(tmp_path / "images" / "build"), "--tag", name.partition(":")[2], "launcher"]

    def build() -> str:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == name
        return name

    yield build
    subprocess.run(["buildah", "rmi", name], check=True, capture_output=True)


def test_a_change_of_the_code_leaves_the_layer_of_the_dependencies_alone(checkout, tmp_path):
    before = made(checkout())
    (tmp_path / "components" / "changed.py").write_text("")
    after = made(checkout())
    code = next(i for i, (step, _) in enumerate(before) if "COPY" in step and "components" in step)
    assert any("uv pip install" in step for step, _ in before[:code])
    assert before[:code] == after[:code]
    assert before[code] != after[code]


def test_nothing_of_a_checkout_but_the_package_gets_into_an_image(checkout, tmp_path):
    planted = [
        ".env",
        "runs/log.txt",
        "components/.env",
        "configs/.cache/x",
        "configs/cluster/x.yaml",
        "images/launcher/key",
    ]
    for name in planted:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("sentinel-of-a-checkout")
    (tmp_path / "components" / "seen.py").write_text("# sentinel-of-a-checkout\n")
    container = run("buildah", "from", checkout())
    try:
        grep = ("grep", "--recursive", "--files-with-matches", "sentinel-of-a-checkout", "/opt/posttrain", "/home")
        found = run("buildah", "run", "--isolation", "chroot", container, "--", *grep)
    finally:
        run("buildah", "rm", container)
    assert found == "/opt/posttrain/components/seen.py"


def made(image: str) -> list[tuple[str, str]]:
    """The steps of an image with the time at which each was made: a step that was not made again keeps its time."""
    return [(step["created_by"], step["created"]) for step in contents(image)["history"]]


def contents(image: str) -> Any:
    """The OCI configuration of an image."""
    return json.loads(run("buildah", "inspect", "--type", "image", image))["OCIv1"]


def run(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} looks into images, and is not installed")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
