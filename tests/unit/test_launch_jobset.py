"""What a person relies on when a workload runs in a cluster: one object, one result, and a reason when there is none."""

import threading
import time

import pytest
from cluster_runs import PATHWAYS, jobsets, plan, play, played, served, states, succeed, workload
from kubernetes_api import JOBSETS

from components import storage
from components.errors import UserError, WorkloadError
from components.workloads import attempt, faults, jobset, launch, ledger, names
from components.workloads.workload import Order, PodOutcome


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    with served(monkeypatch, tmp_path) as api:
        yield api


def run(the_plan, work=None, heard=None):
    return launch.run(the_plan, work or workload(), (heard if heard is not None else []).append)


def said(capsys) -> list[str]:
    return [line.partition("] ")[2] for line in capsys.readouterr().out.splitlines()]


def begun(the_plan, cluster, **meta):
    """What a launcher leaves that is killed right after the object was created: an open attempt and the object."""
    found = ledger.begin(the_plan.stage_dir("train"), workload(), "jobset")
    order = Order(workload=workload(), name=found.name, directory=found.directory, silence_s=900.0)
    manifest = jobset.manifest(order, the_plan.config.cluster, None)
    manifest["metadata"] |= meta
    return cluster.put(f"{JOBSETS}/jobsets", manifest)


# -- one object, one result -------------------------------------------------------------------------------------------


def test_a_workload_runs_and_its_lines_outcome_and_logs_are_kept(cluster, tmp_path):
    heard: list[str] = []
    play(cluster, succeed)
    outcome = run(plan(tmp_path), heard=heard)
    directory = str(tmp_path / "run/train/attempt-1")
    assert heard == ["step 1", "step 2"]
    assert outcome.seconds == 1.5
    assert outcome.log == f"{directory}/log.txt"
    assert storage.read_text(f"{directory}/logs/main-job-workload-container.txt") == "step 1\nstep 2\n"
    assert storage.exists(f"{directory}/heartbeat")
    assert jobsets(cluster) == []
    assert states(plan(tmp_path)) == ["succeeded"]


def test_a_run_whose_places_are_in_a_bucket_is_taken_up_from_there(cluster, tmp_path, gcs):
    the_plan = plan(tmp_path).model_copy(update={"run_dir": f"{gcs}/run"})
    begun(the_plan, cluster)
    threading.Timer(0.3, lambda: succeed(played(cluster))).start()
    outcome = run(the_plan)
    assert outcome.log == f"{gcs}/run/train/attempt-1/log.txt"
    assert storage.read_text(f"{gcs}/run/train/attempt-1/logs/main-job-workload-container.txt") == "step 1\nstep 2\n"
    assert run(the_plan) == outcome
    assert states(the_plan) == ["succeeded"]


def test_the_object_is_owned_by_nobody(cluster, tmp_path):
    owners = []
    play(cluster, lambda made: owners.append(made.manifest["metadata"].get("ownerReferences")) or succeed(made))
    run(plan(tmp_path))
    assert owners == [None]


def test_what_has_succeeded_is_not_run_again(cluster, tmp_path):
    play(cluster, succeed)
    first = run(plan(tmp_path))
    cluster.fail(status=500)
    assert run(plan(tmp_path)) == first
    assert len(cluster.made("POST")) == 1


def test_another_workload_of_the_same_stage_is_run(cluster, tmp_path):
    play(cluster, succeed)
    run(plan(tmp_path))
    run(plan(tmp_path), workload(command=("python", "-c", "2")))
    assert len(cluster.made("POST")) == 2


