"""What a person relies on when a workload runs as a RayJob: one object, one result, and a reason when there is none."""

import threading
import time

import pytest
import ray_examples
from cluster_runs import served
from kubernetes_api import Manifest
from played_rayjobs import CLAIMS, RAYJOBS, PlayedRayJob

from components import config, storage
from components.errors import UserError, WorkloadError
from components.ray_plan import FinetunePlan
from components.workloads import faults, launch, ledger, phases, seen
from components.workloads.kinds import KINDS
from components.workloads.seen import Snapshot
from components.workloads.workload import Workload

KIND = KINDS["rayjob"]


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    with served(monkeypatch, tmp_path) as api:
        api.resources |= {RAYJOBS, CLAIMS}
        yield api


def plan(folder, *settings):
    """A fine-tuning with its places in `folder`, on a cluster that is looked at often."""
    chosen = config.load("tiny-ray-finetune", ["engine=rayjob", "cluster.poll_s=0.1", *settings])
    return FinetunePlan(
        run_id="tiny-0101-abcd",
        run_dir=str(folder / "run"),
        store=str(folder / "store"),
        config=chosen,
        config_sha256="0" * 64,
        code_version="test",
        model_revision="1" * 40,
        started="2026-01-01T00:00:00Z",
        attempt_started="2026-01-01T00:00:00Z",
    )


def workload(shape="workers without chips", **facts):
    fields = {
        "stage": "finetune",
        "run_id": "tiny-0101-abcd",
        "command": ("python", "-c", "1"),
        "image": "ray-torchtpu",
    }
    return Workload(needs=ray_examples.SHAPES[shape], **{**fields, **facts})


def play(api, script):
    """Lets `script` go on with every RayJob that is created. A script that fails takes its RayJob along."""

    def on_create(manifest: Manifest) -> None:
        if manifest["kind"] != "RayJob":
            return
        made = PlayedRayJob(api, manifest)
        try:
            script(made)
        except BaseException:
            made.is_gone()
            raise

    api.on_create = on_create


def run(the_plan, work=None, heard=None):
    return launch.run(the_plan, work or workload(), (heard if heard is not None else []).append)


def states(the_plan):
    ends = [ledger.closed(attempt) for attempt in ledger.attempts(the_plan.stage_dir("finetune"))]
    return [end.state if end else "open" for end in ends]


def succeed(job):
    job.runs("epoch 1", "epoch 2")
    job.succeeds()


# -- ends -------------------------------------------------------------------------------------------------------------


def test_a_workload_runs_and_its_lines_outcome_and_logs_are_kept(cluster, tmp_path):
    def script(job):
        job.runs("epoch 1")
        job.writes("ray is up", role="head")
        job.writes("epoch 2")
        while not cluster.made("GET", r"-head-\w+/log$"):  # the head is gone with the Ray cluster
            time.sleep(0.02)
        job.succeeds()

    play(cluster, script)
    heard: list[str] = []
    outcome = run(plan(tmp_path), heard=heard)
    directory = str(tmp_path / "run/finetune/attempt-1")
    assert heard == ["epoch 1", "epoch 2"]
    assert (outcome.seconds, outcome.log) == (1.5, f"{directory}/log.txt")
    assert storage.read_text(f"{directory}/logs/submitter-ray-job-submitter.txt") == "epoch 1\nepoch 2\n"
    assert storage.read_text(f"{directory}/logs/head-ray-head.txt") == "ray is up\n"
    assert cluster.all(RAYJOBS) == []
    assert states(plan(tmp_path)) == ["succeeded"]


def test_a_job_that_was_stopped_is_complete_and_no_success(cluster, tmp_path):
    play(cluster, lambda job: (job.runs("epoch 1"), job.ends("Complete", "STOPPED", message="Job was stopped.")))
    with pytest.raises(WorkloadError, match=r"STOPPED: Job was stopped\."):
        run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["failed"]


