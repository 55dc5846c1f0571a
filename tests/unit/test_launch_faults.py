"""An API server that fails, is busy, cuts off and forgets: the workload goes on, and no line is lost or heard twice."""

import pytest
from cluster_runs import plan, play, served, succeed, workload

from components.errors import UserError
from components.workloads import api, launch, watch

WEBHOOK = (
    'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: Post '
    '"https://jobset-webhook-service.jobset-system.svc:443/mutate": no endpoints available for service'
)
JOBSET = r"/jobsets/[^/?]+$"


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    with served(monkeypatch, tmp_path) as server:
        yield server


def run(the_plan):
    heard: list[str] = []
    launch.run(the_plan, workload(), heard.append)
    return heard


@pytest.mark.parametrize(
    ("method", "path", "fault"),
    [
        ("POST", "", {"status": 429, "Retry_After": "1"}),
        ("POST", "", {"status": 500, "message": WEBHOOK}),
        ("POST", "", {"status": 503, "message": WEBHOOK}),
        ("POST", "", {}),
        ("GET", JOBSET, {"status": 429}),
        ("GET", JOBSET, {"status": 500}),
        ("GET", JOBSET, {}),
        ("GET", r"/pods\?", {"status": 504}),
        ("GET", r"/log\?", {"status": 500}),
        ("GET", r"/log\?", {}),
        ("GET", "watch=true", {"status": 500}),
        ("GET", "watch=true", {}),
        ("DELETE", "", {"status": 500}),
        ("DELETE", "", {}),
        ("", "", {"status": 500}),
    ],
)
def test_what_fails_for_a_while_is_tried_again(cluster, tmp_path, method, path, fault):
    play(cluster, succeed)
    cluster.fail(method, path, times=3, **fault)
    assert run(plan(tmp_path)) == ["step 1", "step 2"]
    assert len({request.path for request in cluster.made("DELETE")}) == 1


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(cluster, tmp_path):
    play(cluster, succeed)
    cluster.fail("POST", times=1, status=429, Retry_After="1")
    run(plan(tmp_path))
    assert len(cluster.made("POST")) == 2  # the first pause by itself would be a fifth of that second


def test_a_deletion_whose_answer_is_lost_is_a_deletion(cluster, tmp_path):
    play(cluster, succeed)
    cluster.fail("DELETE", done=True, times=1)
    assert run(plan(tmp_path)) == ["step 1", "step 2"]


@pytest.mark.parametrize(
    ("status", "message", "said"),
    [
        (500, WEBHOOK, r"JobSet controller has not answered.*mjobset\.kb\.io.*kubectl get pods -n jobset-system"),
        (503, "the server is currently unable to handle the request", r"does not answer \(503 the server"),
        (None, "", r"does not answer"),
    ],
)
def test_what_goes_on_failing_is_said_in_one_line(cluster, tmp_path, monkeypatch, status, message, said):
    monkeypatch.setattr(api, "PATIENCE_S", 1.0)
    cluster.fail("POST", status=status, message=message)
    with pytest.raises(UserError, match=said) as error:
        run(plan(tmp_path))
    assert "\n" not in str(error.value)
    assert len(cluster.made("POST")) > 1


def test_streams_that_are_cut_off_lose_and_repeat_no_line(cluster, tmp_path):
    lines = [f"step {number}" for number in range(200)]

    def script(made):
        made.makes_pods()
        made.starts()
        for begin in range(0, len(lines), 20):
            cluster.cuts = 3
            made.writes(*lines[begin : begin + 20])
            made.is_seen()
        cluster.cuts = 0
        made.succeeds()

    play(cluster, script)
    assert run(plan(tmp_path)) == lines


def test_a_watch_whose_history_is_gone_is_opened_anew(cluster, tmp_path):
    def script(made):
        made.runs("step 1")
        for _ in range(3):
            made.is_seen()
            cluster.forget()
        made.succeeds()

    play(cluster, script)
    assert run(plan(tmp_path)) == ["step 1"]
    assert len([r for r in cluster.made("GET", "/jobsets$") if "watch" in r.query]) > 1


def test_without_the_right_to_watch_and_to_see_events_the_poll_is_enough(cluster, tmp_path):
    play(cluster, succeed)
    cluster.fail("GET", "watch=true", status=403)
    cluster.fail("GET", "/events", status=403)
    assert run(plan(tmp_path)) == ["step 1", "step 2"]


def test_a_server_that_is_away_while_the_workload_runs_is_waited_for(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(api, "PATIENCE_S", 0.3)

    def script(made):
        made.runs("step 1")
        made.is_seen()
        cluster.fail()
        asked = len(cluster.requests)
        while len(cluster.requests) < asked + 20:
            pass
        cluster.heal()
        made.writes("step 2")
        made.succeeds()

    play(cluster, script)
    assert run(plan(tmp_path)) == ["step 1", "step 2"]
    assert "no word from the cluster, the workload goes on" in capsys.readouterr().out


def test_a_server_that_stays_away_is_given_up(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(api, "PATIENCE_S", 0.3)
    monkeypatch.setattr(watch, "OUTAGE_S", 0.5)
    play(cluster, lambda made: (made.runs("step 1"), made.is_seen(), cluster.fail()))
    with pytest.raises(UserError, match="does not answer"):
        run(plan(tmp_path))
