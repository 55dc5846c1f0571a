"""Doctor against a real Kubernetes, as the launcher's own service account with the shipped rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from components import config
from components.errors import UserError
from pipelines import doctor
from pipelines.doctor import checks, run
from pipelines.doctor.case import Case
from tests.cluster import harness
from tests.cluster.harness import Bucket, Cluster

IMAGES = "cluster.images={training: r.dev/p/training:1, converter: r.dev/p/converter:1}"
TOKEN = "hf_SENTINEL_OF_DOCTOR"


class Account:
    """The launcher's service account in a namespace, and what doctor finds with its rights."""

    def __init__(self, cluster: Cluster, namespace: str, store: str) -> None:
        self.namespace, self.store = namespace, store
        self.slice_pool, self.cpu_pool = f"slice-{namespace}", f"cpu-{namespace}"
        self.config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
        token = cluster.kubectl("create", "token", "posttrain-launcher", "-n", namespace).strip()
        self.config["users"] = [{"name": user["name"], "user": {"token": token}} for user in self.config["users"]]

    def connect(self, _cluster: object = None) -> client.ApiClient:
        from kubernetes.config import new_client_from_config_dict

        return new_client_from_config_dict(self.config)

    def preset(self, *settings: str, name: str = "gemma4-26b-v6e-32") -> config.AnyConfig:
        own = (
            f"cluster.namespace={self.namespace}",
            f"cluster.cpu_pool={self.cpu_pool}",
            f"tpu.pools=[{self.slice_pool}]",
            IMAGES,
        )
        return config.load(name, (*own, *settings))

    def examine(self, *settings: str) -> dict[str, list[doctor.Finding]]:
        found = doctor.examine(self.preset(*settings), store=self.store, output=None, connect=self.connect)
        by_check: dict[str, list[doctor.Finding]] = {}
        for finding in found:
            by_check.setdefault(finding.check, []).append(finding)
        return by_check

    def look(self, check: str, *settings: str, preset: str = "gemma4-26b-v6e-32") -> list[doctor.Finding]:
        case = Case(self.preset(*settings, name=preset), self.store, None, self.connect, lambda name: pytest.fail(name))
        return list(run.findings(check, {**checks.of("jobset"), **checks.ENGINES["rayjob"]}[check], case))


