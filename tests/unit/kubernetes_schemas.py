"""Judges manifests as an API server would, without one: by a CRD's schema, by Kubernetes' own schemas, and by the rules
of JobSet's webhook that a schema cannot say.

Every function takes manifests as plain JSON objects and returns what is wrong with them, one line each; nothing wrong
is an empty list. The CRDs are read from `crds/` in the folder that POSTTRAIN_SHARED names, by default `shared` beside
the checkout; where it is missing, `crd_problems` skips the test that called it.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

SHARED = Path(os.environ.get("POSTTRAIN_SHARED", Path(__file__).resolve().parents[3] / "shared"))
JOBSET_CRDS = ("jobset-v0.10.1.yaml", "jobset-v0.12.0.yaml")
KUBERNETES = ("1.31", "1.35")

# -- by the schema of a CRD -------------------------------------------------------------------------------------------


def crd_problems(manifest: dict[str, Any], crd: str) -> list[str]:
    """What a CRD's schema has against a manifest, after its defaults are filled in.

    Stricter than a server, which drops fields that it does not know and takes null for absent: both are problems here.
    The rules in CEL are not looked at.
    """
    schema = _schema(crd)
    errors = _strict_validator(crd).iter_errors(_with_defaults(manifest, schema))
    return sorted(f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in errors)


def shared_file(*parts: str) -> Path:
    """A file of the shared folder; skips the test where there is none."""
    path = SHARED.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{path} is not there: POSTTRAIN_SHARED names the folder with the CRDs and example manifests")
    return path


@functools.cache
def _schema(crd: str) -> dict[str, Any]:
    text = shared_file("crds", crd).read_text()
    documents = yaml.load_all(text, yaml.CSafeLoader)
    definition = next(d for d in documents if d and d["kind"] == "CustomResourceDefinition")
    stored = next(version for version in definition["spec"]["versions"] if version["storage"])
    schema: dict[str, Any] = stored["schema"]["openAPIV3Schema"]
    return schema


@functools.cache
def _strict_validator(crd: str) -> jsonschema.protocols.Validator:
    strict = _strict(_schema(crd))
    strict["properties"]["metadata"] = {"type": "object"}  # checked by the server itself, for every kind
    with_lists = jsonschema.validators.extend(
        jsonschema.Draft7Validator,
        {"x-kubernetes-list-map-keys": _unique_keys, "x-kubernetes-list-type": _unique_items},
    )
    return with_lists(strict)


def _strict(schema: Any) -> Any:
    """A structural schema of Kubernetes as JSON schema, in which an object has no fields but those that it names."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {
        key: {name: _strict(part) for name, part in value.items()} if key == "properties" else _strict(value)
        for key, value in schema.items()
    }
    if schema.get("nullable"):
        strict["type"] = [schema["type"], "null"]
    open_ended = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and not open_ended:
        strict["additionalProperties"] = False
    return strict


def _with_defaults(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        known = schema.get("properties", {})
        defaults = {key: part["default"] for key, part in known.items() if "default" in part}
        others = schema.get("additionalProperties", {})
        return {
            key: _with_defaults(item, known.get(key, others if isinstance(others, dict) else {}))
            for key, item in {**defaults, **value}.items()
        }
    if isinstance(value, list):
        return [_with_defaults(item, schema.get("items", {})) for item in value]
    return value


def _unique_keys(_validator: Any, keys: list[str], items: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(items, list):
        yield from _duplicates([tuple(item.get(key) for key in keys) for item in items])


def _unique_items(_validator: Any, kind: str, items: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if kind == "set" and isinstance(items, list):
        yield from _duplicates(items)


def _duplicates(keys: list[Any]) -> Iterator[jsonschema.ValidationError]:
    for key in sorted({str(key) for key in keys if keys.count(key) > 1}):
        yield jsonschema.ValidationError(f"duplicate {key}")


# -- by Kubernetes' own schemas ---------------------------------------------------------------------------------------


def kubernetes_problems(objects: list[dict[str, Any]], version: str) -> list[str]:
    """What Kubernetes of a version has against objects of one of its own kinds; the first problem of them all."""
    kind, api_version = objects[0]["kind"], objects[0]["apiVersion"]
    try:
        # as one list, since the library reads its schemas anew with every call
        kubernetes_validate.validate(
            {"apiVersion": api_version, "kind": f"{kind}List", "items": objects}, version, strict=True
        )
    except kubernetes_validate.ValidationError as error:
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"]
    return []


def child_jobs(jobset: dict[str, Any]) -> list[dict[str, Any]]:
    """The Jobs that the JobSet controller would make, one for each replicated job."""
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": f"{jobset['metadata']['name']}-{job['name']}-0",
                **job["template"].get("metadata", {}),
            },
            "spec": job["template"]["spec"],
        }
        for job in jobset["spec"]["replicatedJobs"]
    ]


