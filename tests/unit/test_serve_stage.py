"""The stage: what it makes of what the program reports, and of an export or a machine on which nothing can be served."""

import json
import stat
import sys
from pathlib import Path

import pandas as pd
import pytest
from serving_examples import exported, plan_of

from components import manifest, record, storage
from components.errors import UserError, WorkloadError
from components.record import ArtifactRecord
from components.results import ServingCheck
from components.serve import job
from components.serve.serve import serve
from components.serve.spec import Answer, Answers, Compared, Fault, Question, Report, Speed, Stop
from components.sources import dataset
from components.sources.tiny.make import WARM_QWEN3
from components.workloads import interpreter

# stands in for the Python that has vLLM: it writes the report that REPORT holds, and exits with CODE
PROGRAM = """#!{python}
import json, os, pathlib, sys
result = pathlib.Path(json.loads(sys.argv[sys.argv.index("--spec") + 1])["result"])
print("serve: asking vLLM: everything")
if os.environ["REPORT"]:
    (result / "report.json").write_text(os.environ["REPORT"])
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that has come as far as its export, with the warm start as the trained model."""
    return Run(tmp_path, monkeypatch)


class Run:
    def __init__(self, root: Path, monkeypatch) -> None:
        self.monkeypatch = monkeypatch
        self.plan = plan_of(root, "serve.enabled=true")
        self.model = exported(root / "export")
        manifest.write_manifest(self.model)
        self.data = dataset.fetch_dataset(self.plan.config.data, str(root / "data"), 0, need_eval=256)
        self.table = dataset.read(self.data.data_uri, "eval")
        self.texts = [f"<answer>{json.loads(answer)[0]}</answer>" for answer in self.table["answer"]]
        self.evaluation(wrong=0)

    def evaluation(self, wrong: int) -> None:
        """The evaluation's table: greedy answers, the first `wrong` of them wrong, and one sample that is not greedy."""
        rows = [
            {"id": name, "greedy": greedy, "completion": text, "correct": float(at >= wrong), "truncated": False}
            for at, (name, text) in enumerate(zip(self.table["id"], self.texts, strict=True))
            for greedy in (False, True)
        ]
        folder = Path(self.plan.stage_dir("evaluate"))
        folder.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_parquet(folder / "scored-after.parquet")

    def report(self, **changes) -> Report:
        """What the program measures of a model that is the trained one."""
        asked = [Question.model_validate_json(line) for line in self.asked()]
        every = [
            Answer(id=q.id, prompt_ids=q.prompt_ids, token_ids=[1, 2], logprobs=[0, 0], text=text, ended=True)
            for q, text in zip(asked, self.texts[:64], strict=True)
        ]
        answers = {
            "vllm": "0.32.0",
            "models": [job.served_name(self.plan)],
            "completions": every[:8],
            "chats": every[:8],
            "stop": Stop(stop="er", text="<answ", whole="<answer>"),
            "at_once": every,
            "speed": Speed(first_token_s=[0.1, 0.3, 0.2], tokens_per_s_alone=10, tokens_per_s_at_once=30),
            **changes,
        }
        compared = [Compared(id=a.id, tokens=2, greedy=2, max_logprob_diff=2e-6) for a in (*every[:8], *every[:8])]
        return Report(ready_s=40, answers=Answers(**answers), compared=compared)

    def asked(self) -> list[str]:
        from components.serve.prompts import prompts

        table = self.table.head(64)
        template = storage.read_text(storage.join(self.data.data_uri, "template.json"))
        return [
            q.model_dump_json()
            for q in prompts(dict(zip(table["id"], table["question"], strict=True)), template, WARM_QWEN3)
        ]

    def serve(self, report: Report | None, code: int = 0):
        """Runs the stage with a program that reports this."""
        python = Path(self.plan.run_dir) / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(PROGRAM.format(python=sys.executable))
        python.chmod(python.stat().st_mode | stat.S_IEXEC)
        self.monkeypatch.setenv(interpreter.variable("serving"), str(python))
        self.monkeypatch.setenv("REPORT", report.model_dump_json() if report else "")
        self.monkeypatch.setenv("CODE", str(code))
        return self.stage()

    def stage(self):
        def made(kind, place):
            return ArtifactRecord(kind=kind, format="x", data_uri=str(place), step=60)

        return serve(
            self.plan,
            made("hf-model", self.model),
            made("hf-model", WARM_QWEN3),
            made("evaluation", self.plan.stage_dir("evaluate")),
            self.data,
        )

    def kept(self) -> ServingCheck:
        return ServingCheck.model_validate_json((Path(job.result_dir(self.plan)) / "serving.json").read_text())


