"""The shipped rights are what the launcher and KFP need, and no more, as the API server sees it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kubernetes import client as k8s
from kubernetes import config

from tests.cluster import harness
from tests.cluster.harness import REAL_POOL, Cluster, wait_until

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
FOLLOW = {"get", "list", "watch"}
# resource, and name where only that object is meant: verbs
LAUNCHER = {
    ("jobsets.jobset.x-k8s.io", ""): {"create", "delete"} | FOLLOW,
    ("rayjobs.ray.io", ""): {"create", "delete"} | FOLLOW,
    ("rayclusters.ray.io", ""): {"create", "delete"} | FOLLOW,
    ("resourceclaimtemplates.resource.k8s.io", ""): {"create", "get", "delete"},
    ("jobs.batch", ""): FOLLOW,
    ("pods", ""): FOLLOW,
    ("pods/log", ""): {"get"},
    ("events", ""): {"list"},
    ("workloads.kueue.x-k8s.io", ""): FOLLOW,
    ("localqueues.kueue.x-k8s.io", ""): FOLLOW,
    ("secrets", "hf-secret"): {"get"},
}
KFP = {
    ("configmaps", "kfp-launcher"): {"get"},
    ("secrets", "mlpipeline-minio-artifact"): {"get"},
    ("workflowtaskresults.argoproj.io", ""): {"create", "patch"},
}
DOCTOR = {
    ("nodes", ""): {"get", "list"},
    ("namespaces", ""): {"get"},
    ("serviceaccounts", ""): {"get"},
    ("clusterqueues.kueue.x-k8s.io", ""): {"get", "list"},
    ("resourceflavors.kueue.x-k8s.io", ""): {"get", "list"},
    ("deviceclasses.resource.k8s.io", ""): {"get", "list"},
    ("priorityclasses.scheduling.k8s.io", ""): {"get", "list"},
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", ""): {"get", "list"},
}
# what Kubernetes lets every account ask
ANYONE = {
    ("selfsubjectaccessreviews.authorization.k8s.io", ""): {"create"},
    ("selfsubjectrulesreviews.authorization.k8s.io", ""): {"create"},
    ("selfsubjectreviews.authentication.k8s.io", ""): {"create"},
}
# of the doctor's, what is granted in the namespace only
IN_NAMESPACE = {("namespaces", ""), ("serviceaccounts", "")}

HELLO = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: hello}
spec:
  replicatedJobs:
  - name: workers
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            nodeSelector: {cloud.google.com/gke-nodepool: %s}
            containers:
            - {name: main, image: %s, command: [echo, hello]}
"""


@pytest.fixture(scope="module")
def every_resource(cluster: Cluster) -> set[str]:
    """Names of all resources and subresources that the API server has, as resource/subresource.group."""
    versions = ["/api/v1"]
    for group in json.loads(cluster.kubectl("get", "--raw=/apis"))["groups"]:
        versions.append(f"/apis/{group['preferredVersion']['groupVersion']}")
    names = set()
    for version in versions:
        group = version.split("/")[2] if version.startswith("/apis/") else ""
        for resource in json.loads(cluster.kubectl("get", f"--raw={version}"))["resources"]:
            names.add(f"{resource['name']}.{group}" if group else resource["name"])
    assert {"pods/exec", "jobsets.jobset.x-k8s.io"} <= names
    return names


@pytest.fixture
def may(cluster: Cluster, every_resource: set[str]):
    """`may(account, home, there)`: all that the account of namespace `home` may do in namespace `there`."""
    client = config.new_client_from_config(cluster.kubeconfig)
    api = k8s.AuthorizationV1Api(client)
    named = [key for table in (LAUNCHER, KFP, DOCTOR) for key in table]
    asked = sorted({(resource, "") for resource in every_resource} | set(named))

    def allowed(account: str, home: str, there: str, resource: str, name: str, verb: str) -> bool:
        path, _, group = resource.partition(".")
        kind, _, subresource = path.partition("/")
        attributes = k8s.V1ResourceAttributes(
            namespace=there, verb=verb, group=group, resource=kind, subresource=subresource, name=name
        )
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"]
        spec = k8s.V1SubjectAccessReviewSpec(
            user=f"system:serviceaccount:{home}:{account}", groups=groups, resource_attributes=attributes
        )
        return bool(api.create_subject_access_review(k8s.V1SubjectAccessReview(spec=spec)).status.allowed)

    def ask(account: str, home: str, there: str) -> dict[tuple[str, str], set[str]]:
        with ThreadPoolExecutor(4) as pool:
            questions = [(resource, name, verb) for resource, name in asked for verb in VERBS]
            answers = pool.map(lambda question: allowed(account, home, there, *question), questions)
            found: dict[tuple[str, str], set[str]] = {}
            for (resource, name, verb), answer in zip(questions, answers, strict=True):
                if answer:
                    found.setdefault((resource, name), set()).add(verb)
            return found

    yield ask
    client.close()


