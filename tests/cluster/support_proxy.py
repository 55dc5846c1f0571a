"""A relay between a launcher and the API server, which holds back watches for as long as a test wants."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import urllib3

from tests.cluster.harness import Cluster

_NOT_PASSED_ON = {"connection", "content-length", "host", "transfer-encoding"}


class Relay:
    """What went through it.

    Attributes:
      kubeconfig: leads through the relay.
      open: a watch is passed on when this is set.
      waiting: how many watches have been asked for.
      expired: how many of them the server answered with 410, in a status or in an event.
    """

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self.open = threading.Event()
        self.waiting = 0
        self.expired = 0


@contextlib.contextmanager
def relay(cluster: Cluster, folder: Path) -> Iterator[Relay]:
    """Serves on this machine while the block runs. Watches wait at first."""
    view = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    upstream = view["clusters"][0]["cluster"]["server"]
    pool = urllib3.PoolManager(cert_reqs="CERT_NONE", assert_hostname=False)
    urllib3.disable_warnings()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            watches = "watch=true" in self.path
            if watches:
                passed.waiting += 1
                passed.open.wait()
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
            answer = pool.request(
                self.command, upstream + self.path, body=body, headers=headers, preload_content=False, retries=False
            )
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in _NOT_PASSED_ON:
                    self.send_header(name, value)
            self.end_headers()
            passed.expired += watches and answer.status == 410
            for line in answer:  # the end of the connection is the end of the answer
                passed.expired += watches and b'"code":410' in line
                self.wfile.write(line)
                self.wfile.flush()
            answer.release_conn()

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a launcher that is gone does not wait for the rest

    with Server(("127.0.0.1", 0), Handler) as server:
        view["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{server.server_port}"}
        kubeconfig = folder / "relay.kubeconfig"
        kubeconfig.write_text(json.dumps(view))
        passed = Relay(str(kubeconfig))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield passed
        finally:
            passed.open.set()
            server.shutdown()