def test_a_model_that_is_the_trained_one_passes_with_all_figures(run):
    result = run.serve(run.report())
    check = run.kept()
    assert (check.status, check.reason, check.findings) == ("passed", "", [])
    assert (check.n_prompts, check.n_greedy_equal, check.n_questions, check.n_answers_equal) == (16, 16, 64, 64)
    assert (check.accuracy, check.evaluated_accuracy, check.first_token_s, check.ready_s) == (1, 1, 0.2, 40)
    assert 0.9 < check.evaluated_ci_low < check.evaluated_ci_high == 1
    made = result.records["serving"]
    assert (made.kind, made.step, made.extra["status"]) == ("serving-check", 60, "passed")
    assert record.read(made.data_uri) == made
    assert manifest.is_complete(made.data_uri)
    assert result.metrics["max_logprob_diff"] == pytest.approx(2e-6)
    assert "16 of 16 greedy answers" in result.note


def test_a_finding_fails_the_stage_and_the_figures_are_kept(run):
    with pytest.raises(WorkloadError, match=r"another server answered") as raised:
        run.serve(run.report(models=["other"], stop=Stop(stop="er", text="<answer>", whole="<answer>")))
    assert "stop sequences" in raised.value.evidence[0]
    assert (run.kept().status, run.kept().n_questions) == ("failed", 64)
    assert len(run.kept().findings) == 2


def test_a_served_model_that_answers_worse_than_the_evaluated_one_fails(run):
    report = run.report()
    wrong = [answer.model_copy(update={"text": "<answer>no</answer>"}) for answer in report.answers.at_once]
    at_once = [*report.answers.at_once[:58], *wrong[58:]]
    with pytest.raises(WorkloadError, match=r"answers 90\.6% of 64 questions rightly; the evaluated one 100\.0%"):
        run.serve(run.report(at_once=at_once))
    run.evaluation(wrong=6)
    run.serve(run.report(at_once=at_once))


def test_the_reason_of_a_server_that_did_not_serve_is_the_stage_s_with_lines_of_its_log(run):
    with pytest.raises(WorkloadError, match="Port 80 is in use") as raised:
        run.serve(Report(fault=Fault(reason="Port 80 is in use", evidence=["a line"])), code=1)
    assert raised.value.evidence == ("a line",)
    assert (run.kept().status, run.kept().reason, run.kept().accuracy) == ("failed", "Port 80 is in use", None)


def test_a_fault_of_an_earlier_attempt_is_not_that_of_the_next(run):
    with pytest.raises(WorkloadError, match="earlier"):
        run.serve(Report(fault=Fault(reason="earlier", evidence=[])), code=1)
    with pytest.raises(WorkloadError, match="exit code 7"):
        run.serve(None, code=7)
    assert "exit code 7" in run.kept().reason
    assert run.serve(run.report()).records["serving"].extra["status"] == "passed"


@pytest.mark.parametrize("harm", ["changed", "cut off", "missing"])
def test_a_damaged_export_is_named_and_never_served(run, harm):
    shard = run.model / "model.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    if harm == "missing":
        shard.unlink()
    else:
        shard.write_bytes(data if harm == "changed" else data[:-100])
    with pytest.raises(WorkloadError, match=r"The exported model is damaged: .*model\.safetensors is"):
        run.serve(run.report())
    assert run.kept().status == "failed"
    assert not (Path(job.result_dir(run.plan)) / "report.json").exists()


def test_without_an_environment_the_check_is_not_run_and_no_pass(run, tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "IMAGES", tmp_path / "none")
    result = run.stage()
    assert (run.kept().status, result.records["serving"].extra["status"]) == ("not run", "not run")
    assert "not there" in run.kept().reason
    assert result.metrics == {}
    assert result.note.startswith("not run: ")


def test_a_python_without_vllm_is_not_run_and_no_pass(run):
    result = run.serve(Report(absent="vLLM is not installed"))
    assert (run.kept().status, run.kept().reason) == ("not run", "vLLM is not installed")
    assert result.metrics == {}


def test_other_artifacts_are_refused(run):
    with pytest.raises(UserError, match="Wanted a 'hf-model' artifact"):
        serve(run.plan, run.data, run.data, run.data, run.data)


def test_what_the_program_prints_is_kept_and_its_progress_is_said(run, capfd):
    run.serve(run.report())
    assert "asking vLLM" in (Path(run.plan.stage_dir("serve")) / "log-1.txt").read_text()
    assert "posttrain[serve] asking vLLM: everything" in capfd.readouterr().out
