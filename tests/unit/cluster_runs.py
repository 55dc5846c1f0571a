"""Runs and workloads for tests of the cluster's engines, against a played Kubernetes API."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import kubernetes_api
import pytest
from kubernetes_api import CORE, JOBSETS, QUEUE, KubernetesApi, Manifest
from played_jobsets import PlayedJobSet

from components import config, tpu
from components.plan import Plan
from components.workloads import jobset, launch, ledger, seen
from components.workloads.kinds import KINDS
from components.workloads.seen import Snapshot
from components.workloads.workload import Cpu, Order, Tpu, Workload

CPU = Cpu(cores=1, memory_gb=1)
PATHWAYS = Tpu(slice=tpu.parse("v6e-32"))


def plan(folder: Path, *settings: str, slices: bool = False) -> Plan:
    """A run with its places in `folder`, on a cluster that is looked at often."""
    found = config.load("tiny-qwen3", ["engine=jobset", "cluster.poll_s=0.1", "cluster.hf_secret=hf/token", *settings])
    if slices:
        found = found.model_copy(update={"tpu": config.TpuConfig(slice="v6e-32")})
    return Plan(
        run_id="tiny-0101-abcd",
        run_dir=str(folder / "run"),
        store=str(folder / "store"),
        config=found,
        config_sha256="0" * 64,
        code_version="test",
        model_revision="1" * 40,
        converted_id="2" * 64,
        started="2026-01-01T00:00:00Z",
        attempt_started="2026-01-01T00:00:00Z",
    )


def workload(needs: Cpu | Tpu = CPU, **facts: object) -> Workload:
    """The training of that run."""
    return Workload.model_validate(
        {"stage": "train", "run_id": "tiny-0101-abcd", "command": ("python", "-c", "1"), "needs": needs, **facts}
    )


def play(api: KubernetesApi, script: Callable[[PlayedJobSet], None]) -> None:
    """Lets `script` go on with every JobSet that is created. A script that fails takes its JobSet along."""

    def on_create(manifest: Manifest) -> None:
        made = PlayedJobSet(api, manifest)
        try:
            script(made)
        except BaseException:
            made.is_gone()
            raise

    api.on_create = on_create


def states(the_plan: Plan) -> list[str]:
    """How the attempts at the training stand, oldest first."""
    ends = [ledger.closed(attempt) for attempt in ledger.attempts(the_plan.stage_dir("train"))]
    return [end.state if end else "open" for end in ends]


def succeed(jobset: PlayedJobSet) -> None:
    """A script: two lines of output, then a good end."""
    jobset.runs("step 1", "step 2")
    jobset.succeeds()


def jobsets(api: KubernetesApi) -> list[Manifest]:
    """The JobSets that there are."""
    return api.all(f"{JOBSETS}/jobsets")


def played(api: KubernetesApi) -> PlayedJobSet:
    """The one JobSet that there is."""
    (manifest,) = jobsets(api)
    return PlayedJobSet(api, manifest)


def created(needs: Cpu | Tpu = CPU, **labels: str) -> PlayedJobSet:
    """A JobSet that lies on a server which nobody asks, for what only reads a `Snapshot`."""
    order = Order(workload=workload(needs), name="train-0123456789", directory="gs://bucket/run", silence_s=900.0)
    tpu_config = config.TpuConfig(slice="v6e-32")
    manifest = jobset.manifest(order, config.ClusterConfig(hf_secret="hf/token"), tpu_config)
    manifest["metadata"]["labels"] |= labels
    api = KubernetesApi()
    return PlayedJobSet(api, api.put(f"{JOBSETS}/jobsets", manifest))


def shown(made: PlayedJobSet) -> Snapshot:
    """What a look at it shows."""
    kind, (manifest,) = KINDS["jobset"], jobsets(made.api)
    entries = made.api.all(f"{QUEUE}/workloads")
    return Snapshot(
        kind=kind,
        manifest=manifest,
        pods=seen.pods_from(made.pods(), kind, manifest),
        events=seen.events_from(made.api.all(f"{CORE}/events")),
        queue=tuple(entries[0]["status"]["conditions"]) if entries else (),
    )


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[KubernetesApi]:
    """An API server that the kubeconfig of this process leads to."""
    with kubernetes_api.serve() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(folder / "kubeconfig")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield api


def launcher(file: str, kubeconfig: str) -> None:
    """What a launcher's process does: runs the workload of the run that lies in `file`, and writes down what it says."""
    os.environ["KUBECONFIG"] = kubeconfig  # the server of processes has the environment of its first use
    sys.stdout = sys.stderr = Path(file).with_suffix(".said").open("a", buffering=1)
    run_here(file)


def run_here(file: str) -> None:
    """Runs the workload of the run that lies in `file`."""
    the_plan = Plan.read(file)
    launch.run(the_plan, workload(run_id=the_plan.run_id), lambda line: print(line, flush=True))


def start_launcher(the_plan: Plan, file: Path) -> multiprocessing.process.BaseProcess:
    """Starts a launcher in a process of its own; what it says is in `file` with the ending .said."""
    file.write_text(the_plan.model_dump_json())
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["cluster_runs", "kubernetes.client", "components.workloads.jobset"])
    process = processes.Process(target=launcher, args=(str(file), os.environ["KUBECONFIG"]))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # where it finds what it is to have loaded
        process.start()
    return process