def test_an_open_attempt_is_taken_up_and_its_log_is_heard_from_the_start(cluster, tmp_path):
    play(cluster, lambda made: made.runs("step 1"))
    cluster.fail("GET", f"/jobsets/{names.object_name('tiny-0101-abcd', 'train', 1)}", status=403)
    with pytest.raises(UserError):
        run(plan(tmp_path))
    cluster.heal()
    heard: list[str] = []
    threading.Timer(0.3, lambda: (played(cluster).writes("step 2"), played(cluster).succeeds())).start()
    run(plan(tmp_path), heard=heard)
    assert heard == ["step 1", "step 2"]
    assert len(cluster.made("POST")) == 1


def test_an_object_that_the_ledger_does_not_know_to_exist_is_taken_up(cluster, tmp_path):
    begun(plan(tmp_path), cluster)
    threading.Timer(0.3, lambda: succeed(played(cluster))).start()
    run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["succeeded"]


def test_an_object_whose_creation_was_answered_by_nothing_is_taken_up(cluster, tmp_path):
    play(cluster, succeed)
    cluster.fail("POST", done=True, times=1)
    run(plan(tmp_path))
    assert [made.method for made in cluster.made("POST")] == ["POST", "POST"]
    assert states(plan(tmp_path)) == ["succeeded"]


@pytest.mark.parametrize("meta", [{"labels": {"team": "others"}}, {"annotations": {names.RUN_ID: "another run"}}])
def test_an_object_of_somebody_else_is_left_alone(cluster, tmp_path, meta):
    foreign = begun(plan(tmp_path), cluster, **meta)
    with pytest.raises(WorkloadError, match="not of this run"):
        run(plan(tmp_path))
    assert [found["metadata"]["uid"] for found in jobsets(cluster)] == [foreign["metadata"]["uid"]]
    play(cluster, succeed)
    run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["failed", "succeeded"]


def test_two_launchers_of_one_run_share_one_object_and_one_outcome(cluster, tmp_path):
    play(cluster, lambda made: (time.sleep(0.5), succeed(made)))
    found: list[object] = []
    other = threading.Thread(target=lambda: found.append(run(plan(tmp_path))))
    other.start()
    found.append(run(plan(tmp_path)))
    other.join(20)
    assert len(found) == 2
    assert found[0] == found[1]
    assert states(plan(tmp_path)) == ["succeeded"]


def test_what_the_cluster_forbids_is_said_and_leaves_nothing(cluster, tmp_path):
    refusal = (
        'jobsets.jobset.x-k8s.io is forbidden: User "me" cannot create resource "jobsets" in the namespace "default"'
    )
    cluster.fail("POST", status=403, message=refusal)
    with pytest.raises(UserError, match=r"does not allow it.*cannot create") as error:
        run(plan(tmp_path))
    assert "\n" not in str(error.value)
    assert len(cluster.made("POST")) == 1
    cluster.heal()
    play(cluster, succeed)
    run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["succeeded"]


@pytest.mark.parametrize(
    ("known", "namespace", "cure"),
    [(False, "default", "install the controller"), (True, "nowhere", "no namespace nowhere: create it")],
)
def test_a_cluster_that_lacks_something_is_named_with_the_cure(cluster, tmp_path, known, namespace, cure):
    if known:
        cluster.fail("POST", status=404, message='namespaces "nowhere" not found')
    else:
        cluster.resources.remove(f"{JOBSETS}/jobsets")
    with pytest.raises(UserError, match=cure):
        run(plan(tmp_path, f"cluster.namespace={namespace}"))


# -- how it ends ------------------------------------------------------------------------------------------------------


def test_a_failure_is_said_in_the_pods_own_words_and_the_object_stays_to_be_looked_at(cluster, tmp_path):
    play(cluster, lambda made: (made.runs("step 1"), made.fails("Out of memory: lower train.batch_size.")))
    with pytest.raises(WorkloadError) as failure:
        run(plan(tmp_path))
    assert failure.value.reason == "Out of memory: lower train.batch_size."
    assert "pod" in failure.value.evidence[0]
    assert len(jobsets(cluster)) == 1
    (found,) = ledger.attempts(plan(tmp_path).stage_dir("train"))
    assert ledger.closed(found).reason == failure.value.reason