# -- by the rules of JobSet's webhook and of batch/v1 -----------------------------------------------------------------

_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")  # DNS-1035: a Service has the JobSet's name
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_REASONS = {
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
}


def webhook_problems(jobset: dict[str, Any]) -> list[str]:
    """What would be refused although the schema allows it (jobset pkg/webhooks/jobset_webhook.go, v0.12.0)."""
    return [*_name_problems(jobset), *_policy_problems(jobset), *_job_problems(jobset)]


def _name_problems(jobset: dict[str, Any]) -> Iterator[str]:
    name, spec = jobset["metadata"]["name"], jobset["spec"]
    for job in spec["replicatedJobs"]:
        longest_job = f"{name}-{job['name']}-{job['replicas'] - 1}"
        longest_pod = f"{longest_job}-{job['template']['spec']['completions'] - 1}-abcde"
        yield from (f"{text} is no DNS label" for text in (longest_job, longest_pod) if not _DNS_LABEL.fullmatch(text))
    if head := spec.get("coordinator"):
        label = f"{name}-{head['replicatedJob']}-{head['jobIndex']}-{head['podIndex']}.{name}"
        if not _LABEL_VALUE.fullmatch(label):
            yield f"{label} is no value of a label"


def _policy_problems(jobset: dict[str, Any]) -> Iterator[str]:
    spec = jobset["spec"]
    jobs = {job["name"]: job for job in spec["replicatedJobs"]}
    rules = spec.get("failurePolicy", {}).get("rules", [])
    targets = [*spec.get("successPolicy", {}).get("targetReplicatedJobs", [])]
    for rule in rules:
        targets += rule.get("targetReplicatedJobs", [])
        if not _RULE_NAME.fullmatch(rule["name"]) or len(rule["name"]) > 128:
            yield f"{rule['name']} is no name of a rule"
        yield from (
            f"{reason} is no reason" for reason in rule.get("onJobFailureReasons", []) if reason not in _REASONS
        )
    if len({rule["name"] for rule in rules}) < len(rules):
        yield "two rules have one name"
    if head := spec.get("coordinator"):
        targets.append(head["replicatedJob"])
    yield from (f"there is no replicated job {target}" for target in targets if target not in jobs)
    in_order = spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder"
    if in_order and any("dependsOn" in job for job in jobs.values()):
        yield "startupPolicy and dependsOn exclude each other"


def _job_problems(jobset: dict[str, Any]) -> Iterator[str]:
    for job in jobset["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        if spec.get("completionMode") != "Indexed" or spec["completions"] != spec["parallelism"]:
            yield f"{job['name']}: a host's place is its completion index, so completions must equal parallelism"
        if "podFailurePolicy" in spec and spec["template"]["spec"]["restartPolicy"] != "Never":
            yield f"{job['name']}: podFailurePolicy is only for pods with restartPolicy Never"


# -- all of them on JobSets -------------------------------------------------------------------------------------------


def judged_by_jobset(manifests: Iterable[dict[str, Any]]) -> list[str]:
    """What the CRDs of JobSet have against any of these; skips the test where they are not there."""
    return [f"{crd}: {problem}" for one in manifests for crd in JOBSET_CRDS for problem in crd_problems(one, crd)]


def judged_by_kubernetes(manifests: Iterable[dict[str, Any]]) -> list[str]:
    """What Kubernetes' schemas or the webhook's rules have against any of these JobSets."""
    jobsets = list(manifests)
    jobs = [job for one in jobsets for job in child_jobs(one)]
    by_schema = [f"{version}: {problem}" for version in KUBERNETES for problem in kubernetes_problems(jobs, version)]
    return by_schema + [problem for one in jobsets for problem in webhook_problems(one)]
