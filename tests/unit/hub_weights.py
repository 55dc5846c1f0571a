"""The hub as it serves weights: hashes of Git and LFS, parts of files, and connections that break.

Stands in front of a `hub_server.Hub` and serves the same repositories. Files that end in `.safetensors` are in LFS.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hub_server


class WeightsHub(hub_server.Hub):
    """A hub whose answers can be spoilt.

    `spoil` is asked for each answer with bytes of a file, by name and first byte: "cut" sends half of them and closes
    the connection, "flip" changes a bit of the last, "whole" ignores that a part was asked for, None does its best.
    """

    def __init__(self, hub: hub_server.Hub) -> None:
        super().__init__(repos=hub.repos, requests=hub.requests, tokens=hub.tokens)
        self.spoil: Callable[[str, int], str | None] = lambda name, start: None


def _handler(hub: WeightsHub) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(hub_server._handler(hub)):  # type: ignore[misc]
        def _file(self, data: bytes | None, commit: str) -> None:
            if data is None or self.command == "HEAD":
                return super()._file(data, commit)
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
            start, end = (int(asked[1]), int(asked[2]) + 1) if asked else (0, len(data))
            fate = hub.spoil(self.path.rsplit("/", 1)[-1], start)
            part = data if fate == "whole" else data[start:end]
            if asked and not part:
                return self._send(416, b"")
            if fate == "flip":
                part = part[:-1] + bytes([part[-1] ^ 1])
            self.send_response(206 if asked and fate != "whole" else 200)
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part[: len(part) // 2] if fate == "cut" else part)
            self.close_connection = fate == "cut"

        def _send(self, status: int, body: bytes, **headers: str) -> None:
            found = hub_server._API.fullmatch(self.path.partition("?")[0])
            if status == 200 and found and found["what"] == "tree":
                files = hub.repos[found["kind"], found["id"]].commits[found["revision"]]
                body = json.dumps([_entry(name, data) for name, data in files.items()]).encode()
            super()._send(status, body, **headers)

    return Handler


def _entry(name: str, data: bytes) -> dict[str, object]:
    oid = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    entry = {"type": "file", "path": name, "size": len(data), "oid": oid}
    if name.endswith(".safetensors"):
        lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return {**entry, "oid": hashlib.sha1(repr(lfs).encode()).hexdigest(), "lfs": lfs}
    return entry


@contextmanager
def serve(hub: hub_server.Hub) -> Iterator[WeightsHub]:
    """Runs such a hub on a free port for as long as the block lasts."""
    served = WeightsHub(hub)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(served)) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield served
        server.shutdown()
        thread.join()
