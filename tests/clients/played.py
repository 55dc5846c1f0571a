"""A service played on this machine: answers over real HTTP, keeps what it was asked, and fails when it is told to."""

from __future__ import annotations

import http.server
import json
import math
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Refused(Exception):
    """What a handler raises to answer something other than yes."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body


@dataclass
class Fault:
    """What happens to requests instead of an answer: a refusal, or the word "hang" or "drop"."""

    method: str
    path: str  # a pattern
    what: Refused | str
    times: float = math.inf


@dataclass
class Service:
    """Base of the played services: a subclass answers in `answer`."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # faults of a handler itself, which are faults of the test
    done: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Request) -> Any:
        raise NotImplementedError

    def refuse(self, method: str, path: str, status: int, body: Any, times: float = math.inf) -> None:
        """From now on, requests like these get this answer."""
        self.faults.append(Fault(method, path, Refused(status, body), times))

    def hang(self, method: str, path: str) -> None:
        """From now on, requests like these get no answer."""
        self.faults.append(Fault(method, path, "hang"))

    def drop(self, method: str, path: str) -> None:
        """From now on, the connection of requests like these is closed without an answer."""
        self.faults.append(Fault(method, path, "drop"))

    def asked(self, method: str, path: str) -> list[Request]:
        return [r for r in self.requests if r.method == method and re.fullmatch(path, r.path)]

    def fault(self, request: Request) -> Refused | str | None:
        for fault in self.faults:
            if fault.times and request.method == fault.method and re.fullmatch(fault.path, request.path):
                fault.times -= 1
                return fault.what
        return None


def _handler(service: Service) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {name: values[0] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, unquote(split.path), query, headers, body)
            service.requests.append(request)
            fault = service.fault(request)
            if fault == "hang":
                service.done.wait()
            if isinstance(fault, str):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return None
            try:
                if fault:
                    raise fault
                return self._send(200, service.answer(request))
            except Refused as refused:
                return self._send(refused.status, refused.body)
            except Exception as error:
                service.broken.append(f"{request.method} {request.path}: {error!r}")
                return self._send(500, {"message": f"the played service is broken: {error!r}"})

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def _send(self, status: int, body: Any) -> None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            kind = "application/json" if not isinstance(body, str) else "text/html"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def serve[S: Service](service: S, certificate: str | None = None) -> Iterator[S]:
    """Runs the service on a free port for as long as the block lasts; fails when a handler was broken.

    With a certificate (a file with its key) it speaks TLS.
    """
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(service)) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        service.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield service
        service.done.set()
        server.shutdown()
        thread.join()
    assert service.broken == []


def closed_port() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
