"""A bad way to Cloud Storage: passes requests on to the played server, and spoils some of the answers."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Request:
    """What a client asked: method, path with query, body."""

    method: str
    path: str
    body: bytes


@dataclass
class Proxy:
    """What came through, and what to do with the answers.

    `spoil` is asked for each request: None passes the answer on, a number answers with that status and `message`
    instead and does not pass the request on, bytes are the answer themselves, "lost" closes the connection after the
    server has done its work, "cut" closes it in the middle of the answer, "flip" changes a bit of the answer's last
    byte, "garble" a byte 0xaa of the request.
    """

    url: str = ""
    message: str = ""
    requests: list[Request] = field(default_factory=list)
    spoil: Callable[[Request], int | bytes | str | None] = lambda _: None


def _handler(proxy: Proxy, server: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            request = Request(self.command, self.path, self.rfile.read(int(self.headers.get("Content-Length", 0))))
            proxy.requests.append(request)
            fate = proxy.spoil(request)
            if isinstance(fate, int):
                error = {"error": {"code": fate, "message": proxy.message}}
                return self._send(fate, _JSON, json.dumps(error).encode())
            if isinstance(fate, bytes):
                return self._send(200, _JSON, fate)
            connection = http.client.HTTPConnection(urlsplit(server).netloc)
            # named as itself, the server would send clients past this proxy
            headers = {**dict(self.headers), "Host": urlsplit(proxy.url).netloc}
            body = request.body.replace(b"\xaa", b"\xab", 1) if fate == "garble" else request.body
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            body = answer.read().replace(server.encode(), proxy.url.encode())
            connection.close()
            if fate == "lost":
                self.close_connection = True
                return None
            if fate == "flip":
                body = body[:-1] + bytes([body[-1] ^ 1])
            kept = [(k, v.replace(server, proxy.url)) for k, v in answer.getheaders() if k.lower() not in _OURS]
            return self._send(answer.status, kept, body, len(body) // 2 if fate == "cut" else None)

        do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

        def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, cut: int | None = None) -> None:
            self.send_response(status)
            for name, value in [*headers, ("Content-Length", str(len(body)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:cut])
            if cut is not None:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


_JSON = [("Content-Type", "application/json")]
_OURS = {"content-length", "transfer-encoding", "connection"}


@contextmanager
def serve(server: str) -> Iterator[Proxy]:
    """Runs a proxy in front of `server` for as long as the block lasts."""
    proxy = Proxy()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy, server)) as listening:
        proxy.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield proxy
        listening.shutdown()
        thread.join()