def test_a_failure_is_said_in_the_pods_own_words_and_the_object_stays_to_be_looked_at(cluster, tmp_path):
    play(cluster, lambda job: (job.runs("Traceback"), job.fails("The chips' memory is full: lower the batch.")))
    with pytest.raises(WorkloadError, match="The chips' memory is full") as error:
        run(plan(tmp_path))
    assert any("AppFailed" in line for line in error.value.evidence)
    assert len(cluster.all(RAYJOBS)) == 1


def test_a_failure_without_an_account_is_read_from_the_jobs_log(cluster, tmp_path):
    play(cluster, lambda job: (job.runs("ModuleNotFoundError: No module named 'torch_tpu'"), job.fails()))
    with pytest.raises(WorkloadError, match="The Python package torch_tpu is missing in the image"):
        run(plan(tmp_path))


def test_what_kuberay_finds_invalid_is_an_end(cluster, tmp_path):
    said = "The RayJob spec is invalid: headGroupSpec should have at least one container"
    play(cluster, lambda job: job.is_in("ValidationFailed", reason="ValidationFailed", message=said))
    with pytest.raises(WorkloadError, match=r"ValidationFailed: The RayJob spec is invalid"):
        run(plan(tmp_path))


def test_a_deadline_of_kuberay_is_named(cluster, tmp_path):
    message = "The RayJob has passed the activeDeadlineSeconds. StartTime: ..."
    play(
        cluster, lambda job: (job.makes_ray_cluster(), job.is_in("Failed", reason="DeadlineExceeded", message=message))
    )
    with pytest.raises(WorkloadError, match="DeadlineExceeded"):
        run(plan(tmp_path))


def test_a_job_that_kuberay_tries_again_has_not_ended(cluster, tmp_path):
    def script(job):
        job.runs("epoch 1")
        for pod in job.pods():
            cluster.drop("/api/v1/pods", pod["metadata"]["name"])
        job.is_in("Retrying", jobStatus="FAILED", reason="AppFailed")
        succeed(job)

    play(cluster, script)
    run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["succeeded"]


def test_after_a_failure_the_next_attempt_is_another_rayjob(cluster, tmp_path):
    play(cluster, lambda job: (job.runs("epoch 1"), job.fails("No.")))
    with pytest.raises(WorkloadError):
        run(plan(tmp_path))
    play(cluster, succeed)
    run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["failed", "succeeded"]
    assert len({made.path for made in cluster.made("GET", "/rayjobs/")}) == 2


def test_complete_without_the_pods_account_is_no_success(cluster, tmp_path):
    play(cluster, lambda job: (job.runs("epoch 1"), job.ends("Complete", "SUCCEEDED")))
    with pytest.raises(WorkloadError, match="left no account"):
        run(plan(tmp_path))


def test_a_rayjob_that_vanishes_is_no_success(cluster, tmp_path):
    play(cluster, lambda job: (job.runs("epoch 1"), time.sleep(0.3), job.is_gone()))
    with pytest.raises(WorkloadError, match="was gone before its end was seen"):
        run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["vanished"]


def test_a_rayjob_is_taken_up_by_the_next_launcher_and_its_log_heard_from_the_start(cluster, tmp_path):
    play(cluster, lambda job: job.runs("epoch 1"))
    cluster.fail("GET", "/rayjobs/", status=403)
    with pytest.raises(UserError):
        run(plan(tmp_path))
    cluster.heal()

    def go_on():
        (manifest,) = cluster.all(RAYJOBS)
        job = PlayedRayJob(cluster, manifest)
        job.writes("epoch 2")
        job.succeeds()

    threading.Timer(0.3, go_on).start()
    heard: list[str] = []
    run(plan(tmp_path), heard=heard)
    assert heard == ["epoch 1", "epoch 2"]
    assert len(cluster.made("POST")) == 1


def test_cancel_deletes_the_rayjob_and_with_it_all_pods(cluster, tmp_path):
    began = threading.Event()
    play(cluster, lambda job: (job.runs("epoch 1"), began.set()))
    raised: list[BaseException] = []

    def launcher():
        try:
            run(plan(tmp_path))
        except WorkloadError as error:
            raised.append(error)

    thread = threading.Thread(target=launcher)
    thread.start()
    assert began.wait(20)
    said = launch.cancel(plan(tmp_path))
    thread.join(20)
    assert any(line.startswith("deleted RayJob finetune-") for line in said)
    assert cluster.all(RAYJOBS) == cluster.all("/api/v1/pods") == []
    assert "cancelled" in str(raised[0])


