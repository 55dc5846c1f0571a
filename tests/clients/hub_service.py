"""The Hugging Face hub as far as a push needs it: repositories, commits, and its store of large files (Xet).

The store takes what it is sent without looking into it, and has none of its newer protocols, so that the client falls
back to the first.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

from tests.clients.played import Refused, Request, Service

TOKEN = "hf_secret_token"
_REPO = re.compile(r"/api/models/(?P<id>[^/]+/[^/]+)(?:/(?P<what>[^/]+)(?:/(?P<rest>.*))?)?")
_LARGE = (".safetensors", ".bin")


@dataclass
class Commit:
    """The content of small files, and the SHA-256 of large ones."""

    title: str
    files: dict[str, bytes]

    @property
    def id(self) -> str:
        return hashlib.sha1(repr((self.title, sorted(self.files.items()))).encode()).hexdigest()


@dataclass
class HubRepo:
    private: bool
    commits: list[Commit] = field(default_factory=lambda: [Commit("initial commit", {".gitattributes": b""})])

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1].files


@dataclass
class HubService(Service):
    """Repositories by id; `pieces` counts what was sent to the store of large files."""

    repos: dict[str, HubRepo] = field(default_factory=dict)
    orgs: tuple[str, ...] = ("acme",)
    pieces: int = 0

    def answer(self, request: Request) -> Any:
        if request.path.startswith("/store/"):
            return self._store(request)
        if request.path == "/v1/telemetry":
            return {}
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refused(401, {"error": "Invalid credentials in Authorization header"})
        match request.method, request.path:
            case "GET", "/api/whoami-v2":
                return {"type": "user", "name": "ann", "orgs": [{"name": name} for name in self.orgs]}
            case "POST", "/api/repos/create":
                return self._create(request.json)
            case "POST", "/api/validate-yaml":
                assert request.json["content"].startswith("---\n")
                return {"errors": [], "warnings": []}
        found = _REPO.fullmatch(request.path)
        assert found, request.path
        repo = self._repo(found["id"])
        match request.method, found["what"]:
            case "GET", None | "revision":
                return {"id": found["id"], "private": repo.private, "sha": repo.commits[-1].id, "siblings": []}
            case "GET", "auth-check":
                return {}
            case "GET", "commits":
                return [
                    {"id": c.id, "title": c.title, "message": "", "authors": [], "date": "2026-11-30T10:00:00.000Z"}
                    for c in reversed(repo.commits)
                ]
            case "GET", "tree":
                return [
                    {"type": "file", "path": name, "size": len(data), "oid": ""} for name, data in repo.files.items()
                ]
            case "GET", "xet-write-token":
                return {"accessToken": "store", "exp": int(time.time()) + 3600, "casUrl": f"{self.url}/store"}
            case "POST", "preupload":
                return {"files": [self._mode(repo, one) for one in request.json["files"]]}
            case "POST", "commit":
                return self._commit(found["id"], repo, request.body)
        raise AssertionError(f"{request.method} {request.path}")

    def _repo(self, id: str) -> HubRepo:
        if id not in self.repos:
            raise Refused(404, {"error": "Repository not found"})
        return self.repos[id]

    def _create(self, wanted: dict[str, Any]) -> Any:
        id = f"{wanted['organization']}/{wanted['name']}"
        if wanted["organization"] not in self.orgs:
            raise Refused(403, {"error": f"You don't have the rights to create a model under {wanted['organization']}"})
        if id in self.repos:
            raise Refused(409, {"error": "You already created this model repo", "url": f"{self.url}/{id}"})
        self.repos[id] = HubRepo(private=wanted["visibility"] == "private")
        return {"url": f"{self.url}/{id}"}

    def _mode(self, repo: HubRepo, file: dict[str, Any]) -> dict[str, Any]:
        large = file["path"].endswith(_LARGE)
        there = repo.files.get(file["path"])
        oid = there and (there.decode() if large else _git_id(there))
        return {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": oid}

    def _store(self, request: Request) -> Any:
        assert request.headers["authorization"] == "Bearer store"
        match request.path.removeprefix("/store/").split("/")[:2]:
            case ["v1", "xorbs"]:
                self.pieces += 1
                return {"was_inserted": True}
            case ["v1", "shards"]:
                return {"result": 1}
        raise Refused(404, {})

    def _commit(self, id: str, repo: HubRepo, body: bytes) -> Any:
        files, title = dict(repo.files), ""
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            match line["key"]:
                case "header":
                    title = value["summary"]
                    if value.get("parentCommit") not in (None, repo.commits[-1].id):
                        raise Refused(412, {"error": "A commit has happened since. Please refresh and try again."})
                case "file":
                    assert value["encoding"] == "base64"
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    assert self.pieces, "a commit of what is not in the store"
                    files[value["path"]] = value["oid"].encode()
                case "deletedFile":
                    del files[value["path"]]
                case other:
                    raise AssertionError(other)
        repo.commits.append(Commit(title, files))
        oid = repo.commits[-1].id
        return {"commitUrl": f"{self.url}/{id}/commit/{oid}", "commitOid": oid}


def _git_id(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