def test_after_a_failure_the_next_attempt_has_a_name_and_a_folder_of_its_own(cluster, tmp_path):
    play(cluster, lambda made: (made.runs(), made.fails("x")))
    with pytest.raises(WorkloadError):
        run(plan(tmp_path))
    play(cluster, succeed)
    outcome = run(plan(tmp_path))
    assert outcome.log.endswith("attempt-2/log.txt")
    assert states(plan(tmp_path)) == ["failed", "succeeded"]
    assert len({found.name for found in ledger.attempts(plan(tmp_path).stage_dir("train"))}) == 2


def test_an_attempt_that_ended_itself_for_want_of_a_launcher_is_made_again_by_the_next_one(cluster, tmp_path):
    the_plan = plan(tmp_path)
    begun(the_plan, cluster)
    made = played(cluster)
    made.runs()
    write(made, "outcome.json", "Its launcher fell silent", abandoned=True)
    made.fails()
    play(cluster, succeed)
    assert run(the_plan).log.endswith("attempt-2/log.txt")
    assert states(the_plan) == ["failed", "succeeded"]


def test_a_launcher_that_sees_its_own_workload_give_it_up_fails(cluster, tmp_path):
    def script(made):
        made.runs()
        write(made, "outcome.json", "Its launcher fell silent", abandoned=True)
        made.fails()

    play(cluster, script)
    with pytest.raises(WorkloadError, match="fell silent"):
        run(plan(tmp_path))


def test_the_host_that_failed_first_explains_a_failure(cluster, tmp_path):
    def script(made):
        made.runs()
        write(made, "outcome.json", "The pod was told to end", interrupted=True, ended=1)
        write(made, "outcome-0-3.json", "On slice 0, host 3: a peer is gone", ended=3)
        write(made, "outcome-0-2.json", "On slice 0, host 2: no data", ended=2)
        made.fails()

    play(cluster, script)
    with pytest.raises(WorkloadError, match="host 2: no data"):
        run(plan(tmp_path))


def write(made, file: str, reason: str, **how) -> None:
    """A pod's account of a failure."""
    account = PodOutcome(name=made.name, succeeded=False, seconds=1, reason=reason, **how)
    storage.write_text(storage.join(made.order.directory, file), account.model_dump_json())


def test_a_failure_without_an_account_is_read_from_the_log(cluster, tmp_path):
    play(cluster, lambda made: (made.runs("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm"), made.fails()))
    with pytest.raises(WorkloadError, match=r"memory \(HBM\) is full"):
        run(plan(tmp_path))


