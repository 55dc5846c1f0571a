"""What a client of GKE needs of Google, on this machine: tokens for a service account, and the description of a cluster.

Both speak the real protocols: OAuth over HTTP, and the ClusterManager service over gRPC.
"""

from __future__ import annotations

import base64
import concurrent.futures
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from google.cloud import container_v1


@dataclass
class Google:
    """The servers and what they do.

    Attributes:
      tokens: how many tokens were given out; each is named after its number.
      scopes: for what the last one was asked.
      refuses: the service account is disabled.
      describe: answers GetCluster for a cluster's name, or raises a grpc status by name.
      grpc_address, token_uri: where they are.
    """

    tokens: int = 0
    scopes: str = ""
    refuses: bool = False
    describe: Callable[[str], container_v1.Cluster | grpc.StatusCode] = lambda name: grpc.StatusCode.NOT_FOUND
    grpc_address: str = ""
    token_uri: str = ""
    asked: list[str] = field(default_factory=list)

    def credentials(self, file: Path) -> Path:
        """Writes the key of a service account whose tokens come from here."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "client_email": "runner@project.iam.gserviceaccount.com",
            "private_key": pem.decode(),
            "private_key_id": "1",
            "project_id": "project",
            "token_uri": self.token_uri,
        }
        file.write_text(json.dumps(account))
        return file


@contextmanager
def serve() -> Iterator[Google]:
    """Both servers while the block runs."""
    google = Google()
    tokens = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(google))
    google.token_uri = f"http://127.0.0.1:{tokens.server_port}/token"
    threading.Thread(target=tokens.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    clusters = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    clusters.add_generic_rpc_handlers((_cluster_manager(google),))
    google.grpc_address = f"127.0.0.1:{clusters.add_insecure_port('127.0.0.1:0')}"
    clusters.start()
    try:
        yield google
    finally:
        clusters.stop(None)
        tokens.shutdown()
        tokens.server_close()


def _handler(google: Google) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            claims = form["assertion"][0].split(".")[1]
            google.scopes = json.loads(base64.urlsafe_b64decode(claims + "=="))["scope"]
            google.tokens += 1
            # a token with so short a life is used for one request only
            answer = {"access_token": f"token-{google.tokens}", "expires_in": 1, "token_type": "Bearer"}
            if google.refuses:
                answer = {"error": "invalid_grant", "error_description": "account disabled"}
            body = json.dumps(answer).encode()
            self.send_response(400 if google.refuses else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _cluster_manager(google: Google) -> grpc.GenericRpcHandler:
    def get_cluster(request: container_v1.GetClusterRequest, context: grpc.ServicerContext) -> container_v1.Cluster:
        google.asked.append(request.name)
        answer = google.describe(request.name)
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "played")
        return answer

    method = grpc.unary_unary_rpc_method_handler(
        get_cluster, container_v1.GetClusterRequest.deserialize, container_v1.Cluster.serialize
    )
    return grpc.method_handlers_generic_handler("google.container.v1.ClusterManager", {"GetCluster": method})


def certificate(folder: Path, name: str) -> tuple[Path, bytes]:
    """Makes a certificate for 127.0.0.1 that vouches for itself. Returns a file with key and certificate, and the
    certificate alone.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / f"{name}.pem"
    file.write_bytes(private + made)
    return file, made