def test_the_launcher_may_do_what_it_needs_in_its_namespace_and_nothing_else_anywhere(cluster, namespace, may):
    cluster.apply(harness.rbac(namespace, "rbac.yaml"))
    assert may("posttrain-launcher", namespace, namespace) == LAUNCHER | ANYONE
    assert may("posttrain-launcher", namespace, "default") == ANYONE


def test_the_account_of_the_workloads_may_do_nothing(cluster, namespace, may):
    cluster.apply(harness.rbac(namespace, "rbac.yaml", "rbac-kfp.yaml", "rbac-doctor.yaml"))
    assert may("posttrain-workload", namespace, namespace) == ANYONE


def test_kubeflow_pipelines_adds_what_its_driver_needs_and_no_more(cluster, namespace, may):
    cluster.apply(harness.rbac(namespace, "rbac.yaml", "rbac-kfp.yaml"))
    assert may("posttrain-launcher", namespace, namespace) == LAUNCHER | KFP | ANYONE
    assert may("posttrain-launcher", namespace, "default") == ANYONE


def test_doctor_adds_reading_and_no_more(cluster, namespace, may):
    cluster.apply(harness.rbac(namespace, "rbac.yaml", "rbac-doctor.yaml"))
    elsewhere = {key: verbs for key, verbs in DOCTOR.items() if key not in IN_NAMESPACE}
    try:
        assert may("posttrain-launcher", namespace, namespace) == LAUNCHER | DOCTOR | ANYONE
        assert may("posttrain-launcher", namespace, "default") == elsewhere | ANYONE
    finally:
        cluster.kubectl("delete", "clusterrolebinding", f"posttrain-doctor-{namespace}")


@pytest.fixture
def as_launcher(cluster: Cluster, namespace: str, launcher: str, tmp_path: Path) -> Cluster:
    """The cluster as the launcher's account sees it: with a token of that account."""
    view = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = cluster.kubectl("create", "token", launcher, "-n", namespace).strip()
    view["users"] = [{"name": user["name"], "user": {"token": token}} for user in view["users"]]
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(view))
    return Cluster(str(path), ours=False)


def test_with_its_token_the_launcher_launches_follows_and_removes_a_jobset(
    cluster, namespace, as_launcher, launcher_image
):
    cluster.kubectl("create", "secret", "generic", "hf-secret", "--from-literal=token=x", "-n", namespace)
    as_launcher.kubectl("create", "-n", namespace, "-f", "-", stdin=HELLO % (REAL_POOL, launcher_image))
    as_launcher.kubectl("wait", "jobset/hello", "-n", namespace, "--for=condition=Completed", "--timeout=120s")
    pods = as_launcher.json("get", "pods", "-n", namespace, "-l", "jobset.sigs.k8s.io/jobset-name=hello")["items"]
    assert as_launcher.kubectl("logs", pods[0]["metadata"]["name"], "-n", namespace) == "hello\n"
    reasons = {event["reason"] for event in as_launcher.json("get", "events", "-n", namespace)["items"]}
    assert "Scheduled" in reasons
    assert as_launcher.json("get", "jobs", "-n", namespace)["items"]
    assert as_launcher.json("get", "secret", "hf-secret", "-n", namespace)["data"]["token"]
    as_launcher.kubectl("delete", "jobset", "hello", "-n", namespace)
    wait_until(lambda: not cluster.json("get", "pods", "-n", namespace)["items"], 60)


@pytest.mark.parametrize(
    "command",
    [
        "get secrets",
        "get secret other",
        "run pod --image=any",
        "delete pods --all",
        "annotate jobset hello a=b",
        "create configmap any",
        "create serviceaccount any",
        "create rolebinding any --clusterrole=admin --serviceaccount=default:default",
        "create token posttrain-workload",
        "get jobsets --all-namespaces",
        "get nodes",
        "get namespaces",
    ],
)
def test_with_its_token_the_launcher_is_refused_the_rest(cluster, namespace, as_launcher, command):
    cluster.kubectl("create", "secret", "generic", "other", "--from-literal=token=x", "-n", namespace)
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=HELLO % ("no-such-pool", "none"))
    cluster.kubectl("run", "other", "--image=none", "-n", namespace)
    refused = as_launcher.try_kubectl(*command.split(), "-n", namespace)
    assert refused.returncode != 0
    assert "forbidden" in refused.stderr.lower()
