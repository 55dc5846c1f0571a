"""Vertex AI Pipelines and Artifact Registry, as far as the target needs them, strict about what they are sent."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from google.cloud import aiplatform_v1 as api
from google.protobuf import json_format

from tests.clients.played import Refused, Request, Service

ACCOUNT = "submitter@acme.iam.gserviceaccount.com"
_PARENT = r"/v1/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)"
_TYPES = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float, "BOOLEAN": bool, "LIST": list, "STRUCT": dict}


def refusal(code: int, status: str, message: str, reason: str | None = None) -> dict[str, Any]:
    """An error as Google's APIs write it."""
    info = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}]
    return {"error": {"code": code, "status": status, "message": message, "details": info if reason else []}}


@dataclass
class Vertex(Service):
    """Jobs and schedules by id, as the API shows them."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, request: Request) -> Any:
        _check_token(request)
        place = re.match(_PARENT, request.path)
        assert place, request.path
        noun, _, rest = request.path[place.end() + 1 :].partition("/")
        parent = place[0].removeprefix("/v1/")
        match request.method, noun, rest:
            case "POST", "pipelineJobs", "":
                return self._create_job(parent, request)
            case "GET", "pipelineJobs", "":
                return self._list_jobs(request)
            case "GET", "pipelineJobs", job_id:
                return self._job(job_id)
            case "POST", "pipelineJobs", action if action.endswith(":cancel"):
                self._job(action.removesuffix(":cancel"))["state"] = "PIPELINE_STATE_CANCELLING"
                return {}
            case "POST", "schedules", "":
                return self._create_schedule(parent, request)
            case "GET", "schedules", "":
                name = re.fullmatch(r'display_name="([^"]*)"', request.query["filter"])
                return {"schedules": [s for s in self.schedules.values() if s["displayName"] == name[1]]}
        raise AssertionError(f"{request.method} {request.path}")

    def _create_job(self, parent: str, request: Request) -> Any:
        job_id = request.query["pipelineJobId"]
        assert re.fullmatch(r"[a-z][-a-z0-9]{0,127}", job_id), job_id
        if job_id in self.jobs:
            raise Refused(409, refusal(409, "ALREADY_EXISTS", f"The PipelineJob {job_id} already exists."))
        job = _checked_job(request.body.decode())
        assert job["displayName"]
        name = f"{parent}/pipelineJobs/{job_id}"
        seen = {**job, "name": name, "state": "PIPELINE_STATE_PENDING", "createTime": "2026-11-30T10:00:00Z"}
        self.jobs[job_id] = seen
        return seen

    def _list_jobs(self, request: Request) -> Any:
        assert request.query["orderBy"] == "create_time desc"
        names = re.findall(r'pipeline_name="([^"]*)"', request.query.get("filter", ""))
        fields = request.query["readMask"].split(",")
        found = [
            {name: value for name, value in job.items() if name in fields}
            for job in self.jobs.values()
            if not names or job["pipelineSpec"]["pipelineInfo"]["name"] in names
        ]
        found.sort(key=lambda job: job["createTime"], reverse=True)
        start, size = int(request.query.get("pageToken") or 0), min(int(request.query["pageSize"]), 2)
        following = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
        return {"pipelineJobs": found[start : start + size], **following}

    def _job(self, job_id: str) -> dict[str, Any]:
        if job_id not in self.jobs:
            raise Refused(404, refusal(404, "NOT_FOUND", f"The PipelineJob {job_id} does not exist."))
        return self.jobs[job_id]

    def _create_schedule(self, parent: str, request: Request) -> Any:
        schedule = json_format.Parse(request.body.decode(), api.Schedule.pb(api.Schedule()))
        assert re.fullmatch(r"TZ=\S+ \S+ \S+ \S+ \S+ \S+", schedule.cron), schedule.cron
        assert schedule.create_pipeline_job_request.parent == parent
        assert not schedule.create_pipeline_job_request.pipeline_job_id, "every run would have the same id"
        assert schedule.max_concurrent_run_count > 0, "required"
        seen = json.loads(json_format.MessageToJson(schedule))
        _checked_job(json.dumps(seen["createPipelineJobRequest"]["pipelineJob"]))
        seen |= {"name": f"{parent}/schedules/{len(self.schedules) + 1}", "state": "ACTIVE"}
        self.schedules[seen["name"]] = seen
        return seen


def _checked_job(text: str) -> dict[str, Any]:
    """The job, when it has no field that the API does not know, and parameters as the pipeline defines them."""
    job = json.loads(json_format.MessageToJson(json_format.Parse(text, api.PipelineJob.pb(api.PipelineJob()))))
    assert job["pipelineSpec"]["schemaVersion"] == "2.1.0"
    assert job["runtimeConfig"]["gcsOutputDirectory"].startswith("gs://")
    defined = job["pipelineSpec"]["root"]["inputDefinitions"]["parameters"]
    for name, value in job["runtimeConfig"].get("parameterValues", {}).items():
        assert isinstance(value, _TYPES[defined[name]["parameterType"]]), name
    return job


def _check_token(request: Request) -> None:
    """A token that the account has signed itself, as the clients make them of a service account's key."""
    word, _, token = request.headers["authorization"].partition(" ")
    assert word == "Bearer"
    claims = token.split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["iss"] == ACCOUNT


@dataclass
class Registry(Service):
    """Artifact Registry with its token server: packages with versions, and tags."""

    token: str = "token-of-the-registry"
    versions: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def answer(self, request: Request) -> Any:
        if request.path == "/token":
            assert b"assertion=" in request.body
            return {"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"}
        assert (request.method, request.path) == ("POST", "/acme/templates")
        assert request.headers["authorization"] == f"Bearer {self.token}"
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = {
            part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
            for part in email.message_from_bytes(head + request.body, policy=email.policy.HTTP).iter_parts()
        }
        assert parts.keys() == {"content", "tags"}
        documents = list(yaml.safe_load_all(parts["content"]))
        assert len(documents) == 1, "Vertex AI refuses a second document"
        version = f"sha256:{hashlib.sha256(parts['content']).hexdigest()}"
        self.versions[version] = parts["content"]
        for tag in parts["tags"].decode().split(","):
            assert re.fullmatch(r"[a-z][a-z0-9-]{0,127}", tag), tag
            self.tags[tag] = version
        return f"{documents[0]['pipelineInfo']['name']}/{version}"