def test_pods_that_are_evicted_and_gone_at_the_end_are_the_reason_all_the_same(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        made.is_seen()
        made.is_disrupted("EvictionByEvictionAPI", "Eviction API: evicting")
        made.is_seen()
        made.accounts(succeeded=False, reason="The pod was told to end.")
        made.loses_its_pods()
        made.is_seen()
        made.has_failed()

    play(cluster, script)
    with pytest.raises(WorkloadError, match=r"took the pod away \(Eviction API: evicting\)"):
        run(plan(tmp_path))


def test_an_eviction_that_was_made_up_for_is_not_the_reason_of_a_later_failure(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        made.is_disrupted("PreemptionByScheduler", "preempting to accommodate a higher priority pod")
        made.is_seen()
        made.loses_its_pods()
        made.runs("step 1")  # JobSet begins anew after the loss of a Spot slice
        made.is_seen()
        made.fails("Out of memory: lower train.batch_size.")

    play(cluster, script)
    with pytest.raises(WorkloadError, match=r"lower train\.batch_size"):
        run(plan(tmp_path))


def test_completed_without_the_pods_account_is_no_success(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        made.ends()
        made.is_over("Completed", "AllJobsCompleted", "jobset completed successfully")

    play(cluster, script)
    with pytest.raises(WorkloadError, match="left no account"):
        run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["failed"]


def test_completed_with_the_account_of_another_object_is_no_success(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        made.accounts(succeeded=True, name="another")
        made.ends()
        made.is_over("Completed", "AllJobsCompleted", "jobset completed successfully")

    play(cluster, script)
    with pytest.raises(WorkloadError, match="left no account"):
        run(plan(tmp_path))


def test_completed_with_an_account_of_failure_is_no_success(cluster, tmp_path):
    def script(made):
        made.runs()
        made.accounts(succeeded=False, reason="The marker was never printed.")
        made.ends()
        made.is_over("Completed", "AllJobsCompleted", "jobset completed successfully")

    play(cluster, script)
    with pytest.raises(WorkloadError, match="marker was never printed"):
        run(plan(tmp_path))


def test_an_object_that_vanishes_is_no_success_whatever_its_pod_says(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        made.is_seen()
        made.accounts(succeeded=True)
        made.is_gone()

    play(cluster, script)
    with pytest.raises(WorkloadError, match=r"gone before its end was seen.*--resume"):
        run(plan(tmp_path))
    play(cluster, succeed)
    run(plan(tmp_path))
    assert states(plan(tmp_path)) == ["vanished", "succeeded"]


def test_an_object_that_went_while_no_launcher_looked_is_not_created_again_under_its_name(cluster, tmp_path):
    begun(plan(tmp_path), cluster)
    made = played(cluster)
    made.accounts(succeeded=True)  # all that is left of it
    made.is_gone()
    with pytest.raises(WorkloadError, match="gone before its end was seen"):
        run(plan(tmp_path))
    assert cluster.made("POST") == []
    assert states(plan(tmp_path)) == ["vanished"]


def test_an_image_that_cannot_be_pulled_fails_soon_and_frees_the_machines(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "SOON_S", 0.5)

    def script(made):
        made.makes_pods()
        for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull"):
            made.waits(reason, f'{reason}: failed to resolve reference "x:1": 403 Forbidden')
            made.is_seen()

    play(cluster, script)
    with pytest.raises(WorkloadError, match=r"cannot be pulled.*artifactregistry\.reader"):
        run(plan(tmp_path))
    assert jobsets(cluster) == []
    assert states(plan(tmp_path)) == ["failed"]


def test_an_image_that_is_pulled_at_the_second_try_is_no_failure(cluster, tmp_path):
    def script(made):
        made.makes_pods()
        made.waits("ErrImagePull", "dial tcp: i/o timeout")
        made.is_seen()
        succeed(made)

    play(cluster, script)
    run(plan(tmp_path))


def test_the_deadline_counts_from_the_start_of_the_command_not_from_the_queue(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(attempt, "SLACK_S", 0.0)

    def script(made):
        made.is_queued("insufficient unused quota for google.com/tpu in flavor any, 32 more needed")
        time.sleep(1.5)  # longer than the deadline
        made.is_admitted()
        made.runs("step 1")

    play(cluster, script)
    heard: list[str] = []
    with pytest.raises(WorkloadError, match="longer than its deadline of 1 s"):
        run(plan(tmp_path), workload(deadline_s=1.0), heard)
    assert heard == ["step 1"]
    assert jobsets(cluster) == []


# -- what a person sees -----------------------------------------------------------------------------------------------


def test_each_phase_is_said_once(cluster, tmp_path, capsys):
    def script(made):
        for left in (3, 4):
            made.is_queued(
                f"couldn't assign flavors: insufficient unused quota for cpu in flavor any, {left} more needed"
            )
            made.is_seen()
        made.is_admitted()
        made.makes_pods()
        for nodes in (3, 4):
            made.cannot_schedule(f"0/{nodes} nodes are available: {nodes} Insufficient cpu. preemption: not helpful.")
            made.is_seen()
        made.waits("ContainerCreating", "")
        made.has_event(made.pods()[0]["metadata"]["name"], "Pulling", 'Pulling image "x"', warning=False)
        made.is_seen()
        made.starts()
        made.is_seen()
        made.is_queued("The workload is waiting", evicted="Preempted to accommodate a workload")
        made.is_seen()
        made.is_admitted()
        made.runs()
        made.is_seen()
        made.succeeds()

    play(cluster, script)
    run(plan(tmp_path, "cluster.queue=user-queue"))
    phases = [phase for phase in said(capsys) if phase != "starting"]  # a moment between two steps
    assert phases[0].startswith("created JobSet")
    assert phases[1].startswith("queued in Kueue: couldn't assign flavors: insufficient unused quota for cpu")
    assert phases[2:] == [
        "scaling the CPU pool: 0/3 nodes are available: 3 Insufficient cpu.",
        "pulling the image",
        "running",
        "evicted by Kueue, queued again: Preempted to accommodate a workload",
        "running",
    ]


def test_the_logs_of_head_proxy_manager_and_first_worker_are_kept_and_the_commands_lines_heard(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        made.writes("proxy is up", container="pathways-proxy")
        made.writes("manager is up", container="pathways-rm")
        made.writes("worker is up", role="worker")
        made.succeeds()

    play(cluster, script)
    heard: list[str] = []
    run(plan(tmp_path, slices=True), workload(PATHWAYS), heard)
    kept = tmp_path / "run/train/attempt-1/logs"
    assert {file.name: file.read_text() for file in kept.iterdir()} == {
        "pathways-head-workload-container.txt": "step 1\n",
        "pathways-head-pathways-proxy.txt": "proxy is up\n",
        "pathways-head-pathways-rm.txt": "manager is up\n",
        "worker-pathways-worker.txt": "worker is up\n",
    }
    assert heard == ["step 1"]


@pytest.mark.parametrize(
    ("needs", "role", "container", "again"),
    [
        (PATHWAYS, names.WORKER_JOB, names.WORKER_CONTAINER, False),
        (PATHWAYS, names.WORKER_JOB, names.WORKER_CONTAINER, True),
        (PATHWAYS.model_copy(update={"pathways": False}), names.MAIN_JOB, names.COMMAND_CONTAINER, False),
    ],
)
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm", r"memory \(HBM\) is full"),
        ("OSError: chip 3 does not answer", r"It failed: OSError: chip 3 does not answer"),
    ],
)
def test_the_log_of_a_host_that_failed_is_kept_and_explains_the_failure(
    cluster, tmp_path, needs, role, container, again, said, reason
):
    def script(made):
        made.runs("step 1")
        for host in (2, 3):
            made.writes(f"host {host} is up", role=role, host=host)
        made.writes(said, role=role, host=3)
        made.host_fails(role, 3, again=again)
        made.is_seen()
        made.fails()

    play(cluster, script)
    with pytest.raises(WorkloadError, match=reason):
        run(plan(tmp_path, slices=True), workload(needs))
    kept = tmp_path / "run/train/attempt-1/logs"
    assert (kept / f"{role}-0-3-{container}.txt").read_text().startswith(f"host 3 is up\n{said}")


def test_of_a_host_that_is_started_again_the_log_before_and_after_is_kept(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        made.writes("worker is up", "bad chip", role="worker", host=5)
        made.host_fails("worker", 5, again=True)
        made.writes("worker is up again", role="worker", host=5)
        made.is_seen()
        made.writes("and works", role="worker", host=5)
        made.succeeds()

    play(cluster, script)
    run(plan(tmp_path, slices=True), workload(PATHWAYS))
    kept = tmp_path / "run/train/attempt-1/logs"
    assert (kept / "worker-0-5-pathways-worker.txt").read_text() == (
        "worker is up\nbad chip\nworker is up again\nand works\n"
    )
    assert not list(kept.glob("worker-0-[0-4]*"))
