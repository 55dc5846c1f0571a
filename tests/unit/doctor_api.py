"""What `posttrain doctor` asks, played over HTTP: a Kubernetes API server, a bucket, a page of the hub."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes import client

from components import config
from components.errors import UserError
from pipelines import doctor
from pipelines.doctor import checks, run
from pipelines.doctor.case import Case
from pipelines.doctor.gke import Gke

V6E = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "4x8"}
POOL = "cloud.google.com/gke-nodepool"
SECRET = "/api/v1/namespaces/default/secrets/hf-secret"
NAMESPACE = "/api/v1/namespaces/default"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOBSETS = "/apis/jobset.x-k8s.io"

Query = dict[str, list[str]]
Answer = Callable[[str, str, Query, Any], tuple[int, Any]]


@contextmanager
def serve(answer: Answer) -> Iterator[str]:
    """Runs a server of JSON on a free port; `answer` gets method, path, query and body, and gives status and object."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            split = urlsplit(self.path)
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, found = answer(self.command, split.path, parse_qs(split.query), json.loads(sent or b"null"))
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format, *args):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 64  # reviews come many at once

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@dataclass
class Cluster:
    """A cluster by what its API server answers.

    Attributes:
      objects: what lies at each path. A list has the items of the paths one level below.
      lists: paths that are lists though they may be empty.
      denied: (verb, resource) pairs that the access review denies, and looks at which are answered with 403.
      refusal: status and message that a dry run is answered with, None to accept it.
      requests: method, path and query of all that was asked.
      sent: bodies of dry runs.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    lists: set[str] = field(default_factory=set)
    denied: set[tuple[str, str]] = field(default_factory=set)
    refusal: tuple[int, str] | None = None
    requests: list[str] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def connect(self, _cluster: config.ClusterConfig) -> client.ApiClient:
        configuration = client.Configuration(host=self.url)
        configuration.retries = False
        return client.ApiClient(configuration)

    def add_nodes(
        self, pool: str, count: int, allocatable: dict[str, str], labels: dict[str, str], **spec: Any
    ) -> None:
        """Adds nodes `<pool>-0`, ..., as GKE labels them."""
        for index in range(count):
            name = f"{pool}-{index}"
            self.objects[f"/api/v1/nodes/{name}"] = {
                "metadata": {"name": name, "labels": {POOL: pool, **labels}},
                "spec": spec,
                "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
            }

    def add_kueue(self, quotas: dict[str, object], *, flavor: dict[str, str] | None = None, **spec: Any) -> None:
        """Adds Kueue with the LocalQueue `team` on the ClusterQueue `shared` of one flavor."""
        self.objects["/apis/kueue.x-k8s.io"] = {
            "preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"},
            "versions": [{"version": "v1beta2"}],
        }
        self.lists |= {f"{KUEUE}/namespaces/default/localqueues", f"{KUEUE}/resourceflavors"}
        self.objects[f"{KUEUE}/namespaces/default/localqueues/team"] = {
            "metadata": {"name": "team"},
            "spec": {"clusterQueue": "shared"},
        }
        resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
        groups = [{"coveredResources": list(quotas), "flavors": [{"name": "any", "resources": resources}]}]
        self.objects[f"{KUEUE}/clusterqueues/shared"] = {
            "metadata": {"name": "shared"},
            "spec": {"resourceGroups": groups, **spec},
        }
        self.objects[f"{KUEUE}/resourceflavors/any"] = {
            "metadata": {"name": "any"},
            "spec": {"nodeLabels": flavor or {}},
        }

    def answer(self, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        match path.rsplit("/", 1)[-1]:
            case "selfsubjectreviews":
                return 201, {"status": {"userInfo": {"username": "system:serviceaccount:default:posttrain"}}}
            case "selfsubjectaccessreviews":
                asked = body["spec"]["resourceAttributes"]
                resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
                return 201, {"status": {"allowed": (asked["verb"], resource) not in self.denied}}
        if method == "POST":
            return self._dry_run(path, query, body)
        return self._look(path, query)

    def _dry_run(self, path: str, query: Query, body: Any) -> tuple[int, Any]:
        assert query == {"dryRun": ["All"], "fieldValidation": ["Strict"]}, "doctor creates nothing"
        self.sent.append(body)
        return (self.refusal[0], _status(*self.refusal)) if self.refusal else (201, body)

    def _look(self, path: str, query: Query) -> tuple[int, Any]:
        kind = self._kind(path)
        verb = "get" if path in self.objects or path not in self.lists else "list"
        if (verb, kind) in self.denied:
            message = f'{kind} is forbidden: User "me" cannot {verb} resource "{kind}" in API group ""'
            return 403, _status(403, message)
        if path in self.objects:
            return 200, self.objects[path]
        items = [item for place, item in sorted(self.objects.items()) if place.rsplit("/", 1)[0] == path]
        if not items and path not in self.lists:
            return 404, _status(404, f"{kind} not found")
        wanted = dict(pair.split("=") for s in query.get("labelSelector", []) for pair in s.split(",") if "=" in pair)
        keys = {s for s in query.get("labelSelector", []) if "=" not in s}

        def matches(labels: dict[str, str]) -> bool:
            return wanted.items() <= labels.items() and keys <= labels.keys()

        return 200, {"items": [item for item in items if matches(item["metadata"].get("labels", {}))]}

    def _kind(self, path: str) -> str:
        *_, parent, last = path.split("/")
        return last if path in self.lists else parent


def _status(code: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "message": message}


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Runs a cluster in which the preset gemma4-26b-v6e-32 can run."""
    played = Cluster(
        objects={
            "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.1-gke.1"},
            NAMESPACE: {"metadata": {"name": "default"}},
            SECRET: {"metadata": {"name": "hf-secret"}, "data": {"hf_api_token": "aGZfU0VOVElORUw="}},
            JOBSETS: {"versions": [{"version": "v1alpha2"}]},
        },
        lists={"/api/v1/nodes", "/apis/scheduling.k8s.io/v1/priorityclasses"},
    )
    tpu_taint = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
    played.add_nodes("slice-0", 8, {"google.com/tpu": "4", "cpu": "180", "memory": "700Gi"}, V6E, taints=[tpu_taint])
    played.add_nodes("cpu-np", 2, {"cpu": "63", "memory": "240Gi", "ephemeral-storage": "400G"}, {})
    with serve(played.answer) as played.url:
        yield played


def preset(*settings: str, name: str = "gemma4-26b-v6e-32") -> config.Config:
    return config.load(name, settings)


def look(
    played: Cluster,
    check: str,
    *settings: str,
    name: str = "gemma4-26b-v6e-32",
    store: str = "gs://no-bucket/posttrain",
    output: str | None = None,
    describe: Any = None,
    objects: tuple[dict[str, Any], ...] = (),
) -> list[doctor.Finding]:
    """What one check finds; `describe` stands for Google's API, `objects` for what the run would create."""
    case = Case(preset(*settings, name=name), store, output, played.connect, describe or _no_gke)
    if objects:
        case.__dict__["objects"] = objects
    looks = {**checks.of("jobset"), **checks.ENGINES["rayjob"]}
    return list(run.findings(check, looks[check], case))


def _no_gke(name: str) -> Gke:
    raise UserError(f"Google's API knows nothing of {name}.")


def only(found: list[doctor.Finding]) -> doctor.Finding:
    """The single finding that is expected."""
    assert len(found) == 1, found
    return found[0]
