"""Self-hosted KFP, as far as the target needs it: its v2beta1 API with the checks, the refusals and the oddities of
KFP 2.17.
"""

from __future__ import annotations

import email
import email.policy
import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Any

import kfp_server_api
import yaml

from tests.clients.played import Refused, Request, Service

_API = "/apis/v2beta1"
_STAMP = "2026-11-30T10:00:{:02d}Z"
_KINDS = {
    "STRING": str,
    "NUMBER_INTEGER": int,
    "NUMBER_DOUBLE": int | float,
    "BOOLEAN": bool,
    "LIST": list,
    "STRUCT": dict,
}
_PLURALS = {
    "experiments": "experiments",
    "pipelines": "pipelines",
    "runs": "runs",
    "recurringruns": "recurringRuns",
}


def refusal(status: int, message: str) -> Refused:
    """An error as KFP's gateway writes it."""
    return Refused(status, {"error": message, "code": 3, "message": message, "details": []})


@dataclass
class KfpService(Service):
    """What was made, by kind; logs by (run, node)."""

    several_users: bool = False
    token: str = ""
    made: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {kind: [] for kind in (*_PLURALS, "versions")}
    )
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id of the version
    logs: dict[tuple[str, str], str] = field(default_factory=dict)

    def answer(self, request: Request) -> Any:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            raise refusal(401, "Unauthenticated: there is no user in the request")
        if log := re.fullmatch(r"/apis/v1alpha1/runs/([^/]+)/nodes/([^/]+)/log", request.path):
            # KFP 2.17.0 sends 200 first and its error after
            return self.logs.get((log[1], log[2]), '{"error_message":"Failed to read logs"}')
        assert request.path.startswith(_API), request.path
        rest = request.path.removeprefix(_API + "/")
        match request.method, rest.split("/"):
            case "GET", ["healthz"]:
                return {"commit_sha": "c0ffee", "tag_name": "2.17.0", "multi_user": self.several_users}
            case "GET", ["pipelines", "names", name]:
                return self._by_name(name, request.query.get("namespace", ""))
            case "POST", ["pipelines", "upload_version"]:
                return self._upload(request)
            case "GET", ["pipelines", pipeline_id, "versions"]:
                found = [v for v in self.made["versions"] if v["pipeline_id"] == pipeline_id]
                return _page("pipeline_versions", found, request.query)
            case "POST", ["runs", action] if action.endswith(":terminate"):
                self._one("runs", "run_id", action.removesuffix(":terminate"))["state"] = "CANCELING"
                return {}
            case "GET", ["runs", run_id]:
                return self._one("runs", "run_id", run_id)
            case "GET", [kind]:
                namespace = self._namespace(request.query.get("namespace", ""))
                found = [one for one in self.made[kind] if one.get("namespace", "") == namespace]
                return _page(_PLURALS[kind], found, request.query)
            case "POST", ["experiments"]:
                return self._make("experiments", kfp_server_api.V2beta1Experiment, request.json)
            case "POST", ["pipelines"]:
                return self._pipeline(request.json)
            case "POST", ["runs"]:
                return self._run(request.json)
            case "POST", ["recurringruns"]:
                return self._recurring_run(request.json)
        raise AssertionError(f"{request.method} {request.path}")

    def _namespace(self, given: str) -> str:
        if self.several_users and not given:
            raise refusal(400, "Invalid input error: An experiment cannot have an empty namespace in multi-user mode")
        assert self.several_users or not given, "KFP of one user refuses a namespace in older versions"
        return given

    def _make(self, kind: str, model: Any, body: dict[str, Any]) -> dict[str, Any]:
        unknown = body.keys() - model.openapi_types.keys()
        assert not unknown, f"{kind} has no fields {unknown}"
        self._namespace(body.get("namespace", "")) if kind in ("experiments", "pipelines") else None
        id_name = {"recurringruns": "recurring_run_id"}.get(kind, f"{kind.removesuffix('s')}_id")
        stamp = _STAMP.format(sum(map(len, self.made.values())))
        seen = {**body, id_name: str(uuid.uuid4()), "created_at": stamp}
        self.made[kind].append(seen)
        return seen

    def _one(self, kind: str, key: str, value: str) -> dict[str, Any]:
        for one in self.made[kind]:
            if one[key] == value:
                return one
        raise Refused(
            404, {"error": "not found", "code": 5, "message": f"ResourceNotFoundError: {kind} {value} not found"}
        )

    def _by_name(self, name: str, namespace: str) -> dict[str, Any]:
        for one in self.made["pipelines"]:
            if one["name"] == name and one.get("namespace", "") == namespace:
                return one
        raise Refused(404, {"error": "not found", "code": 5, "message": f"Failed to get pipeline with name {name}"})

    def _pipeline(self, body: dict[str, Any]) -> dict[str, Any]:
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,127}", body["name"])
        for one in self.made["pipelines"]:
            if (one["name"], one.get("namespace")) == (body["name"], body.get("namespace")):
                raise refusal(409, f"Already exist error: the pipeline {body['name']} already exists")
        return self._make("pipelines", kfp_server_api.V2beta1Pipeline, body)

    def _upload(self, request: Request) -> dict[str, Any]:
        query = request.query
        self._one("pipelines", "pipeline_id", query["pipelineid"])
        assert query.keys() <= {"name", "display_name", "pipelineid", "description", "tags"}
        for one in self.made["versions"]:
            if (one["pipeline_id"], one["name"]) == (query["pipelineid"], query["name"]):
                raise Refused(409, {"error_message": "Failed to create a pipeline version", "error_details": "exists"})
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        (part,) = email.message_from_bytes(head + request.body, policy=email.policy.HTTP).iter_parts()
        assert part.get_param("name", header="content-disposition") == "uploadfile"
        assert part.get_filename().endswith((".yaml", ".yml", ".zip", ".tar.gz"))
        spec, *platform = yaml.safe_load_all(part.get_payload(decode=True))
        assert spec["schemaVersion"] == "2.1.0"
        assert not platform
        fields = {
            "pipeline_id": query["pipelineid"],
            "name": query["name"],
            "display_name": query.get("display_name") or query["name"],
            "description": query["description"],
            "pipeline_version_id": str(uuid.uuid4()),
            "created_at": _STAMP.format(sum(map(len, self.made.values()))),
        }
        self.made["versions"].append(fields)
        self.specs[fields["pipeline_version_id"]] = spec
        return fields

    def _check_source(self, body: dict[str, Any]) -> None:
        reference = body["pipeline_version_reference"]
        version = self._one("versions", "pipeline_version_id", reference["pipeline_version_id"])
        assert version["pipeline_id"] == reference["pipeline_id"]
        assert body["runtime_config"].keys() <= {"parameters", "pipeline_root"}
        defined = self.specs[version["pipeline_version_id"]]["root"]["inputDefinitions"]["parameters"]
        for name, value in body["runtime_config"]["parameters"].items():
            if name not in defined:
                raise refusal(400, f"parameter(s) provided are not required by pipeline: {name}")
            if not isinstance(value, _KINDS[defined[name]["parameterType"]]):
                raise refusal(400, f"input parameter {name} is not of the right type")

    def _run(self, body: dict[str, Any]) -> dict[str, Any]:
        experiment = self._one("experiments", "experiment_id", body["experiment_id"])
        self._check_source(body)
        run = self._make("runs", kfp_server_api.V2beta1Run, body)
        run |= {"state": "PENDING", "finished_at": "1970-01-01T00:00:00Z", "namespace": experiment.get("namespace", "")}
        return run

    def _recurring_run(self, body: dict[str, Any]) -> dict[str, Any]:
        experiment = self._one("experiments", "experiment_id", body["experiment_id"])
        self._check_source(body)
        fields = body["trigger"]["cron_schedule"]["cron"].split()
        # robfig/cron takes five as well, as seconds to month
        assert len(fields) == 6, "it would mean something else"
        assert all(re.fullmatch(r"\*(/\d+)?|\d+(,\d+)*", one) for one in fields)
        assert "7" not in fields[5].split(",")
        assert 1 <= int(body["max_concurrency"]) <= 10
        made = self._make("recurringruns", kfp_server_api.V2beta1RecurringRun, body)
        made["namespace"] = experiment.get("namespace", "")
        return made


def _page(plural: str, found: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    """The entries that the filter lets through, in the order asked for, as many as were asked for."""
    for one in json.loads(query["filter"])["predicates"] if "filter" in query else []:
        assert one.keys() == {"key", "operation", "stringValue"}
        assert one["key"] == "display_name"
        found = [f for f in found if _passes(f.get("display_name", ""), one["operation"], one["stringValue"])]
    assert query.get("sort_by", "") in ("", "created_at desc")
    if query.get("sort_by"):
        found = sorted(found, key=lambda one: one.get("created_at", ""), reverse=True)
    size = int(query.get("page_size", 10))
    assert size <= 200, "KFP gives no more at once"
    return {plural: found[:size], "total_size": len(found)} if found else {}


def _passes(value: str, operation: int, wanted: str) -> bool:
    return value == wanted if operation == 1 else wanted in value
