"""The exit task: it ends what a lost launcher left, touches nothing else, and never decides how a run ended."""

import json

import pytest
from cluster_runs import jobsets, plan, play, served, states, workload
from kfp import compiler, components, dsl, local
from kubernetes_api import JOBSETS

from components.plan import PLAN
from components.report.component import report
from components.stage import STAGES
from components.workloads import jobset, kube, launch, ledger
from components.workloads.leftovers import clean_up as work
from components.workloads.workload import Order


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    with served(monkeypatch, tmp_path) as api:
        yield api


def prepared(folder, *settings, **changes):
    """A run whose plan lies where `prepare` puts it."""
    the_plan = plan(folder, *settings).model_copy(update=changes)
    folder.joinpath("run").mkdir(parents=True, exist_ok=True)
    folder.joinpath("run", PLAN).write_text(the_plan.model_dump_json())
    return the_plan


def left(the_plan, cluster, stage="train"):
    """What a launcher leaves that is killed right after the object was created: an open attempt and the object."""
    wanted = workload().model_copy(update={"stage": stage, "run_id": the_plan.run_id})
    found = ledger.begin(the_plan.stage_dir(stage), wanted, "jobset")
    order = Order(workload=wanted, name=found.name, directory=found.directory, silence_s=900.0)
    cluster.put(f"{JOBSETS}/jobsets", jobset.manifest(order, the_plan.config.cluster, None))


def cleaned(capsys, **parameters) -> list[str]:
    """What the exit task says of a run with these parameters."""
    capsys.readouterr()
    everything = {"config": "{}", "overrides": "", "job_id": "from-kfp", "run_id": "", "output": "", "store": ""}
    work(**everything | parameters)
    said = capsys.readouterr().out.splitlines()
    assert all(line.startswith("posttrain[clean-up] ") for line in said)
    return [line.partition("] ")[2] for line in said]


@pytest.mark.parametrize("stage", STAGES)
def test_a_workload_whose_launcher_was_lost_is_ended(cluster, tmp_path, capsys, stage):
    the_plan = prepared(tmp_path)
    left(the_plan, cluster, stage)
    (name,) = (made["metadata"]["name"] for made in jobsets(cluster))
    said = cleaned(capsys, run_id=the_plan.run_id, output=the_plan.run_dir)
    assert said == [f"deleted JobSet {name}"]
    assert jobsets(cluster) == []
    assert ledger.opened(the_plan.stage_dir(stage)) is None


@pytest.mark.parametrize(
    "parameters",
    [
        {"output": "{run}", "run_id": "{id}"},
        {"output": "{run}", "job_id": "{id}"},
        {"store": "{root}", "run_id": "{id}"},
        {"config": '{"preset": "x", "store": "{root}"}', "job_id": "{id}"},
        {"config": '{"preset": "x"}', "overrides": "seed=1\nstore={root}", "job_id": "{id}"},
    ],
)
def test_the_run_is_found_by_the_parameters_alone(cluster, tmp_path, capsys, parameters):
    the_plan = prepared(tmp_path)
    home = tmp_path / "root" / "runs"
    home.mkdir(parents=True)
    (home / the_plan.run_id).symlink_to(tmp_path / "run")
    left(the_plan, cluster)
    places = {"{run}": str(tmp_path / "run"), "{root}": str(tmp_path / "root"), "{id}": the_plan.run_id}
    for name, text in parameters.items():
        for word, place in places.items():
            text = text.replace(word, place)
        if name == "config":
            text = json.dumps(the_plan.config.model_dump(mode="json") | {"store": json.loads(text).get("store")})
        parameters = {**parameters, name: text}
    cleaned(capsys, **parameters)
    assert jobsets(cluster) == []


def test_another_run_that_occupies_the_output_is_left_alone(cluster, tmp_path, capsys):
    the_plan = prepared(tmp_path)
    left(the_plan, cluster)
    assert cleaned(capsys, run_id="mine", output=the_plan.run_dir) == ["the run made no plan"]
    assert len(jobsets(cluster)) == 1
    assert states(the_plan) == ["open"]


def test_a_detached_workload_goes_on(cluster, tmp_path, capsys):
    the_plan = prepared(tmp_path, "cluster.detached=true")
    left(the_plan, cluster)
    cleaned(capsys, run_id=the_plan.run_id, output=the_plan.run_dir)
    assert len(jobsets(cluster)) == 1


def test_a_workload_that_failed_stays_to_be_looked_at(cluster, tmp_path, capsys):
    the_plan = prepared(tmp_path)
    play(cluster, lambda made: (made.runs(), made.fails("The slice ran out of memory.")))
    with pytest.raises(Exception, match="out of memory"):
        launch.run(the_plan, workload(), lambda line: None)
    before = len(cluster.requests)
    assert cleaned(capsys, run_id=the_plan.run_id, output=the_plan.run_dir) == ["nothing is left"]
    assert len(jobsets(cluster)) == 1
    assert len(cluster.requests) == before


@pytest.mark.parametrize(
    "parameters",
    [
        {"config": ""},
        {"config": "no JSON"},
        {"config": "[1]"},
        {"config": "{}"},
        {"config": "{}", "overrides": "train.stepz=1"},
        {"store": "ftp://host/store"},
        {"output": "/nowhere/at/all"},
    ],
)
def test_a_run_that_prepare_refused_is_no_failure_of_the_exit_task(cluster, capsys, parameters):
    (said,) = cleaned(capsys, **parameters)
    assert "\n" not in said
    assert cluster.requests == []


def test_a_plan_of_another_version_is_no_failure_of_the_exit_task(cluster, tmp_path, capsys):
    prepared(tmp_path)
    (tmp_path / "run" / PLAN).write_text('{"run_id": "tiny-0101-abcd", "colour": "blue"}')
    assert cleaned(capsys, run_id="tiny-0101-abcd", output=str(tmp_path / "run")) == ["the run made no plan"]


def test_a_cluster_that_does_not_answer_is_no_failure_of_the_exit_task(cluster, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(kube, "PROBE_S", 0.5)
    the_plan = prepared(tmp_path)
    left(the_plan, cluster)
    cluster.fail(status=503)
    (said,) = cleaned(capsys, run_id=the_plan.run_id, output=the_plan.run_dir)
    assert said.startswith("what the run may have in the cluster ends itself: The cluster at ")
    assert states(the_plan) == ["open"]


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline that prepares a run, fails or does not, and cleans up; as YAML, so as what is uploaded."""

    @dsl.component(base_image="python", install_kfp_package=False)
    def stage(fails: bool) -> str:
        if fails:
            raise RuntimeError("the stage failed")
        return "done"

    @dsl.pipeline(name="with-exit")
    def with_exit(fails: bool, run_id: str, output: str) -> None:
        end = report(
            config="{}", overrides="", job_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER, run_id=run_id, output=output, store=""
        )
        with dsl.ExitHandler(end):
            stage(fails=fails)

    file = tmp_path / "with-exit.yaml"
    compiler.Compiler().compile(with_exit, package_path=str(file))
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "kfp"), raise_on_error=True)
    return components.load_component_from_file(str(file))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fails", [False, True])
def test_the_local_runner_runs_it_at_exit_however_the_pipeline_went(cluster, tmp_path, pipeline, fails):
    the_plan = prepared(tmp_path)
    left(the_plan, cluster)

    def go():
        pipeline(fails=fails, run_id=the_plan.run_id, output=the_plan.run_dir)

    if fails:
        with pytest.raises(RuntimeError, match="'stage'"):
            go()
    else:
        go()
    assert jobsets(cluster) == []
    assert states(the_plan) == ["cancelled"]
