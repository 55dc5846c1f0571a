"""What happens to a launcher and to its workload when one of them, or a part of the cluster, is lost.

The workload is a small program in a pod that really runs. POSTTRAIN_KILLS is how often a launcher is killed: 10 unless
set; benchmarks/launcher_kills.py sets 100.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from components import storage
from components.plan import Plan
from components.workloads import launch, machines, names
from components.workloads.workload import Cpu, Output, Workload
from tests.cluster import support
from tests.cluster.harness import REAL_POOL, Bucket, Cluster, wait_until
from tests.cluster.support import Launcher
from tests.cluster.support_proxy import relay

KILLS = int(os.environ.get("POSTTRAIN_KILLS", "10"))
AT_ONCE = 3
NEVER_ENDS = "print('at work', flush=True); import time; time.sleep(3600)"
LEAVES_A_FILE = "import pathlib, sys; pathlib.Path(sys.argv[1], 'file').write_text('whole')"
TICKS = """
import time
for tick in range(60):
    print("tick", tick, flush=True)
    time.sleep(0.5)
"""
UNPOLLED = "cluster.poll_s=600"  # only what a watch says can be noticed in time


class Bench:
    """Runs of one small program each, on the node that really runs pods."""

    def __init__(self, cluster: Cluster, namespace: str, bucket: Bucket, image: str, folder: Path) -> None:
        self.cluster, self.namespace, self.bucket, self._image, self._folder = cluster, namespace, bucket, image, folder
        self.launchers: list[Launcher] = []

    def plan(self, *settings: str) -> Plan:
        own = (
            f"cluster.cpu_pool={REAL_POOL}",
            f"cluster.env={json.dumps(self.bucket.env)}",
            f"cluster.images={{training: {self._image}}}",
        )
        return support.plan(self.bucket, self.namespace, "tiny-qwen3", *own, *settings)

    def workload(self, plan: Plan, program: str) -> Workload:
        """A program that may write into the folder `@result@`; on the hosts of the slices, if the run has some."""
        return Workload(
            stage="train",
            run_id=plan.run_id,
            command=("python", "-c", program, "@result@"),
            outputs=(Output(name="result", uri=storage.join(plan.run_dir, "result"), how="live"),),
            needs=machines.accelerator(plan.config) if plan.config.tpu else Cpu(cores=0.1, memory_gb=0.5, disk_gb=0.1),
        )

    def launch(self, plan: Plan, program: str, kubeconfig: str | None = None) -> Launcher:
        cluster = Cluster(kubeconfig, ours=self.cluster.ours) if kubeconfig else self.cluster
        self.launchers.append(Launcher(plan, self.workload(plan, program), cluster, self._folder))
        return self.launchers[-1]

    def jobset(self, plan: Plan) -> dict[str, Any]:
        """Waits until a run has its JobSet in the cluster, and returns it."""
        wait_until(lambda: support.jobsets(self.cluster, plan), 60)
        (found,) = support.jobsets(self.cluster, plan)
        return found

    def end_of_jobset(self, plan: Plan, state: str) -> dict[str, Any]:
        """Waits until the JobSet of a run has ended, and returns it."""
        wait_until(lambda: self.jobset(plan).get("status", {}).get("terminalState") == state, 120)
        return self.jobset(plan)


@pytest.fixture
def bench(cluster: Cluster, namespace: str, bucket: Bucket, image: str, tmp_path: Path) -> Iterator[Bench]:
    """Launchers that a test leaves are killed."""
    made = Bench(cluster, namespace, bucket, image, tmp_path)
    yield made
    for launcher in made.launchers:
        launcher.process.kill()


# -- the launcher -----------------------------------------------------------------------------------------------------


class Creations:
    """Counts the JobSets that are created in a namespace, run by run, while the block runs."""

    def __init__(self, bench: Bench) -> None:
        self.of_run: Counter[str] = Counter()
        command = ["kubectl", "get", "jobsets", "-n", bench.namespace, "--watch", "--output-watch-events", "-o", "json"]
        self._watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bench.cluster.env)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Creations:
        self._reader.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._watch.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self._watch.stdout
        for line in self._watch.stdout:
            event = json.loads(line)
            if event["type"] == "ADDED":
                self.of_run[event["object"]["metadata"]["annotations"][names.RUN_ID]] += 1


def kill_once(bench: Bench, takes_s: float) -> tuple[str, str]:
    """Runs the program with one kill of the launcher at a random moment, and another launcher after it.

    Returns the run's id, and what is wrong with the result, if anything.
    """
    killed = False
    while not killed:  # a launcher that was done by then does not count
        plan = bench.plan()
        launcher = bench.launch(plan, LEAVES_A_FILE)
        time.sleep(random.uniform(0, takes_s))
        launcher.process.kill()
        launcher.process.join()
        killed = launcher.process.exitcode == -signal.SIGKILL
    end = bench.launch(plan, LEAVES_A_FILE).result()
    file = storage.join(plan.run_dir, "result", "file")
    if "outcome" not in end:
        return plan.run_id, str(end)
    if not storage.exists(file) or storage.read_text(file) != "whole":
        return plan.run_id, "the program's output is missing"
    return plan.run_id, ""


def seconds_of_a_run(bench: Bench) -> float:
    began = time.monotonic()
    assert "outcome" in bench.launch(bench.plan(), LEAVES_A_FILE).result()
    return time.monotonic() - began


def test_kills_at_random_moments_neither_double_a_jobset_nor_lose_a_result(bench):
    takes_s = min(seconds_of_a_run(bench) for _ in range(2))
    with Creations(bench) as creations, ThreadPoolExecutor(AT_ONCE) as pool:
        began = time.monotonic()
        trials = list(pool.map(lambda _: kill_once(bench, takes_s), range(KILLS)))
        seconds = time.monotonic() - began
        last = bench.plan()
        bench.launch(last, LEAVES_A_FILE).result()
        wait_until(lambda: creations.of_run[last.run_id], 30)  # all that came before it has been counted too
    doubled = [run for run, _ in trials if creations.of_run[run] != 1]
    lost = [what for _, what in trials if what]
    print(f"{KILLS} trials: {len(doubled)} duplicates, {len(lost)} lost results, {seconds:.0f} s")
    assert (doubled, lost) == ([], [])


def gone(bench: Bench, plan: Plan) -> bool:
    """Whether a run has neither JobSet nor pod in the cluster."""
    return not support.jobsets(bench.cluster, plan) and not support.pods(bench.cluster, plan)


def test_a_run_that_is_cancelled_is_gone_within_5_seconds(bench, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", bench.cluster.kubeconfig)
    plan = bench.plan()
    launcher = bench.launch(plan, NEVER_ENDS)
    launcher.says("at work")
    launch.status(plan)  # what a command line loads before it begins is no part of it
    began = time.monotonic()
    done = launch.cancel(plan)
    seconds = time.monotonic() - began
    print(f"cancelled after {seconds:.1f} s")
    assert len(done) == 1 and done[0].startswith("deleted JobSet")
    assert gone(bench, plan)
    assert seconds < 5
    assert launcher.result()["reason"] == "It was cancelled."


def test_a_run_whose_launcher_is_ended_is_gone_within_5_seconds(bench):
    plan = bench.plan()
    launcher = bench.launch(plan, NEVER_ENDS)
    launcher.says("at work")
    launcher.process.terminate()
    began = time.monotonic()
    wait_until(lambda: gone(bench, plan), 60)
    seconds = time.monotonic() - began
    print(f"gone after {seconds:.1f} s")
    assert seconds < 5


def test_a_workload_whose_launcher_is_gone_for_good_frees_its_machine_within_the_silence_bound(bench):
    plan = bench.plan("cluster.silence_s=30")
    launcher = bench.launch(plan, NEVER_ENDS)
    launcher.says("at work")
    launcher.process.kill()
    began = time.monotonic()
    wait_until(lambda: support.pods(bench.cluster, plan)[0]["status"]["phase"] == "Failed", 60)
    seconds = time.monotonic() - began
    print(f"free after {seconds:.1f} s")
    assert seconds < 30

    again = bench.launch(plan, NEVER_ENDS)
    again.says("had ended itself while it had no launcher: trying again")
    wait_until(lambda: len(support.running(support.pods(bench.cluster, plan))) == 1, 60)


# -- the cluster ------------------------------------------------------------------------------------------------------


def heard_ticks(lines: str) -> list[str]:
    return [line for line in lines.splitlines() if line.startswith("tick ")]


def test_an_api_server_that_restarts_and_has_lost_its_history_costs_no_line_and_no_result(bench, tmp_path):
    with relay(bench.cluster, tmp_path) as through:
        late = bench.plan(UNPOLLED)
        late_launcher = bench.launch(late, LEAVES_A_FILE, through.kubeconfig)
        wait_until(lambda: through.waiting == 2, 60)  # its watches are held back, from a revision that will be gone
        bench.end_of_jobset(late, "Completed")

        plan = bench.plan(UNPOLLED)
        launcher = bench.launch(plan, TICKS)
        launcher.says("tick 5\n")
        compact_history()
        with bench.cluster.without("apiserver"):
            pass
        assert late_launcher.process.is_alive()
        through.open.set()
        assert "outcome" in late_launcher.result()
        assert through.expired == 2

    assert "outcome" in launcher.result()
    ticks = [f"tick {number}" for number in range(60)]
    assert heard_ticks(launcher.said) == ticks
    attempt = storage.join(plan.stage_dir("train"), "attempt-1")
    for kept in ("log.txt", "logs/main-job-workload-container.txt"):
        assert heard_ticks(storage.read_text(storage.join(attempt, kept))) == ticks


def compact_history() -> None:
    """Has etcd forget all revisions but the last."""
    revision = etcd("range", {"key": "AA=="})["header"]["revision"]
    etcd("compaction", {"revision": revision, "physical": True})


def etcd(what: str, body: dict[str, Any]) -> Any:
    """Calls etcd, which listens to its own network only."""
    inside = ["nsenter", "--net=/run/netns/real-cluster", "curl", "--fail", "--silent", "-d", json.dumps(body)]
    done = subprocess.run([*inside, f"http://127.0.0.1:2379/v3/kv/{what}"], check=True, capture_output=True)
    return json.loads(done.stdout)


def test_a_jobset_controller_that_is_down_is_waited_for(bench):
    failed = 'apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="mjobset.kb.io"'
    with bench.cluster.without("jobset"):
        before = metric(bench.cluster, failed)
        plan = bench.plan()
        launcher = bench.launch(plan, LEAVES_A_FILE)
        wait_until(lambda: metric(bench.cluster, failed) > before, 60)
        assert support.jobsets(bench.cluster, plan) == []
    assert "outcome" in launcher.result()


def metric(cluster: Cluster, name: str) -> float:
    """The sum of the API server's metrics whose name and labels begin so."""
    lines = cluster.kubectl("get", "--raw=/metrics").splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_a_jobset_whose_time_to_live_is_over_before_the_launcher_looks_is_no_success(bench):
    plan = bench.plan()
    launcher = bench.launch(plan, LEAVES_A_FILE)
    bench.jobset(plan)
    os.kill(launcher.process.pid, signal.SIGSTOP)
    try:
        name = bench.end_of_jobset(plan, "Completed")["metadata"]["name"]
        ttl = '{"spec": {"ttlSecondsAfterFinished": 1}}'
        bench.cluster.kubectl("patch", "jobset", name, "-n", bench.namespace, "--type=merge", "-p", ttl)
        wait_until(lambda: not support.jobsets(bench.cluster, plan), 60)
    finally:
        os.kill(launcher.process.pid, signal.SIGCONT)
    assert "was gone before its end was seen" in launcher.result()["reason"]
    assert "outcome" in bench.launch(plan, LEAVES_A_FILE).result()
    assert storage.exists(storage.join(plan.stage_dir("train"), "attempt-2", "outcome.json"))