@pytest.fixture
def account(cluster: Cluster, namespace: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Account:
    """The launcher, with the optional rights of doctor, in a namespace that has the Secret; the hub is out of reach."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    cluster.apply(harness.rbac(namespace, "rbac.yaml", "rbac-doctor.yaml"))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hf-secret"},
        "stringData": {"hf_api_token": TOKEN},
    }
    cluster.apply(secret, "-n", namespace)
    return Account(cluster, namespace, f"{bucket.uri}/posttrain")


@pytest.fixture
def nodes(cluster: Cluster, account: Account, played_slice: Callable[..., str]) -> None:
    """A slice and machines for its head and the converters."""
    played_slice("v6e-32", pool=account.slice_pool)
    played_slice("cpu", "--nodes", "2", pool=account.cpu_pool)
    wait_for_nodes(cluster, account.slice_pool, account.cpu_pool)


def wait_for_nodes(cluster: Cluster, *pools: str) -> None:
    """Until Kubernetes has taken its own taint off new nodes."""

    def are_ready() -> bool:
        nodes = cluster.json("get", "node", "-l", f"cloud.google.com/gke-nodepool in ({','.join(pools)})")["items"]
        return not any("node.kubernetes.io/not-ready" in json.dumps(node["spec"]) for node in nodes)

    harness.wait_until(are_ready, 60)


def failures(found: dict[str, list[doctor.Finding]]) -> list[doctor.Finding]:
    return [f for findings in found.values() for f in findings if f.status == "failure"]


def test_a_cluster_as_the_docs_prepare_it_has_no_failure(account, nodes):
    found = account.examine()
    assert failures(found) == []
    for check in ("api", "namespace", "rights", "secret", "nodes", "jobset", "dry-run"):
        assert {f.status for f in found[check]} == {"ok"}, found[check]
    assert f"system:serviceaccount:{account.namespace}:posttrain-launcher" in found["api"][0].text
    assert TOKEN not in repr(found)


def test_the_shipped_rights_let_every_check_look(account, queue, nodes):
    named = ("cluster.service_account=posttrain-workload", "cluster.priority=system-cluster-critical")
    found = account.examine(*named, f"cluster.queue={queue(account.namespace)}")
    found |= {check: account.look(check) for check in ("tpu-webhook", "dranet")}
    assert not [f for findings in found.values() for f in findings if "does not allow" in f.text]
    assert {f.status for f in found["account"] + found["priority"] + found["queue"]} == {"ok"}


def test_it_leaves_nothing_in_the_cluster(cluster, account, nodes):
    account.examine()
    assert cluster.json("get", "jobsets,jobs,pods", "-n", account.namespace)["items"] == []


@pytest.mark.parametrize("verb, resource", [("delete", "jobsets"), ("watch", "pods"), ("get", "secrets")])
def test_a_verb_that_is_taken_from_the_role_is_named_and_stops_a_run(cluster, account, verb, resource):
    role = cluster.json("get", "role", "posttrain-launcher", "-n", account.namespace)
    for rule in role["rules"]:
        if resource in rule["resources"]:
            rule["verbs"].remove(verb)
    role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
    cluster.apply(json.dumps(role))
    (found,) = account.look("rights")
    assert found.status == "failure" and f"{verb} {resource}" in found.text
    with pytest.raises(UserError, match=f"{verb} {resource}"):
        doctor.refuse(account.preset(), account.store, account.connect)


def test_the_command_stops_a_run_before_anything_is_created(cluster, account, tmp_path):
    role = cluster.json("get", "role", "posttrain-launcher", "-n", account.namespace)
    role["rules"] = [rule for rule in role["rules"] if "pods/log" not in rule["resources"]]
    cluster.apply(json.dumps(role))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(account.config))
    settings = ["engine=jobset", f"cluster.namespace={account.namespace}", "cluster.cpu_pool=null", IMAGES]
    arguments = [part for setting in settings for part in ("--set", setting)]
    for command, code in (("doctor", 1), ("run", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", command, "tiny-qwen3", "--store", account.store, *arguments],
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(harness.ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert f"not allowed in namespace {account.namespace}: get pods/log" in done.stdout + done.stderr
    assert not (tmp_path / "runs").exists()
    assert cluster.json("get", "jobsets", "-n", account.namespace)["items"] == []


def test_without_the_optional_rights_the_rest_is_looked_at_all_the_same(cluster, account, nodes):
    cluster.kubectl("delete", "clusterrolebinding", f"posttrain-doctor-{account.namespace}")
    found = account.examine()
    assert failures(found) == []
    assert {f.status for f in found["nodes"]} == {"unknown"} and "cannot list resource" in found["nodes"][0].text
    assert {f.status for f in found["rights"] + found["dry-run"]} == {"ok"}


def test_a_slice_that_the_cluster_does_not_have_is_told(cluster, account, played_slice):
    played_slice("cpu", "--nodes", "1", pool=account.cpu_pool)
    worker = next(f for f in account.look("nodes") if "worker" in f.text)
    assert worker.status == "unknown" and "no node has gke-tpu-accelerator=tpu-v6e-slice" in worker.text
    played_slice("v6e-32", pool=account.slice_pool)
    wait_for_nodes(cluster, account.slice_pool)
    cluster.kubectl("cordon", f"{account.slice_pool}-3")
    worker = next(f for f in account.look("nodes") if "worker" in f.text)
    assert worker.status == "failure" and f"of 8 nodes in {account.slice_pool}, 1 cordoned" in worker.text


def test_a_secret_that_is_not_there_stops_a_run(cluster, account):
    cluster.kubectl("delete", "secret", "hf-secret", "-n", account.namespace)
    assert account.look("secret")[0].status == "failure"
    with pytest.raises(UserError, match="no Secret hf-secret"):
        doctor.refuse(account.preset(), account.store, account.connect)


def test_a_namespace_that_would_refuse_the_pods_stops_a_run(cluster, account):
    label = "pod-security.kubernetes.io/enforce=baseline"
    cluster.kubectl("label", "namespace", account.namespace, label)
    (found,) = account.look("namespace")
    assert found.status == "failure" and "privileged containers" in found.text


def test_a_quota_of_the_namespace_is_met_in_the_dry_run(cluster, account):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    quota["spec"] = {"hard": {"count/jobsets.jobset.x-k8s.io": "0"}}
    cluster.apply(quota, "-n", account.namespace)
    used = ("get", "resourcequota", "none", "-n", account.namespace)
    harness.wait_until(lambda: cluster.json(*used).get("status", {}).get("hard"), 30)
    (found,) = account.look("dry-run")
    assert found.status == "failure" and "exceeded quota: none" in found.text


def test_a_queue_admits_one_slice_of_its_quota_and_not_two(account, queue, nodes):
    name = f"cluster.queue={queue(account.namespace)}"
    (found,) = account.look("queue", name)
    assert found.status == "ok", found
    (found,) = account.look("queue", name, "tpu.slices=2")
    assert found.status == "failure" and "has 32 chips" in found.text
    (found,) = account.look("queue")
    assert found.status == "warning" and found.cure == "--set cluster.queue=user-queue"
    (found,) = account.look("queue", "cluster.queue=user-qeue")
    assert "Did you mean 'user-queue'?" in found.text


def test_a_jobset_controller_that_is_down_is_told(cluster, account):
    with cluster.without("jobset"):
        (found,) = account.look("dry-run")
    assert found.status == "failure" and "jobset-system" in found.text


def test_kuberay_is_known_by_its_schema(kuberay, account):
    images = "cluster.images={ray-torchtpu: r/ray:1}"
    tpu7x, v6e = "gemma4-e2b-ray-tpu7x-16", "gemma4-e2b-ray-v6e-16"
    assert account.look("kuberay", images, preset=tpu7x)[0].status == "ok"
    assert account.look("resources", images, preset=tpu7x)[0].status == "ok"
    assert account.look("resources", images, preset=v6e) == []  # which asks for none