# -- before and while it runs -----------------------------------------------------------------------------------------


def test_what_workers_claim_is_described_before_the_rayjob_and_stays(cluster, tmp_path):
    the_plan = plan(tmp_path)
    slices = config.TpuConfig(slice="v6e-16", slices=4, pathways=False)
    the_plan = the_plan.model_copy(update={"config": the_plan.config.model_copy(update={"tpu": slices})})
    for round_ in (1, 2):
        play(cluster, succeed)
        run(the_plan, workload("elastic slices", command=("python", "-c", str(round_))))
    assert [claim["metadata"]["name"] for claim in cluster.all(CLAIMS)] == ["posttrain-netdev-2"]
    made = [request.path.rsplit("/", 1)[-1] for request in cluster.made("POST")]
    assert made == ["resourceclaimtemplates", "rayjobs"] * 2


def shown(job: PlayedRayJob) -> Snapshot:
    """What a look at it shows."""
    (manifest,) = job.api.all(RAYJOBS)
    pods = seen.pods_from(job.pods(), KIND, manifest)
    return Snapshot(kind=KIND, manifest=manifest, pods=pods)


@pytest.fixture
def job(cluster):
    """A RayJob on a slice, whose Ray cluster has just been made."""
    manifest = cluster.put(RAYJOBS, ray_examples.manifest("a slice"))
    made = PlayedRayJob(cluster, manifest)
    made.makes_ray_cluster()
    return made


def test_the_phases_on_the_way_to_a_running_job(job):
    job.cannot_schedule("0/9 nodes are available: 9 Insufficient google.com/tpu.", "worker")
    job.starts("head")
    assert phases.phase(shown(job)).startswith("waiting for the slice: 0/9 nodes are available")
    job.waits("PodInitializing", "", "worker")
    assert phases.phase(shown(job)) == "starting"
    job.starts()
    assert phases.phase(shown(job)) == "starting"  # the job has not been handed in
    job.submits()
    assert phases.phase(shown(job)) == "running"


def test_a_suspended_rayjob_waits_for_its_queue(cluster):
    manifest = ray_examples.manifest("a slice", "everything")
    manifest["spec"]["suspend"] = True
    assert KIND.suspended(manifest)
    assert phases.phase(Snapshot(kind=KIND, manifest=manifest)) == "queued in Kueue"


def test_a_worker_that_is_lost_does_not_end_the_work_and_a_head_does(job):
    job.starts()
    job.submits()
    job.loses("worker", "2026-01-01T00:00:00Z")
    assert faults.stuck(shown(job)) is None
    job.loses("head", "2026-01-01T00:00:00Z")
    found = faults.stuck(shown(job))
    assert found and found.what == "terminating" and "head" in found.reason


@pytest.mark.parametrize(("role", "ends"), [("head", True), ("worker", False)])
def test_a_head_that_ends_again_and_again_ends_the_work(job, role, ends):
    job.starts()
    last = {"terminated": {"exitCode": 127, "reason": "Error"}}
    job.waits("CrashLoopBackOff", "back-off 5m0s restarting failed container", role, restartCount=6, lastState=last)
    found = faults.stuck(shown(job))
    assert (found is not None) is ends
    if found:
        assert "exit code 127" in found.reason


def test_an_image_that_cannot_be_pulled_is_named(job):
    job.waits("ImagePullBackOff", "Back-off pulling image", "worker")
    found = faults.stuck(shown(job))
    assert found and "posttrain-ray-torchtpu" in found.reason and "cluster.images" in found.reason


@pytest.mark.parametrize("state", ["", "Initializing", "Running", "Waiting", "Suspending", "Suspended", "Retrying"])
def test_a_rayjob_that_is_under_way_has_not_ended(state):
    assert KIND.end({"status": {"jobDeploymentStatus": state, "jobStatus": "FAILED"}}) is None
