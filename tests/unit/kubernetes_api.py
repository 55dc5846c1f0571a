"""A Kubernetes API server on this machine, as far as clients see it: objects, watches, logs, and faults on demand.

It speaks the real protocol to a real client: resource versions, conflicts, preconditions, selectors, chunked watch
streams with 410, logs with times. Nothing happens by itself; a test plays the controllers.
"""

from __future__ import annotations

import copy
import http.server
import io
import itertools
import json
import re
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

Manifest = dict[str, Any]

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2"
CORE = "/api/v1"
_PATH = re.compile(
    r"(?P<group>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(/(?P<name>[^/]+))?(/(?P<part>log|status))?"
)


def write_kubeconfig(file: Path, url: str, **user: str) -> Path:
    """Writes a kubeconfig that leads to a server."""
    entry = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "played",
        "contexts": [{"name": "played", "context": {"cluster": "played", "user": "somebody"}}],
        "clusters": [{"name": "played", "cluster": {"server": url}}],
        "users": [{"name": "somebody", "user": user or {"token": "a-token"}}],
    }
    file.write_text(yaml.safe_dump(entry))
    return file


@dataclass(frozen=True)
class Request:
    """A request that was made."""

    method: str
    path: str
    query: dict[str, str]
    token: str | None


@dataclass
class Fault:
    """What the server does instead of answering: an error, or nothing but closing the connection.

    `done`: it does what it was asked first, so that only the answer is lost.
    """

    method: str
    path: re.Pattern[str]
    times: float
    status: int | None
    done: bool
    message: str
    headers: dict[str, str]


