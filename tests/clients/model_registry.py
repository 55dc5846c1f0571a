"""Vertex AI's Model Registry, as far as a registration needs it, strict about what it is sent."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from google.cloud import aiplatform_v1 as api
from google.protobuf import json_format

from tests.clients.google_services import refusal
from tests.clients.played import Refused, Request, Service

PARENT = "projects/acme/locations/us-central1"
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_TYPE = "type.googleapis.com/google.cloud.aiplatform.v1"


@dataclass
class ModelRegistry(Service):
    """Versions by the id of their model, evaluations by the version. A registration is done at the first look."""

    versions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    evaluations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failing: dict[str, Any] | None = None  # how registrations end
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, request: Request) -> Any:
        assert request.headers["authorization"].startswith("Bearer ")
        # the client asks for operations below /ui/, the other of the two places where the API has them
        found = re.fullmatch(rf"/(v1|ui)/{PARENT}/models(.*)", request.path)
        assert found, request.path
        path = found[2]
        if request.method == "POST" and path == ":upload":
            return self._upload(request.body.decode())
        if found := re.fullmatch(r"/([^/:@]+):listVersions", path):
            return self._list(found[1], request.query["filter"])
        if found := re.fullmatch(r"/([^/:@]+)/operations/(\d+)", path):
            return self.operations[found[2]]
        if found := re.fullmatch(r"/([^/:@]+@\d+)/evaluations(:import)?", path):
            there = self.evaluations.setdefault(found[1], [])
            if found[2]:
                return self._import(there, request.json["modelEvaluation"])
            return {"modelEvaluations": there}
        raise AssertionError(f"{request.method} {request.path}")

    def _list(self, model: str, filter_: str) -> Any:
        if model not in self.versions:
            raise Refused(404, refusal(404, "NOT_FOUND", f"The Model {model} does not exist."))
        wanted = re.fullmatch(r'labels\.([a-z_]+)="([^"]*)"', filter_)
        assert wanted, filter_
        return {"models": [v for v in self.versions[model] if v["labels"].get(wanted[1]) == wanted[2]]}

    def _upload(self, text: str) -> Any:
        request = api.UploadModelRequest.pb(api.UploadModelRequest())
        json_format.Parse(text, request)
        model = json.loads(json_format.MessageToJson(request.model))
        assert model["artifactUri"].startswith("gs://")
        assert model["containerSpec"]["imageUri"]
        assert all(_LABEL.fullmatch(part) for label in model["labels"].items() for part in label)
        assert bool(request.model_id) != bool(request.parent_model)
        name = request.model_id or request.parent_model.removeprefix(f"{PARENT}/models/")
        if bool(request.model_id) == (name in self.versions):
            raise Refused(409, refusal(409, "ALREADY_EXISTS", f"The Model {name} already exists."))
        operation = {"name": f"{PARENT}/models/{name}/operations/{len(self.operations) + 1}"}
        if self.failing:
            done = {"error": self.failing}
        else:
            there = self.versions.setdefault(name, [])
            version = str(len(there) + 1)
            for other in there:
                other["versionAliases"] = [a for a in other["versionAliases"] if a not in model["versionAliases"]]
            there.append({**model, "name": f"{PARENT}/models/{name}", "versionId": version})
            response = {"model": f"{PARENT}/models/{name}", "modelVersionId": version}
            done = {"response": {"@type": f"{_TYPE}.UploadModelResponse", **response}}
        self.operations[str(len(self.operations) + 1)] = {**operation, "done": True, **done}
        return operation

    def _import(self, there: list[dict[str, Any]], evaluation: dict[str, Any]) -> Any:
        json_format.ParseDict(evaluation, api.ModelEvaluation.pb(api.ModelEvaluation()))
        there.append(evaluation)
        return evaluation
