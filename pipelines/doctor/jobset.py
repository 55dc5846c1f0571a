"""JobSet: served by the cluster, and the objects of the run are accepted."""

from __future__ import annotations

from collections.abc import Iterator

from components.workloads import api
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, unknown
from pipelines.doctor.rights import grant

_INSTALL = (
    "kubectl apply --server-side -f https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml"
)


def served(case: Case) -> Iterator[Result]:
    """The version that the launcher speaks is served."""
    yield served_version(case, "jobset.x-k8s.io/v1alpha2", "JobSet", _INSTALL)


def served_version(case: Case, wanted: str, name: str, install: str) -> Result:
    """Whether an API group is served in a version. Discovery needs no right of its own."""
    group, _, version = wanted.partition("/")
    found = case.find(f"/apis/{group}")
    if found is None:
        return failure(f"{name} is not installed in this cluster", install)
    versions = [entry["version"] for entry in found["versions"]]
    if version not in versions:
        return failure(f"{name} serves {', '.join(versions)}, and the launcher speaks {version}", install)
    return ok(f"{name} is installed and serves {wanted}")


def accepted(case: Case) -> Iterator[Result]:
    """Sends the objects themselves with dryRun=All: schema, webhooks, admission rules and quotas answer; nothing stays."""
    for manifest in case.objects:
        plural = f"{manifest['kind'].lower()}s"
        path = f"/apis/{manifest['apiVersion']}/namespaces/{case.namespace}/{plural}"
        try:
            case.ask(path, dict(manifest), dryRun="All", fieldValidation="Strict")
        except api.Refused as refusal:
            yield _refused(case, manifest["metadata"]["name"], refusal)
            return
        except api.Unreachable as error:  # the server itself answers: it is a webhook that does not
            yield failure(f"no dry run: {error}")
            return
    yield ok(f"{len(case.objects)} {case.config.engine} objects pass a dry run (schema, webhooks, quotas)")


def _refused(case: Case, name: str, refusal: api.Refused) -> Result:
    if refusal.status == 403 and "cannot create" in str(refusal):
        return unknown(f"no dry run: {refusal}", grant(case.namespace))
    return failure(f"{name}: {refusal}")
