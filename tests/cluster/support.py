"""Runs and launchers for tests on a real cluster: a launcher is a process of its own, which can be killed and stopped."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components import config, storage
from components.errors import UserError, WorkloadError
from components.plan import AnyPlan, Plan
from components.prepare import prepare
from components.workloads import names
from components.workloads.workload import ORDER_VARIABLE, Order, Workload
from tests.cluster.harness import Bucket, Cluster, wait_until

_PRELOADED = ["components.workloads.launch", "components.workloads.jobset", "kubernetes.client", "google.cloud.storage"]


def plan(bucket: Bucket, namespace: str, preset: str, *settings: str) -> Plan:
    """A run of a preset that has not begun, with its places in a bucket and its pods in a namespace."""
    found = config.load(preset, ["engine=jobset", f"cluster.namespace={namespace}", "cluster.poll_s=2", *settings])
    run_id, store = prepare.new_run_id(preset), storage.join(bucket.uri, "store")
    return Plan(
        run_id=run_id,
        run_dir=storage.join(store, "runs", run_id),
        store=store,
        config=found,
        config_sha256=found.sha256(),
        code_version="test",
        model_revision="1" * 40,
        converted_id=prepare.converted_id(found, "1" * 40),
        started="2026-01-01T00:00:00Z",
        attempt_started="2026-01-01T00:00:00Z",
    )


class Launcher:
    """A launcher in a process of its own.

    Args:
      the_plan, workload: what it runs.
      cluster: where.
      folder: of this machine, for what it says; one launcher after another may have the same.
    """

    def __init__(self, the_plan: AnyPlan, workload: Workload, cluster: Cluster, folder: Path) -> None:
        self._said = folder / f"{the_plan.run_id}-{workload.stage}.said"
        self._result = folder / f"{the_plan.run_id}-{workload.stage}.result"
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload(_PRELOADED)
        # the server of processes has the environment of its first use
        environment = {**os.environ, "KUBECONFIG": cluster.kubeconfig}
        arguments = (the_plan.model_dump_json(), workload.model_dump_json(), self._said, self._result, environment)
        self.process = processes.Process(target=_launch, args=arguments, daemon=True)
        self.process.start()

    @property
    def said(self) -> str:
        """All that the launchers of this workload have said."""
        return self._said.read_text() if self._said.exists() else ""

    def says(self, text: str, seconds: float = 60) -> None:
        """Waits until it has said a text."""
        try:
            wait_until(lambda: text in self.said or not self.process.is_alive(), seconds)
        finally:
            assert text in self.said, f"{text!r} is not in:\n{self.said}"

    def result(self, seconds: float = 120) -> dict[str, Any]:
        """Waits for its end. Returns its `outcome`, or `reason` and `evidence` of its failure."""
        self.process.join(seconds)
        assert self.process.exitcode == 0, f"exit code {self.process.exitcode}:\n{self.said}"
        found: dict[str, Any] = json.loads(self._result.read_text())
        return found


def _launch(plan_json: str, workload_json: str, said: Path, result: Path, environment: Mapping[str, str]) -> None:
    """What a launcher's process does."""
    from components.workloads import launch

    os.environ.update(environment)
    sys.stdout = sys.stderr = said.open("a", buffering=1)
    try:
        outcome = launch.run(AnyPlan.parse(plan_json), Workload.model_validate_json(workload_json, strict=False), print)
        end: dict[str, Any] = {"outcome": outcome.model_dump()}
    except (WorkloadError, UserError) as error:
        end = {"reason": str(error), "evidence": list(getattr(error, "evidence", ()))}
    result.write_text(json.dumps(end))


def jobsets(cluster: Cluster, the_plan: Plan) -> list[dict[str, Any]]:
    """The JobSets that a run has in the cluster."""
    selector = names.run_selector(the_plan.run_id)
    found: list[dict[str, Any]] = cluster.json(
        "get", "jobsets", "-n", the_plan.config.cluster.namespace, "-l", selector
    )["items"]
    return found


def pods(cluster: Cluster, the_plan: AnyPlan, role: str = "") -> list[dict[str, Any]]:
    """The pods that a run has in the cluster, or those of a role."""
    selector = names.run_selector(the_plan.run_id)
    if role:
        selector += f",jobset.sigs.k8s.io/replicatedjob-name={role}"
    found: list[dict[str, Any]] = cluster.json("get", "pods", "-n", the_plan.config.cluster.namespace, "-l", selector)[
        "items"
    ]
    return found


def running(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of some pods that run and are not about to end."""
    return [pod for pod in found if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]


def order(jobset: dict[str, Any]) -> Order:
    """What the pod of a JobSet is told to do."""
    for job in jobset["spec"]["replicatedJobs"]:
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            for variable in container.get("env", []):
                if variable["name"] == ORDER_VARIABLE:
                    return Order.model_validate_json(variable["value"].replace("$$", "$"), strict=False)
    raise AssertionError("no pod of the JobSet has an order")
