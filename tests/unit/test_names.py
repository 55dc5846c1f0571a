"""Names that fit what Kubernetes, JobSet and KubeRay allow, and labels by which a run is found again."""

import re

import pytest

from components.stage import STAGES
from components.workloads import names
from components.workloads.workload import Workload

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
RUN_IDS = [
    "tiny-qwen3-20260105-101112-ab12",
    "a" * 63,
    "a" * 64,
    "Q" * 60 + "-20260105-101112-ab12",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "My_Preset.v2-20260105-101112-ab12",
    "projects/p/pipelineJobs/grpo-1",
    "läuft",
    "-odd-",
    "_",
    "a" * 52 + "......" + "b" * 30,
]


def workload(run_id, stage="train"):
    return Workload(stage=stage, run_id=run_id, command=("true",))


@pytest.mark.parametrize("run_id", RUN_IDS)
@pytest.mark.parametrize("limit", [22, 43, 47])
@pytest.mark.parametrize("stage", [*STAGES, "evaluate-champion", "Serving_check", "collectives"])
def test_a_name_is_a_dns_label_that_fits(run_id, stage, limit):
    name = names.object_name(run_id, stage, 12, limit)
    assert len(name) <= limit
    assert DNS_LABEL.fullmatch(name)


@pytest.mark.parametrize("stage", STAGES)
def test_a_name_tells_the_stage(stage):
    assert names.object_name("run", stage, 1).startswith(f"{stage}-")


def test_the_same_attempt_has_the_same_name_and_every_other_one_another():
    attempts = [(run, stage, attempt) for run in RUN_IDS for stage in STAGES for attempt in range(1, 13)]
    assert len({names.object_name(*attempt) for attempt in attempts}) == len(attempts)
    # a launcher that is started again, perhaps from a later version, must find what it had started
    assert names.object_name("tiny-qwen3-20260105-101112-ab12", "train", 1) == "train-d46ff3e925"


def test_parts_of_a_name_do_not_run_into_each_other():
    assert names.object_name("run-1", "train", 2)[-10:] != names.object_name("run-", "1train", 2)[-10:]
    assert names.object_name("run", "train", 11) != names.object_name("run1", "train", 1)


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_labels_have_valid_values_whatever_the_run_is_called(run_id):
    labels = names.labels(workload(run_id))
    assert labels[names.MANAGED_BY] == "posttrain"
    assert labels[names.STAGE] == "train"
    assert all(LABEL_VALUE.fullmatch(value) for value in labels.values())


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_a_run_id_that_is_valid_is_its_own_label_and_the_whole_one_is_in_the_annotation(run_id):
    if LABEL_VALUE.fullmatch(run_id):
        assert names.labels(workload(run_id))[names.RUN] == run_id
    assert names.run_annotation(workload(run_id)) == {names.RUN_ID: run_id}


def test_runs_that_are_alike_have_labels_of_their_own():
    alike = [*RUN_IDS, "a" * 65, "a" * 66, "läuft!", "lauft", "--odd--", "__"]
    assert len({names.labels(workload(run_id))[names.RUN] for run_id in alike}) == len(alike)


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_the_selector_of_a_run_matches_its_labels_and_no_other_runs(run_id):
    wanted = dict(term.split("=", 1) for term in names.run_selector(run_id).split(","))
    found = [other for other in RUN_IDS if wanted.items() <= names.labels(workload(other)).items()]
    assert found == [run_id]
