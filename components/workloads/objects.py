"""The objects of one namespace of a cluster, as plain dicts in the shape that kubectl shows.

In: a connected client and a namespace. Out: what is there, what changes, what a container writes. Requests are tried
again as api.py says; watches and logs end when their connection does, and their readers open them anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import urllib3

from components.errors import UserError
from components.workloads import api
from components.workloads.api import Manifest, Refused

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_WATCH_S = 300
_LOG_SILENCE_S = 120  # a connection that was dropped without a word is noticed after so long
_GONE = 404
_TAKEN = 409


@dataclass(frozen=True)
class Resource:
    """Where the API server keeps the objects of one kind."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """The path of an object, or of all of them in a namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


PODS = Resource("", "v1", "pods")
EVENTS = Resource("", "v1", "events")


@dataclass(frozen=True)
class Objects:
    """The objects of a namespace.

    Attributes:
      client: from kube.connect.
      namespace: where all of them are.
      patience_s: seconds for which a request is tried.
    """

    client: ApiClient
    namespace: str
    patience_s: float

    def create(self, resource: Resource, manifest: Manifest) -> Manifest | None:
        """Creates an object and returns it as the server keeps it; None when its name is taken."""
        try:
            return self._request("POST", resource.path(self.namespace), body=manifest)
        except Refused as refusal:
            if refusal.status == _TAKEN:
                return None
            if refusal.status == _GONE and "namespaces" in str(refusal):
                cure = "create it, or set cluster.namespace"
                raise UserError(f"The cluster has no namespace {self.namespace}: {cure}.") from refusal
            if refusal.status == _GONE:
                what = f"{resource.plural}.{resource.group}/{resource.version}"
                raise UserError(f"The cluster has no {what}: install the controller (docs/tpu.md).") from refusal
            raise

    def get(self, resource: Resource, name: str) -> Manifest | None:
        """Returns an object, or None when there is none of this name."""
        try:
            return self._request("GET", resource.path(self.namespace, name))
        except Refused as refusal:
            if refusal.status == _GONE:
                return None
            raise

    def find(self, resource: Resource, *, labels: str = "", fields: str = "") -> list[Manifest]:
        """Returns the objects that match a label selector and a field selector; none where the cluster has no such
        resource.
        """
        try:
            return list(self._list(resource, labels, fields)["items"])
        except Refused as refusal:
            if refusal.status == _GONE:
                return []
            raise

    def glance(self, resource: Resource, *, labels: str = "", fields: str = "") -> list[Manifest]:
        """As `find`, for what only helps to explain: none where we may not look either."""
        try:
            return self.find(resource, labels=labels, fields=fields)
        except Refused:
            return []

    def delete(self, resource: Resource, name: str, uid: str | None = None) -> None:
        """Deletes an object and, in the background, all that it owns; nothing happens when it is gone.

        With `uid` only that very object is deleted, never another one of the same name.
        """
        body: Manifest = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self._request("DELETE", resource.path(self.namespace, name), body=body)
        except Refused as refusal:
            if refusal.status not in (_GONE, _TAKEN):
                raise

    def changes(self, resource: Resource, *, labels: str = "", fields: str = "") -> Iterator[None]:
        """Yields once at the start and then at each change of the matching objects.

        Ends after 300 s, when the connection is lost, and when the server's history does not reach back far enough
        (410): whoever listens looks at everything anew and listens again.
        """
        seen = self._list(resource, labels, fields)["metadata"]["resourceVersion"]
        yield
        query = {
            **_selectors(labels, fields),
            "watch": "true",
            "resourceVersion": seen,
            "timeoutSeconds": str(_WATCH_S),
        }
        try:
            for line in api.lines(self.client, resource.path(self.namespace), query, _WATCH_S + 30):
                if json.loads(line)["type"] == "ERROR":
                    return
                yield
        except urllib3.exceptions.HTTPError:
            return

    def log(self, pod: str, container: str, since: str = "") -> Iterator[str]:
        """Yields the lines of a container, each after its time, until the container ends.

        Args:
          pod, container: whose.
          since: a time as the lines have it; lines before that second are left out.

        Raises urllib3's HTTPError when the connection is lost or silent for two minutes.
        """
        query = {
            "container": container,
            "follow": "true",
            "timestamps": "true",
            **({"sinceTime": since} if since else {}),
        }
        yield from api.lines(self.client, PODS.path(self.namespace, pod) + "/log", query, _LOG_SILENCE_S)

    def _list(self, resource: Resource, labels: str, fields: str) -> Manifest:
        return self._request("GET", resource.path(self.namespace), query=_selectors(labels, fields))

    def _request(
        self, method: str, path: str, query: dict[str, str] | None = None, body: Manifest | None = None
    ) -> Manifest:
        return api.request(self.client, method, path, query=query, body=body, patience_s=self.patience_s)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
