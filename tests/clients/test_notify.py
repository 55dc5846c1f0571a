"""What a webhook is told of a run, and that one that fails is a line of the log."""

import pytest

from components import notify, secrets
from components.errors import UserError, WorkloadError
from components.results import Published, RunRecord, Verdict
from components.stage import fail
from tests.clients.played import Service, closed_port, serve
from tests.clients.test_publish_vertex import FOUND

PATH = "/services/T1/B2/secret-part"


class Webhook(Service):
    def answer(self, request):
        assert (request.method, request.path) == ("POST", PATH)
        assert request.json.keys() == {"text"}
        return "ok"

    @property
    def texts(self):
        return [request.json["text"] for request in self.requests]


@pytest.fixture
def webhook(monkeypatch):
    with serve(Webhook()) as served:
        monkeypatch.setenv(secrets.WEBHOOK, served.url + PATH)
        yield served


def run(**facts) -> RunRecord:
    return RunRecord(
        run_id="weekly-7",
        preset="tiny-qwen3",
        config_sha256="1",
        code_version="1",
        status="succeeded",
        started="2026-11-30T10:00:00+00:00",
        seconds=1.0,
        where="vertex",
        engine="jobset",
        stages=[],
        model_uri="gs://b/runs/weekly-7/export/model",
        report_uri="gs://b/runs/weekly-7/report.html",
        **facts,
    )


def test_a_finished_run_is_told_with_verdict_figures_model_and_report(webhook):
    notify.finished(run(evaluation=FOUND))
    (text,) = webhook.texts
    assert text.splitlines() == [
        "*weekly-7*: *PROMOTE*. Accuracy 50.0% to 75.0% on 200 questions, difference +25.0 points (+20.0 to +30.0).",
        "Accuracy against the base: +25.0 points.",
        "Model: gs://b/runs/weekly-7/export/model",
        "Report: gs://b/runs/weekly-7/report.html",
    ]


def test_it_says_where_the_model_was_published(webhook):
    page = "https://huggingface.co/acme/maths/commit/1"
    published = Published(verdict=Verdict.PROMOTE, promoted=True, slot="s", hub=page, vertex="projects/p/models/m@1")
    notify.finished(run(evaluation=FOUND, published=published))
    assert f"Published: {page}, projects/p/models/m@1" in webhook.texts[0]


def test_a_run_without_evaluation_is_told_too(webhook):
    notify.finished(run())
    assert webhook.texts[0].startswith("*weekly-7*: finished\nModel: ")


@pytest.mark.parametrize(
    "error", [UserError("No disk."), WorkloadError("train", "It ran out of memory."), KeyError("odd")]
)
def test_a_failing_stage_is_told_once_with_its_reason_before_its_last_line(webhook, error, capsys, tmp_path):
    with pytest.raises(SystemExit):
        fail(str(tmp_path), "train", error, run_id="weekly-7")
    (text,) = webhook.texts
    assert text.startswith("*weekly-7*: *FAILED* in train\n")
    reason = text.splitlines()[1]
    assert capsys.readouterr().out.splitlines()[-1] == f"posttrain-failure: train: {reason}"


def test_a_text_mentions_nobody_and_links_nowhere_by_accident(webhook):
    notify.failed("weekly-7", "train", "<!channel> a < b && c > d")
    assert "&lt;!channel&gt; a &lt; b &amp;&amp; c &gt; d" in webhook.texts[0]


def test_without_an_address_nobody_is_told(webhook, monkeypatch, capsys):
    monkeypatch.delenv(secrets.WEBHOOK)
    monkeypatch.setattr(secrets, "_resources", {})
    notify.failed("weekly-7", "train", "why")
    assert webhook.requests == []
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("trouble", ["404", "hang", "drop", "away", "no address", "no secret"])
def test_a_webhook_that_fails_is_a_line_without_its_address_and_fails_nothing(webhook, trouble, monkeypatch, capsys):
    monkeypatch.setattr(notify, "_TIMEOUT_S", 0.5)
    if trouble == "404":
        webhook.refuse("POST", PATH, 404, "no_service")
    elif trouble in ("hang", "drop"):
        getattr(webhook, trouble)("POST", PATH)
    elif trouble == "away":
        monkeypatch.setenv(secrets.WEBHOOK, closed_port() + PATH)
    elif trouble == "no address":
        monkeypatch.setenv(secrets.WEBHOOK, "secret-part")
    else:
        monkeypatch.delenv(secrets.WEBHOOK)
        monkeypatch.setattr(
            secrets, "_resources", {secrets.WEBHOOK: "projects/p/secrets/other/versions/1"}
        )  # and no credentials
    notify.failed("weekly-7", "train", "why")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("posttrain[train] the webhook was not told: ")
    assert "secret-part" not in line
