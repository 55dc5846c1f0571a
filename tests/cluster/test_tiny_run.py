"""The whole pipeline in pods, as a user would have it: the launcher under the shipped rights, every workload a JobSet, all
data in Cloud Storage, the Hugging Face token in a Secret.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components import storage
from components.results import RunRecord
from components.workloads import names
from tests.cluster import harness
from tests.cluster.harness import REAL_POOL, Bucket, Cluster, wait_until

TOKEN = "hf_SENTINEL_OF_THE_TINY_RUN"
SIGNS = (TOKEN.encode(), base64.b64encode(TOKEN.encode()))
HOME = "/home/run"
LIMIT_S = 900


@pytest.fixture
def training_image(cluster: Cluster, image: str) -> str:
    """images/training on the base that a machine without TPU has, on the nodes."""
    built = harness.image("training", "--build-arg", f"BASE={image}", "--build-arg", "NEEDS_TPU=")
    cluster.load(built)
    return built


class Witness:
    """What is to be seen of a namespace and of this machine's processes while the block runs.

    Attributes:
      objects: each state of each JobSet, Job and pod, as JSON.
      arguments: of all processes, those in pods of this machine too.
      holders: arguments of the processes that have the token in their environment.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.objects: list[str] = []
        self.arguments: set[bytes] = set()
        self.holders: set[bytes] = set()
        self._over = threading.Event()
        self._watches = [
            subprocess.Popen(
                ["kubectl", "get", resource, "-n", namespace, "--watch", "--output-watch-events", "-o", "json"],
                stdout=subprocess.PIPE,
                text=True,
                env=cluster.env,
            )
            for resource in ("jobsets", "jobs", "pods")
        ]

    def __enter__(self) -> Witness:
        for watch in self._watches:
            assert watch.stdout
            threading.Thread(target=self.objects.extend, args=(watch.stdout,), daemon=True).start()
        threading.Thread(target=self._look_at_processes, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for watch in self._watches:
            watch.kill()

    def stages(self) -> set[str]:
        """The stages whose JobSets were there."""
        events = (json.loads(text)["object"] for text in self.objects)
        return {seen["metadata"]["labels"][names.STAGE] for seen in events if seen["kind"] == "JobSet"}

    def _look_at_processes(self) -> None:
        while not self._over.wait(0.3):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):  # it has ended
                    arguments = (process / "cmdline").read_bytes()
                    self.arguments.add(arguments)
                    if SIGNS[0] in (process / "environ").read_bytes():
                        self.holders.add(arguments)


@pytest.fixture
def witness(cluster: Cluster, namespace: str) -> Iterator[Witness]:
    with Witness(cluster, namespace) as seen:
        yield seen


def launcher_pod(image: str, account: str, bucket: Bucket, settings: list[str]) -> dict[str, Any]:
    """A pod that conducts the run; beside it a container that keeps its home, to be looked at."""
    arguments = [part for setting in settings for part in ("--set", setting)]
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-secret", "key": "hf_api_token"}}}
    home = {"workingDir": HOME, "volumeMounts": [{"name": "home", "mountPath": HOME}]}
    run = ["python3", "-m", "pipelines.cli", "run", "tiny-qwen3", "--store", f"{bucket.uri}/store", *arguments]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "launcher"},
        "spec": {
            "serviceAccountName": account,
            "restartPolicy": "Never",
            "nodeSelector": {"cloud.google.com/gke-nodepool": REAL_POOL},
            "securityContext": {"runAsNonRoot": True, "fsGroup": 1000},
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "home", "emptyDir": {}}],
            "containers": [
                {
                    "name": "launcher",
                    "image": image,
                    "command": run,
                    "env": [token, *({"name": name, "value": value} for name, value in bucket.env.items())],
                    **home,
                },
                {"name": "keeper", "image": image, "command": ["sleep", "infinity"], **home},
            ],
        },
    }


def test_the_tiny_model_is_promoted_and_its_token_is_nowhere(
    cluster, namespace, launcher, bucket, image, launcher_image, training_image, witness
):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf-secret"}, "stringData": {}}
    secret["stringData"]["hf_api_token"] = TOKEN
    cluster.apply(secret, "-n", namespace)
    settings = [
        "engine=jobset",
        "train.steps=30",  # enough for a difference of thirty points
        f"cluster.namespace={namespace}",
        "cluster.service_account=posttrain-workload",
        "cluster.hf_secret=hf-secret/hf_api_token",
        f"cluster.cpu_pool={REAL_POOL}",
        "cluster.cpu_cores=1",
        "cluster.poll_s=2",
        f"cluster.images={{training: {training_image}, converter: {image}}}",
        f"cluster.env={json.dumps(bucket.env)}",
    ]
    cluster.apply(launcher_pod(launcher_image, launcher, bucket, settings), "-n", namespace)
    status = ("get", "pod", "launcher", "-n", namespace, "-o")
    ended = "jsonpath={.status.containerStatuses[?(@.name=='launcher')].state.terminated.exitCode}"
    wait_until(lambda: cluster.kubectl(*status, ended), LIMIT_S)
    said = cluster.kubectl("logs", "launcher", "-c", "launcher", "-n", namespace)
    assert cluster.kubectl(*status, ended) == "0", said

    files = {name: storage.read_bytes(storage.join(bucket.uri, name)) for name, _ in storage.list_files(bucket.uri)}
    (record_file,) = (name for name in files if name.endswith("/run.json"))
    record = RunRecord.model_validate_json(files[record_file])
    assert record.status == "succeeded"
    assert record.evaluation and record.evaluation.verdict == "PROMOTE"
    places = [artifact["uri"] for stage in record.stages for artifact in stage.artifacts.values()]
    assert len(places) >= 6 and all(place.startswith(bucket.uri) for place in places), places
    assert files[record_file.replace("run.json", "report.html")].startswith(b"<!DOCTYPE html>")
    assert witness.stages() == {"convert", "train", "evaluate", "export"}
    assert cluster.json("get", "jobsets", "-n", namespace)["items"] == []

    everything = {f"file {name}": data for name, data in files.items()}
    everything |= {f"arguments {text!r}": text for text in witness.arguments}
    everything |= {f"state {text[:200]}": text.encode() for text in witness.objects}
    everything |= {"launcher's log": said.encode(), "objects": objects_but_secrets(cluster, namespace)}
    everything |= {"launcher's home": home_of_launcher(cluster, namespace)}
    assert b"pipeline.yaml" in everything["launcher's home"]
    assert any(name.endswith("/logs/main-job-workload-container.txt") for name in files)
    assert [where for where, data in everything.items() if any(sign in data for sign in SIGNS)] == []
    if cluster.ours:  # whose pods are processes of this machine
        assert any(b"components.workloads.inside" in text for text in witness.arguments)
        assert any(b"train_rl" in text for text in witness.holders)
        assert any(b"pipelines.cli" in text for text in witness.holders)


def objects_but_secrets(cluster: Cluster, namespace: str) -> bytes:
    """All objects of a namespace that the API server gives, as text."""
    kinds = cluster.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    kinds.remove("secrets")
    return cluster.kubectl("get", ",".join(kinds), "-n", namespace, "-o", "yaml").encode()


def home_of_launcher(cluster: Cluster, namespace: str) -> bytes:
    """All files of the launcher's home, as an archive that is not compressed."""
    packed = ["kubectl", "exec", "launcher", "-c", "keeper", "-n", namespace, "--", "tar", "-c", "-C", HOME, "."]
    return subprocess.run(packed, check=True, capture_output=True, env=cluster.env).stdout
