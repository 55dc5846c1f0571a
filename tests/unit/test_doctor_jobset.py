"""Doctor on JobSet: served, and the run's own objects accepted in a dry run."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
from doctor_api import JOBSETS, Cluster, look, only


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with doctor_api.cluster() as played:
        yield played


def test_the_version_that_the_launcher_speaks_is_served(cluster):
    assert only(look(cluster, "jobset")).status == "ok"


def test_a_cluster_without_jobset_is_a_failure_with_the_command_that_installs_it(cluster):
    del cluster.objects[JOBSETS]
    found = only(look(cluster, "jobset"))
    assert found.status == "failure" and found.cure.startswith("kubectl apply --server-side")


def test_another_version_is_a_failure_that_names_it(cluster):
    cluster.objects[JOBSETS] = {"versions": [{"version": "v1beta1"}]}
    found = only(look(cluster, "jobset"))
    assert found.status == "failure" and "serves v1beta1" in found.text


def test_the_objects_of_every_stage_are_tried_without_being_kept(cluster):
    found = only(look(cluster, "dry-run"))
    assert (found.status, found.text.split()[0]) == ("ok", "4")
    sent = {body["metadata"]["labels"]["posttrain.dev/stage"]: body for body in cluster.sent}
    assert list(sent) == ["convert", "train", "evaluate", "export"]
    workers = sent["train"]["spec"]["replicatedJobs"][1]["template"]["spec"]
    assert (workers["parallelism"], workers["template"]["spec"]["nodeSelector"]) == (8, doctor_api.V6E)


@pytest.mark.parametrize(
    "status, message",
    [
        (403, 'jobsets.jobset.x-k8s.io "train" is forbidden: exceeded quota: team, requested: count/jobsets=1'),
        (422, 'JobSet "train" is invalid: spec.replicatedJobs: Invalid value'),
        (400, 'admission webhook "vjobset.kb.io" denied the request: name too long'),
        (404, 'namespaces "default" not found'),
    ],
)
def test_a_refusal_is_a_failure_in_the_servers_words(cluster, status, message):
    cluster.refusal = (status, message)
    found = only(look(cluster, "dry-run"))
    assert found.status == "failure" and message in found.text


def test_without_the_right_to_create_nothing_is_known(cluster):
    message = 'jobsets.jobset.x-k8s.io is forbidden: User "me" cannot create resource "jobsets" in API group'
    cluster.refusal = (403, message)
    found = only(look(cluster, "dry-run"))
    assert found.status == "unknown" and "rbac.yaml" in found.cure


def test_a_controller_whose_webhook_does_not_answer_is_a_failure(cluster, monkeypatch):
    monkeypatch.setattr("pipelines.doctor.case._PATIENCE_S", 0.0)
    cluster.refusal = (500, 'Internal error occurred: failed calling webhook "mjobset.kb.io": connection refused')
    found = only(look(cluster, "dry-run"))
    assert found.status == "failure" and "kubectl get pods -n jobset-system" in found.text
