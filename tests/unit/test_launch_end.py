"""A launcher that is ended, killed or told to cancel: what it began ends too, or is found again."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cluster_runs import jobsets, plan, play, played, served, start_launcher, states, succeed, workload
from kubernetes_api import JOBSETS

from components.errors import UserError, WorkloadError
from components.workloads import launch
from components.workloads.names import RUN_ID

KILLS = int(os.environ.get("LAUNCHER_KILLS", "10"))


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    with served(monkeypatch, tmp_path) as server:
        yield server


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_ended_deletes_what_it_began(cluster, tmp_path, signum):
    play(cluster, lambda made: made.runs("step 1"))
    process = start_launcher(plan(tmp_path), tmp_path / "plan.json")
    wait_for_line(tmp_path, "step 1")
    os.kill(process.pid, signum)
    process.join(30)
    assert process.exitcode == 128 + signum
    assert jobsets(cluster) == []
    assert states(plan(tmp_path)) == ["cancelled"]


def test_a_launcher_that_is_ended_while_it_waits_for_a_busy_server_ends(cluster, tmp_path):
    cluster.fail("POST", status=429, Retry_After="60")
    process = start_launcher(plan(tmp_path), tmp_path / "plan.json")
    wait_until(lambda: cluster.made("POST"))
    cluster.heal()
    os.kill(process.pid, signal.SIGTERM)
    process.join(30)
    assert process.exitcode == 128 + signal.SIGTERM
    assert states(plan(tmp_path)) == ["cancelled"]


@pytest.mark.parametrize("line", [True, False])
def test_a_launcher_that_nobody_reads_any_more_deletes_what_it_began(cluster, tmp_path, line):
    """What a kill -9 of the run does to the stages below it, whether there is something to say or not."""
    play(cluster, lambda made: made.runs("step 1"))
    (tmp_path / "plan.json").write_text(plan(tmp_path).model_dump_json())
    code = "import sys; import cluster_runs; cluster_runs.run_here(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "plan.json")]
    folders = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": folders})
    while b"step 1" not in process.stdout.readline():
        pass
    process.stdout.close()
    if line:
        played(cluster).writes("step 2")
    process.wait(30)
    assert jobsets(cluster) == []
    assert states(plan(tmp_path)) == ["cancelled"]


def test_a_detached_workload_outlives_its_launcher_and_is_taken_up(cluster, tmp_path):
    detached = plan(tmp_path, "cluster.detached=true")
    play(cluster, lambda made: made.runs("step 1"))
    process = start_launcher(detached, tmp_path / "plan.json")
    wait_for_line(tmp_path, "step 1")
    os.kill(process.pid, signal.SIGTERM)
    process.join(30)
    assert len(jobsets(cluster)) == 1
    assert played(cluster).order.silence_s is None
    threading.Timer(0.2, lambda: played(cluster).succeeds()).start()
    launch.run(detached, workload(), lambda line: None)
    assert states(detached) == ["succeeded"]


def test_kills_at_random_points_neither_double_nor_lose_anything(cluster, tmp_path):
    chance = random.Random(20260101)
    for trial in range(KILLS):
        folder = tmp_path / str(trial)
        folder.mkdir()
        the_plan = plan(folder).model_copy(update={"run_id": f"run-{trial}"})
        play(cluster, succeed)
        for _ in range(2):  # a launcher that was started again may be killed too
            kill_at(cluster, chance, start_launcher(the_plan, folder / "plan.json"))
        outcome = launch.run(the_plan, workload(run_id=the_plan.run_id), lambda line: None)
        assert outcome.seconds == 1.5
        assert states(the_plan) == ["succeeded"]
        assert len(made_for(cluster, the_plan)) == 1


def kill_at(cluster, chance, process) -> None:
    """Kills a launcher with -9 at one of its requests or a little later, in the middle of what it does in between; or
    lets it end before that.
    """
    last, delay = len(cluster.requests) + chance.randint(1, 16), chance.choice([0, 0, 0.005, 0.02])

    def on_request(request):
        if len(cluster.requests) == last:
            threading.Timer(delay, process.kill).start() if delay else process.kill()

    cluster.on_request = on_request
    process.join(60)
    cluster.on_request = lambda request: None
    assert process.exitcode in (0, -signal.SIGKILL)


def made_for(cluster, the_plan) -> set:
    """The objects that were created for a run, whatever became of them."""
    changes = (entry[3]["metadata"] for entry in cluster.history(f"{JOBSETS}/jobsets"))
    return {meta["uid"] for meta in changes if meta["annotations"][RUN_ID] == the_plan.run_id}


def test_cancel_deletes_what_the_run_has_and_a_living_launcher_says_so(cluster, tmp_path):
    the_plan = plan(tmp_path)
    play(cluster, lambda made: made.runs("step 1"))
    failures: list[WorkloadError] = []

    def launcher():
        try:
            launch.run(the_plan, workload(), lambda line: None)
        except WorkloadError as error:
            failures.append(error)

    thread = threading.Thread(target=launcher)
    thread.start()
    wait_until(lambda: jobsets(cluster) and played(cluster).pods())
    name = jobsets(cluster)[0]["metadata"]["name"]
    assert launch.cancel(the_plan) == [f"deleted JobSet {name}"]
    thread.join(30)
    assert [failure.reason for failure in failures] == ["It was cancelled."]
    assert jobsets(cluster) == []
    assert states(the_plan) == ["cancelled"]


def test_cancel_touches_nothing_of_another_run(cluster, tmp_path):
    other = plan(tmp_path / "other").model_copy(update={"run_id": "other"})
    play(cluster, lambda made: made.runs())
    start_launcher(plan(tmp_path), tmp_path / "plan.json")
    wait_until(lambda: jobsets(cluster))
    assert launch.cancel(other) == []
    assert len(jobsets(cluster)) == 1
    assert launch.cancel(plan(tmp_path)) != []


def test_cancel_says_which_pods_are_still_ending(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_GONE_S", 0.3)
    play(cluster, lambda made: made.runs())
    start_launcher(plan(tmp_path), tmp_path / "plan.json")
    wait_until(lambda: jobsets(cluster) and played(cluster).pods())
    made, (pod,) = played(cluster), played(cluster).pods()
    monkeypatch.setattr(cluster, "drop", lambda *_: cluster._objects.pop((f"{JOBSETS}/jobsets", "default", made.name)))
    assert launch.cancel(plan(tmp_path))[1:] == [f"pod {pod['metadata']['name']} is still ending"]


def test_cancel_of_a_run_that_has_nothing_there_does_nothing(cluster, tmp_path):
    cluster.resources.remove(f"{JOBSETS}/jobsets")  # no JobSet controller either
    assert launch.cancel(plan(tmp_path)) == []


def test_a_workload_that_is_cancelled_before_its_object_was_made_leaves_none(cluster, tmp_path):
    the_plan = plan(tmp_path)

    def on_request(request):
        if request.method == "POST":
            cluster.on_request = lambda request: None
            launch.cancel(the_plan)

    cluster.on_request = on_request
    with pytest.raises(WorkloadError, match="cancelled"):
        launch.run(the_plan, workload(), lambda line: None)
    assert jobsets(cluster) == []


def test_status_says_what_each_object_does(cluster, tmp_path):
    the_plan = plan(tmp_path)
    assert launch.status(the_plan) == []
    play(
        cluster, lambda made: (made.makes_pods(), made.cannot_schedule("0/1 nodes are available: 1 Insufficient cpu."))
    )
    start_launcher(the_plan, tmp_path / "plan.json")
    wait_until(lambda: jobsets(cluster) and played(cluster).pods())
    made = played(cluster)
    assert launch.status(the_plan) == [
        f"train: JobSet {made.name}: scaling the CPU pool: 0/1 nodes are available: 1 Insufficient cpu."
    ]
    made.fails("x")
    (line,) = launch.status(the_plan)
    assert line.startswith(
        f"train: JobSet {made.name}: failed: FailedJobs: jobset failed due to one or more job failures"
    )


def test_without_a_cluster_cancel_and_status_say_so(cluster, tmp_path):
    cluster.fail(status=403, message='jobsets is forbidden: User "me" cannot list resource "jobsets"')
    for what in (launch.cancel, launch.status):
        with pytest.raises(UserError, match="does not allow it"):
            what(plan(tmp_path))


def wait_until(true) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def wait_for_line(folder, line) -> None:
    said = folder / "plan.said"
    wait_until(lambda: said.exists() and line in said.read_text())
