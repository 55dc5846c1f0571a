"""The server of the serving check as a process: what a person learns when it does not serve, and that it ends."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request

import psutil
import pytest
from serving_examples import script, spec

from components.serve.server import HOST, ServerFault, serving


def start(tmp_path, fault=None, **changes):
    return serving(spec(tmp_path, name=str(tmp_path), **changes), dict(script(fault)), tmp_path / "server.log")


def fault_of(tmp_path, fault=None, **changes) -> ServerFault:
    with pytest.raises(ServerFault) as raised, start(tmp_path, fault, **changes):
        pytest.fail("it served")
    assert "\n" not in raised.value.reason
    return raised.value


def running(command: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if command in " ".join(p.info["cmdline"] or [])]


def gone(process: psutil.Process, within_s: float = 20.0) -> bool:
    until = time.monotonic() + within_s
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
        time.sleep(0.05)
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_server_that_is_ready_answers_and_has_ended_after_the_block(tmp_path):
    with start(tmp_path) as server:
        assert urllib.request.urlopen(f"{server.address}/health").status == 200
        assert server.ready_s > 0
        (process,) = running(str(tmp_path))
    assert gone(process)
    assert "Loading weights" in (tmp_path / "server.log").read_text()


def test_a_port_in_use_is_named_before_a_server_is_started(tmp_path):
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        fault = fault_of(tmp_path, port=port)
    assert f"Port {port} is in use" in fault.reason
    assert "serve.port=0" in fault.reason
    assert not (tmp_path / "server.log").exists()


def test_a_port_that_is_taken_meanwhile_is_named_too(tmp_path):
    assert "is in use by another program" in fault_of(tmp_path, "port").reason


def test_a_server_that_does_not_start_gives_its_own_error_and_not_the_consequence(tmp_path):
    fault = fault_of(tmp_path, "does not start")
    assert "ended before it was ready (exit code 1): SafetensorError" in fault.reason
    assert "root cause" not in fault.reason
    assert any("SafetensorError" in line for line in fault.evidence)


def test_a_library_that_the_machine_lacks_is_the_cause_and_not_what_fails_without_it(tmp_path):
    assert "ImportError('libnuma.so.1: cannot open" in fault_of(tmp_path, "library").reason


def test_settings_that_are_refused_are_told_with_what_is_wrong(tmp_path):
    found = fault_of(tmp_path, "settings").reason
    assert "1 validation error for ModelConfig Value error, Model architectures ['Other'] are not supported" in found


@pytest.mark.parametrize("fault", ["silent", "never healthy"])
def test_a_server_that_is_never_healthy_is_given_up_with_the_last_it_said(tmp_path, fault):
    found = fault_of(tmp_path, fault, startup_s=5)
    assert "was not ready within 5 s" in found.reason
    assert "Loading weights" in found.reason
    assert "serve.startup_s" in found.reason
    assert not [p for p in running(str(tmp_path)) if p.status() != psutil.STATUS_ZOMBIE]


def test_a_server_that_cannot_be_started_says_why(tmp_path):
    with (
        pytest.raises(ServerFault, match="No module named"),
        serving(spec(tmp_path), {"PYTHONPATH": str(tmp_path)}, tmp_path / "server.log"),
    ):
        pass


PROGRAM = """
    import sys
    from pathlib import Path
    from components.serve.server import serving
    from components.serve.spec import Spec
    spec = Spec.model_validate_json(sys.argv[1])
    with serving(spec, {}, Path(spec.result) / "server.log") as server:
        print(server._process.pid, flush=True)
        sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, "group"])
def test_a_server_does_not_outlive_its_program(tmp_path, how):
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), spec(tmp_path).model_dump_json()],
        env={**os.environ, **script()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    server = psutil.Process(int(program.stdout.readline()))
    if how == "group":
        os.killpg(program.pid, signal.SIGTERM)  # as the engine ends a workload
    else:
        os.kill(program.pid, how)
    program.wait(30)
    assert gone(server)