@dataclass
class Log:
    """What a container has written: (time, line). `ended`: it writes no more."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    ended: bool = False


@dataclass
class KubernetesApi:
    """The server.

    Attributes:
      url: its address.
      resources: what it knows; others are "404 page not found".
      requests: what it was asked.
      on_create: called with each object that a client has created, in a thread of its own.
      on_request: called with each request before it is answered.
      cuts: how many streams are still to be cut off in the middle.
    """

    url: str = ""
    resources: set[str] = field(
        default_factory=lambda: {f"{CORE}/pods", f"{CORE}/events", f"{CORE}/secrets", f"{JOBSETS}/jobsets"}
    )
    requests: list[Request] = field(default_factory=list)
    on_create: Callable[[Manifest], None] = lambda manifest: None
    on_request: Callable[[Request], None] = lambda request: None
    cuts: int = 0
    _objects: dict[tuple[str, str, str], Manifest] = field(default_factory=dict)  # (collection, namespace, name)
    _history: list[tuple[int, str, tuple[str, str, str], Manifest]] = field(default_factory=list)
    _faults: list[Fault] = field(default_factory=list)
    _logs: dict[tuple[str, str], Log] = field(default_factory=dict)
    _logs_before: dict[tuple[str, str], Log] = field(default_factory=dict)  # of the run before, as kubelet keeps it
    _version: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _latest: int = 0
    _oldest: int = 0
    _written: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False

    # -- what a test does ---------------------------------------------------------------------------------------------

    def kubeconfig(self, file: Path, **user: str) -> Path:
        """Writes a kubeconfig that leads here."""
        return write_kubeconfig(file, self.url, **user)

    def fail(
        self,
        method: str = "",
        path: str = "",
        *,
        times: float = float("inf"),
        status: int | None = None,
        done: bool = False,
        message: str = "played failure",
        **headers: str,
    ) -> None:
        """Answers requests whose method and path with query match (an empty text matches all) with an error; without
        `status` the connection is closed.
        """
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._faults.append(Fault(method, re.compile(path), times, status, done, message, headers))

    def heal(self) -> None:
        """Ends all faults."""
        self._faults.clear()

    def forget(self) -> None:
        """Forgets the history, as a compaction does: a watch from before gets 410."""
        with self._changed:
            self._oldest = next(self._version)
            self._latest = self._oldest
            self._changed.notify_all()

    def put(self, collection: str, manifest: Manifest) -> Manifest:
        """Makes or replaces an object, as a controller does."""
        with self._changed:
            meta = manifest["metadata"]
            meta.setdefault("namespace", "default")
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", now())
            key = (collection, meta["namespace"], meta["name"])
            self._record("MODIFIED" if key in self._objects else "ADDED", key, manifest)
            return manifest

    def change(
        self, collection: str, name: str, change: Callable[[Manifest], object], namespace: str = "default"
    ) -> None:
        """Changes an object, if it is still there."""
        with self._changed:
            key = (collection, namespace, name)
            if key in self._objects:
                manifest = copy.deepcopy(self._objects[key])
                change(manifest)
                self._record("MODIFIED", key, manifest)

    def drop(self, collection: str, name: str, namespace: str = "default") -> None:
        """Deletes an object and, if it is no pod, the pods of its name."""
        with self._changed:
            gone = [key for key in self._objects if key == (collection, namespace, name)]
            if collection != f"{CORE}/pods":
                gone += [key for key in self._objects if key[0] == f"{CORE}/pods" and key[2].startswith(name + "-")]
            for key in gone:
                self._record("DELETED", key, self._objects.pop(key))
                for pod, container in self._logs:
                    if pod == key[2]:
                        self._logs[pod, container].ended = True

    def all(self, collection: str) -> list[Manifest]:
        """The objects of one kind."""
        with self._changed:
            return [copy.deepcopy(m) for key, m in self._objects.items() if key[0] == collection]

    def history(self, collection: str) -> list[tuple[int, str, tuple[str, str, str], Manifest]]:
        """Every change of the objects of one kind: version, what happened, key, the object then."""
        with self._changed:
            return [entry for entry in self._history if entry[2][0] == collection]

    def write(self, pod: str, container: str, *lines: str, end: bool = False) -> None:
        """Writes lines to a container's log; with `end` the last ones."""
        with self._changed:
            log = self._logs.setdefault((pod, container), Log())
            for line in lines:
                self._written += 1
                # two lines to a time, as a burst of output has, and some thirty to a second
                at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=60 * (self._written // 2))
                log.lines.append((at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z"), line))
            log.ended = log.ended or end
            self._changed.notify_all()

    def begin_anew(self, pod: str, container: str) -> None:
        """Begins a new log, as where a container is started again in its pod."""
        with self._changed:
            before = self._logs.pop((pod, container), Log())
            before.ended = True
            self._logs_before[pod, container] = before
            self._changed.notify_all()

    def made(self, method: str, path: str = "") -> list[Request]:
        """The requests of a method whose path matches."""
        return [r for r in list(self.requests) if r.method == method and re.search(path, r.path)]

    # -- what the server does -----------------------------------------------------------------------------------------

    def _record(self, change: str, key: tuple[str, str, str], manifest: Manifest) -> None:
        manifest = copy.deepcopy(manifest)
        self._latest = next(self._version)
        manifest["metadata"]["resourceVersion"] = str(self._latest)
        if change != "DELETED":
            self._objects[key] = manifest
        self._history.append((self._latest, change, key, manifest))
        self._changed.notify_all()

    def _fault(self, method: str, path: str) -> Fault | None:
        for fault in self._faults:
            if fault.method in ("", method) and fault.path.search(path) and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def _cut(self) -> bool:
        with self._changed:
            self.cuts -= 1
            return self.cuts >= 0


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _matches(manifest: Manifest, query: dict[str, str]) -> bool:
    labels = manifest["metadata"].get("labels", {})
    for wanted in filter(None, query.get("labelSelector", "").split(",")):
        name, _, value = wanted.partition("=")
        if labels.get(name) != value:
            return False
    for wanted in filter(None, query.get("fieldSelector", "").split(",")):
        name, _, value = wanted.partition("=")
        found: Any = manifest
        for part in name.split("."):
            found = found.get(part, {})
        if found != value:
            return False
    return True


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: KubernetesApi

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").partition(" ")[2] or None
        request = Request(self.command, url.path, query, token)
        self.api.requests.append(request)
        self.api.on_request(request)
        if fault := self.api._fault(self.command, self.path):
            if fault.done:
                self.wfile = io.BytesIO()
                self._do(url.path, query, body)
            if fault.status is None:
                self.close_connection = True
            else:
                self._status(fault.status, "Played", fault.message, fault.headers)
            return
        self._do(url.path, query, body)

    def _do(self, path: str, query: dict[str, str], body: bytes) -> None:
        if path == "/version":
            self._json(200, {"major": "1", "minor": "35"})
            return
        match = _PATH.fullmatch(path)
        if not match or f"{match['group']}/{match['plural']}" not in self.api.resources:
            self._send(404, b"404 page not found\n", "text/plain")
            return
        where = f"{match['group']}/{match['plural']}", match["namespace"], match["name"]
        if match["part"] == "log":
            self._log(match["name"], query)
        elif self.command == "POST":
            self._create(*where[:2], json.loads(body))
        elif self.command == "DELETE":
            self._delete(where, json.loads(body or b"{}"))
        elif match["name"]:
            self._get(where)
        elif query.get("watch"):
            self._watch(*where[:2], query)
        else:
            self._list(*where[:2], query)

    def _get(self, key: tuple[str, str, str]) -> None:
        with self.api._changed:
            found = self.api._objects.get(key)
        if found is None:
            self._absent(key)
        else:
            self._json(200, found)

    def _list(self, collection: str, namespace: str, query: dict[str, str]) -> None:
        with self.api._changed:
            items = [
                manifest
                for (kind, where, _), manifest in self.api._objects.items()
                if kind == collection and where == namespace and _matches(manifest, query)
            ]
            version = str(self.api._latest)
        self._json(200, {"kind": "List", "metadata": {"resourceVersion": version}, "items": items})

    def _create(self, collection: str, namespace: str, manifest: Manifest) -> None:
        key = (collection, namespace, manifest["metadata"]["name"])
        with self.api._changed:
            if key in self.api._objects:
                self._status(409, "AlreadyExists", f'{collection} "{key[2]}" already exists')
                return
            manifest["metadata"] |= {"namespace": namespace}
            manifest = self.api.put(collection, manifest)
        threading.Thread(target=self.api.on_create, args=(copy.deepcopy(manifest),), daemon=True).start()
        self._json(201, manifest)

    def _delete(self, key: tuple[str, str, str], options: Manifest) -> None:
        with self.api._changed:
            found = self.api._objects.get(key)
            if found is None:
                self._absent(key)
                return
            wanted = options.get("preconditions", {}).get("uid", found["metadata"]["uid"])
            if wanted != found["metadata"]["uid"]:
                self._status(409, "Conflict", "Precondition failed: UID in precondition differs")
                return
            self.api.drop(key[0], key[2], key[1])
        self._json(200, {"kind": "Status", "status": "Success"})

    def _watch(self, collection: str, namespace: str, query: dict[str, str]) -> None:
        seen = int(query["resourceVersion"])
        until = time.monotonic() + float(query["timeoutSeconds"])
        self._begin_stream("application/json")
        while time.monotonic() < until and not self.api._closed:
            with self.api._changed:
                if seen < self.api._oldest:
                    gone = {
                        "kind": "Status",
                        "status": "Failure",
                        "reason": "Expired",
                        "code": 410,
                        "message": "too old",
                    }
                    self._chunk(json.dumps({"type": "ERROR", "object": gone}) + "\n")
                    break
                new = [entry for entry in self.api._history if entry[0] > seen]
                if not new:
                    self.api._changed.wait(0.1)
            for version, change, (kind, where, _), manifest in new:
                seen = version
                if kind == collection and where == namespace and _matches(manifest, query):
                    text = json.dumps({"type": change, "object": manifest}) + "\n"
                    if self._cut_off(text):
                        return
                    self._chunk(text)
        self._chunk("")

    def _log(self, pod: str, query: dict[str, str]) -> None:
        with self.api._changed:
            if not any(key[0] == f"{CORE}/pods" and key[2] == pod for key in self.api._objects):
                self._status(404, "NotFound", f'pods "{pod}" not found')
                return
            logs = self.api._logs_before if "previous" in query else self.api._logs
            log = logs.setdefault((pod, query["container"]), Log())
        since = query.get("sinceTime", "")[:19]  # kubelet is asked by the second
        self._begin_stream("text/plain")
        sent = 0
        while not self.api._closed:
            with self.api._changed:
                lines, ended = log.lines[sent:], log.ended
                if not lines and not ended:
                    self.api._changed.wait(0.1)
            for at, line in lines:
                sent += 1
                if at[:19] >= since:
                    if self._cut_off(f"{at} {line}\n"):
                        return
                    self._chunk(f"{at} {line}\n")
            if ended and sent == len(log.lines):
                break
        self._chunk("")

    def _cut_off(self, text: str) -> bool:
        """Sends half of `text` and closes the connection, where a cut is due."""
        if not self.api._cut():
            return False
        self.wfile.write(b"%x\r\n" % len(text) + text[: len(text) // 2].encode())
        self.wfile.flush()
        self.connection.shutdown(2)
        self.close_connection = True
        return True

    def _begin_stream(self, content: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        try:
            self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
            self.wfile.flush()
        except OSError:  # the client has gone
            self.close_connection = True

    def _absent(self, key: tuple[str, str, str]) -> None:
        self._status(404, "NotFound", f'{key[0]} "{key[2]}" not found')

    def _status(self, code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        status = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
        self._json(code, status, headers)

    def _json(self, code: int, body: Manifest, headers: dict[str, str] | None = None) -> None:
        self._send(code, json.dumps(body).encode(), "application/json", headers)

    def _send(self, code: int, body: bytes, content: str, headers: dict[str, str] | None = None) -> None:
        try:
            self.send_response(code)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", content)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the client has gone
            self.close_connection = True


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that was killed


@contextmanager
def serve(certificate: Path | None = None) -> Iterator[KubernetesApi]:
    """A server while the block runs; with TLS where a file with key and certificate is given."""
    api = KubernetesApi()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    api.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield api
    finally:
        api._closed = True
        server.shutdown()
        server.server_close()
