"""A small hub on this machine: the part of the Hugging Face API that resolves revisions, lists and serves files."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_API = re.compile(r"/api/(?P<kind>model|dataset)s/(?P<id>[^/]+/[^/]+)(/(?P<what>revision|tree)/(?P<revision>[^/]+))?/?")
_FILE = re.compile(r"/(?P<kind>datasets/)?(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass
class Repo:
    """A repository: files per commit, names of commits, and the token that may read it (None: everybody)."""

    commits: dict[str, dict[str, bytes]]
    refs: dict[str, str]
    token: str | None = None
    gated: bool = False


@dataclass
class Hub:
    """What the server serves, by (kind, id), and what it was asked."""

    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    status: int | None = None  # answer everything with this
    url: str = ""

    def add(self, kind: str, id: str, files: dict[str, bytes], *, token: str | None = None, gated: bool = False) -> str:
        """Publishes a commit on the branch main and returns its name."""
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        repo = self.repos.setdefault((kind, id), Repo({}, {}))
        repo.token, repo.gated = token, gated
        repo.commits[commit] = files
        repo.refs["main"] = commit
        return commit

    def served(self, ending: str) -> list[str]:
        """Returns the paths of files whose bytes were asked for."""
        return [request for request in self.requests if request.startswith("GET") and request.endswith(ending)]


def _handler(hub: Hub) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(f"{self.command} {path}")
            hub.tokens.add(self.headers.get("Authorization"))
            if hub.status:
                return self._send(hub.status, b"{}")
            found = _API.fullmatch(path) or _FILE.fullmatch(path)
            if not found:
                return self._send(404, b"{}")
            kind = "dataset" if (found["kind"] or "").startswith("dataset") else "model"
            repo = hub.repos.get((kind, found["id"]))
            allowed = repo and repo.token in (None, (self.headers.get("Authorization") or "").removeprefix("Bearer "))
            if repo and repo.gated and not allowed:
                return self._send(403, b"{}", **{"X-Error-Code": "GatedRepo"})
            if repo is None or not allowed:
                return self._send(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
            revision = found["revision"] or "main"
            commit = repo.refs.get(revision, revision)
            files = repo.commits.get(commit)
            if files is None:
                return self._send(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
            if "path" in found.groupdict():
                return self._file(files.get(found["path"]), commit)
            if found["what"] == "tree":
                tree = [
                    {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for name, data in files.items()
                ]
                return self._send(200, json.dumps(tree).encode())
            siblings = [{"rfilename": name} for name in files]
            return self._send(200, json.dumps({"id": found["id"], "sha": commit, "siblings": siblings}).encode())

        do_HEAD = do_GET

        def _file(self, data: bytes | None, commit: str) -> None:
            if data is None:
                return self._send(404, b"{}", **{"X-Error-Code": "EntryNotFound"})
            return self._send(200, data, **{"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": commit})

        def _send(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def serve() -> Iterator[Hub]:
    """Runs a hub on a free port for as long as the block lasts."""
    hub = Hub()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub)) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield hub
        server.shutdown()
        thread.join()
