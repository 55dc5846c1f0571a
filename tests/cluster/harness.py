"""A Kubernetes cluster to test against, and what the tests do to it that a user would not."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.cluster.node_images import Node

ROOT = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("CLUSTER_TOOLS") or ROOT.parent / "shared" / "tools" / "cluster")
HOME = Path(os.environ.get("CLUSTER_HOME") or Path.home() / ".cache" / "real-cluster")
RUN = HOME / "run"
REAL_POOL = "this-machine"
"""The node pool whose pods really run: the node's label cloud.google.com/gke-nodepool."""


class Bucket(NamedTuple):
    """An empty bucket: its gs:// address, and the environment that leads a process, here or in a pod, to its server."""

    uri: str
    env: dict[str, str]


@dataclass(frozen=True)
class Cluster:
    """A cluster that answers. `ours`: the one-machine cluster of CLUSTER_TOOLS, whose parts can be stopped, whose
    nodes can be played and whose API server cannot be anything of value.
    """

    kubeconfig: str
    ours: bool

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Returns what `kubectl` prints. A failure is an AssertionError with what it says."""
        done = self.try_kubectl(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {shlex.join(arguments)}: {done.stderr}"
        return done.stdout

    def try_kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs `kubectl` whether it fails or not."""
        return subprocess.run(
            ["kubectl", *arguments], input=stdin, capture_output=True, text=True, env=self.env, check=False
        )

    def json(self, *arguments: str) -> Any:
        """Returns what `kubectl ... -o json` prints, parsed."""
        return json.loads(self.kubectl(*arguments, "-o", "json"))

    def apply(self, manifest: str | dict[str, Any], *options: str) -> None:
        """Applies a manifest, as YAML or as an object; the options are those of `kubectl apply`."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self.kubectl("apply", "-f", "-", *options, stdin=text)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a process that is to find the cluster and its programs."""
        return {**os.environ, "KUBECONFIG": self.kubeconfig, "PATH": f"{HOME / 'bin'}:{os.environ['PATH']}"}

    @contextlib.contextmanager
    def without(self, part: str) -> Iterator[None]:
        """Kills a part of the cluster (apiserver, jobset, scheduler, kueue, ...) and starts it again after the block."""
        if not self.ours:
            pytest.skip("only the cluster of CLUSTER_TOOLS can have its parts stopped")
        pid_file = RUN / "pids" / part
        process = psutil.Process(int(pid_file.read_text()))
        command, directory, environment = process.cmdline(), process.cwd(), process.environ()
        process.kill()
        wait_until(lambda: _has_ended(process), 10)
        try:
            yield
        finally:
            with (RUN / "logs" / f"{part}.log").open("a") as log:
                inside = ["nsenter", "--net=/run/netns/real-cluster", *command]
                started = subprocess.Popen(
                    inside, stdout=log, stderr=log, cwd=directory, env=environment, start_new_session=True
                )
            pid_file.write_text(str(started.pid))
            wait_until(lambda: self.try_kubectl("get", "--raw=/readyz").returncode == 0, 60)
            wait_until(self._controllers_work, 120)

    def _controllers_work(self) -> bool:
        """Whether a new JobSet soon gets its pod: its controller, that of Jobs and all webhooks have their connections."""
        name = f"probe-{uuid.uuid4().hex[:8]}"
        pod = {"restartPolicy": "Never", "nodeSelector": {"no": "node"}, "containers": [{"name": "c", "image": "none"}]}
        job = {"name": "job", "template": {"spec": {"template": {"spec": pod}}}}
        jobset = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name},
            "spec": {"replicatedJobs": [job]},
        }
        self.try_kubectl("create", "-f", "-", stdin=json.dumps(jobset))
        made = ("get", "pods", "-l", f"jobset.sigs.k8s.io/jobset-name={name}", "-o", "name")
        try:
            wait_until(lambda: self.try_kubectl(*made).stdout, 5)
        except AssertionError:
            return False
        finally:
            self.try_kubectl("delete", "jobset", name, "--ignore-not-found", "--wait=false")
        return True

    @contextlib.contextmanager
    def namespace(self) -> Iterator[str]:
        """Makes a namespace; it and all in it is gone soon after the block."""
        name = f"test-{uuid.uuid4().hex[:8]}"
        self.kubectl("create", "namespace", name)
        wait_until(lambda: self.try_kubectl("get", "serviceaccount", "default", "-n", name).returncode == 0, 30)
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false")

    def load(self, image: str) -> None:
        """Hands an image of this machine to the nodes, unless they have it."""
        given = os.environ.get("POSTTRAIN_TEST_LOAD")
        if given:
            subprocess.run([*shlex.split(given), image], check=True, env=self.env, capture_output=True)
        elif not self.ours:
            pytest.skip("set POSTTRAIN_TEST_LOAD to what loads an image, such as 'kind load docker-image --name NAME'")
        elif not (node := Node(HOME)).has(image):
            node.load(image)


def _has_ended(process: psutil.Process) -> bool:
    """Whether no thread of a process that was killed is left, so that its ports are free. Nobody may have waited for it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() == 1
    return True


def image(name: str, *options: str) -> str:
    """Builds an image of `images/` and returns its name, which tells its content: the same sources, the same name."""
    sources = [ROOT / "pyproject.toml", *(ROOT / "configs").glob("*.yaml")]
    for folder in ("components", "pipelines", f"images/{name}"):
        sources += [p for p in (ROOT / folder).rglob("*") if p.is_file() and not {"__pycache__", ".venv"} & {*p.parts}]
    digest = hashlib.sha256(repr(options).encode())
    for path in sorted(sources):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    tag = digest.hexdigest()[:12]
    command = [str(ROOT / "images" / "build"), "--tag", tag, *options, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def rbac(namespace: str, *files: str) -> str:
    """The shipped manifests of access for a namespace, as the comment at their top says to make them."""
    return "\n---\n".join((ROOT / "configs" / "cluster" / f).read_text().replace("NAMESPACE", namespace) for f in files)


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    """Waits for a condition; AssertionError when it does not come."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds} s in vain"
        time.sleep(0.2)


def problem(kubeconfig: str) -> str | None:
    """Why the cluster of a kubeconfig cannot be tested against, or None."""
    cluster = Cluster(kubeconfig, ours=False)
    if shutil.which("kubectl", path=cluster.env["PATH"]) is None:
        return "kubectl is not installed"
    if cluster.try_kubectl("get", "--raw=/readyz", "--request-timeout=5s").returncode:
        return f"the cluster of KUBECONFIG={kubeconfig} does not answer"
    if cluster.try_kubectl("get", "crd", "jobsets.jobset.x-k8s.io").returncode:
        return f"the cluster of KUBECONFIG={kubeconfig} has no JobSet"
    return None


def can_start() -> bool:
    """Whether this machine can start a cluster: .ci/cluster has built its programs, and it takes root."""
    return (TOOLS / "up").exists() and (HOME / "bin" / "kwok").exists() and os.geteuid() == 0