# as long as it takes, its pod shows why it must end
SAVES_BEFORE_IT_ENDS = """
import signal, sys, time
def save(*_):
    time.sleep(3)
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
print("at work", flush=True)
time.sleep(3600)
"""


def test_a_pod_that_is_evicted_is_diagnosed(bench):
    plan = bench.plan()
    launcher = bench.launch(plan, SAVES_BEFORE_IT_ENDS)
    launcher.says("at work")
    (pod,) = (pod["metadata"]["name"] for pod in support.pods(bench.cluster, plan))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": bench.namespace}}
    path = f"/api/v1/namespaces/{bench.namespace}/pods/{pod}/eviction"
    bench.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    failed = launcher.result()
    assert failed["reason"].startswith("The cluster took the pod away (Eviction API: evicting)")


# -- hosts ------------------------------------------------------------------------------------------------------------

EACH_LEAVES_A_FILE = """
import os, pathlib, sys
pathlib.Path(sys.argv[1], "file").write_text("of host " + os.environ["JOB_COMPLETION_INDEX"])
"""
ONE_FAILS = """
import os, time
host = os.environ["JOB_COMPLETION_INDEX"]
print("host", host, flush=True)
if host == "2":
    raise ValueError("this host has no data")
time.sleep(3600)
"""


@pytest.fixture
def hosts(cluster: Cluster) -> Iterator[None]:
    """Makes the node that really runs pods look like four hosts of a v6e-16 slice."""
    if not cluster.ours:
        pytest.skip("only a node of the cluster of CLUSTER_TOOLS may be given chips that it does not have")
    labels = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "4x4"}
    chips = json.dumps({"status": {"capacity": {"google.com/tpu": "16"}}})
    none = json.dumps({"status": {"capacity": {"google.com/tpu": None}, "allocatable": {"google.com/tpu": None}}})
    patch = ("patch", "node", REAL_POOL, "--subresource=status", "-p")
    cluster.kubectl("label", "node", REAL_POOL, *(f"{name}={value}" for name, value in labels.items()))
    cluster.kubectl(*patch, chips)
    yield
    cluster.kubectl(*patch, none)
    cluster.kubectl("label", "node", REAL_POOL, *(f"{name}-" for name in labels))


def test_every_host_runs_the_command_and_what_the_first_one_makes_is_kept(bench, hosts):
    plan = bench.plan("tpu={slice: v6e-16, pathways: false}")
    assert "outcome" in bench.launch(plan, EACH_LEAVES_A_FILE).result()
    assert storage.read_text(storage.join(plan.run_dir, "result", "file")) == "of host 0"


def test_a_host_that_fails_fails_the_run_in_its_own_words(bench, hosts):
    plan = bench.plan("tpu={slice: v6e-16, pathways: false}")
    failed = bench.launch(plan, ONE_FAILS).result()
    assert failed["reason"] == "On slice 0, host 2: It failed: ValueError: this host has no data"
    assert any("this host has no data" in line for line in failed["evidence"])
