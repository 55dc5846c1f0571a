"""vLLM's OpenAI-compatible server as a child process: started, waited for, ended.

In: a `Spec` and the file of its log. Out: a server that answers at `address` while the block runs. vLLM is several
processes, which outlive one another; they get a process group of their own, and a guard that ends the group when this
process is killed. Raises `ServerFault`, a sentence with the cure, when the port is taken, when the server ends before it is
ready, and when it is not ready in time.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from components.serve.spec import PROGRESS, Spec

HOST = "127.0.0.1"
_MODULE = "vllm.entrypoints.openai.api_server"  # the command `vllm` does not work where the package has another name
# waits until its standard input is closed, which the kernel does for a process that is killed
_GUARD = 'read -r _; kill -s KILL -- "-$0"'
_LOOK_S, _TELL_S = 0.5, 15.0
_GRACE_S = 30.0
_LAST_WORDS_S = 20.0
_TAIL = 500
_EVIDENCE = 12
_ERROR = re.compile(r"\w(Error|Exception|Interrupt)(: |$)")
_CONSEQUENCE = re.compile("root cause|EngineDeadError")
_NO_LIBRARY = re.compile(r"cannot open shared object file")  # vLLM goes on without, and fails later at something else
_WARNING = re.compile(r"^W\d{4} | WARNING |Warning: |^  ")
_PREFIX = re.compile(r"^\([^)]*\)\s*|^(INFO|WARNING|ERROR) \S+ \S+ \[[^\]]*\]\s*")


class ServerFault(Exception):
    """The server does not serve. `reason` is one sentence with the cure, `evidence` lines of its log."""

    def __init__(self, reason: str, evidence: list[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.evidence = evidence


class Server:
    """A running server; `serving` makes one."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process = process
        self._log = log
        self.address = f"http://{HOST}:{port}"
        self.ready_s = 0.0

    def wait(self, startup_s: float) -> None:
        """Returns when the server says that it is healthy; says every 15 s what it is doing."""
        started = told = time.monotonic()
        while not self._healthy():
            waited = time.monotonic() - started
            if self._process.poll() is not None:
                raise self._ended("before it was ready")
            if waited > startup_s:
                raise ServerFault(
                    f"The server was not ready within {startup_s:.0f} s; the last it said: {self._last_line()}: see "
                    "server.log, or raise serve.startup_s.",
                    self._tail()[-_EVIDENCE:],
                )
            if time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                print(f"{PROGRESS}waiting for vLLM, {waited:.0f} s: {self._last_line()}", flush=True)
            time.sleep(_LOOK_S)
        self.ready_s = time.monotonic() - started

    def explain(self, error: Exception, answered: int) -> ServerFault:
        """What a request that failed says of the server. An engine that fails takes its server along a little later.

        Args:
          error: what the client raised.
          answered: requests that had been answered before.
        """
        when = f"at request {answered + 1}" if answered else "at its first request"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS_S)
            return self._ended(when)
        said = " ".join(str(error).split())[:300]
        return ServerFault(f"The server refused {when}: {said}: see server.log.", self._tail()[-_EVIDENCE:])

    def stop(self) -> None:
        """Ends the server and all that it started: SIGTERM, and SIGKILL after 30 s."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:  # not listening yet, or a status that is an error
            return False

    def _ended(self, when: str) -> ServerFault:
        lines = self._tail()
        at = _cause(lines)
        cause = _told(lines, at) if at is not None else self._last_line()
        end = f"exit code {code}" if (code := self._process.returncode) >= 0 else signal.Signals(-code).name
        evidence = lines[max(0, at - _EVIDENCE + 3) : at + 3] if at is not None else lines[-_EVIDENCE:]
        if re.search(r"(?i)address already in use", cause):
            return ServerFault(_taken(self.address.rpartition(":")[2]), evidence)
        return ServerFault(f"The server ended {when} ({end}): {cause[:300]}: see server.log.", evidence)

    def _tail(self) -> list[str]:
        with self._log.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip() for line in collections.deque(file, _TAIL) if line.strip()]

    def _last_line(self) -> str:
        """What the server said last, of its own progress if it says any."""
        lines = [line for line in self._tail() if not _WARNING.search(line)]
        progress = [line for line in lines if " INFO " in line]
        return _plain((progress or lines or ["nothing"])[-1])[:100]


@contextlib.contextmanager
def serving(spec: Spec, env: dict[str, str], log: Path) -> Iterator[Server]:
    """Yields a server that is ready, and ends it.

    Args:
      spec: what to serve and how.
      env: on top of this process' environment.
      log: a file for all that it writes.
    """
    port = _free_port(spec.port)
    command = [sys.executable, "-m", _MODULE, "--model", spec.model, "--served-model-name", spec.name]
    command += ["--host", HOST, "--port", str(port), "--dtype", spec.dtype, *spec.arguments]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            start_new_session=True,
        )
    server = Server(process, port, log)
    with _guarded(process.pid):
        try:
            server.wait(spec.startup_s)
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def _guarded(group: int) -> Iterator[None]:
    """While inside, the group ends with this process, however that ends."""
    guard = subprocess.Popen(
        ["sh", "-c", _GUARD, str(group)], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        guard.kill()
        guard.communicate()


def _free_port(wanted: int) -> int:
    """Returns the wanted port, or any free one for 0."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise ServerFault(_taken(str(wanted)), [str(error)]) from error
        return int(probe.getsockname()[1])


def _taken(port: str) -> str:
    return f"Port {port} is in use by another program: end that, or set serve.port=0, which takes a free one."


def _cause(lines: list[str]) -> int | None:
    """Where the log says what the server ended of: a library that is missing, else the last error that is not the
    consequence of another.
    """
    if libraries := [at for at, line in enumerate(lines) if _NO_LIBRARY.search(line)]:
        return libraries[0]
    found = [at for at, line in enumerate(lines) if _ERROR.search(line) and not _WARNING.search(line)]
    own = [at for at in found if not _CONSEQUENCE.search(lines[at])]
    return max(own or found, default=None)


def _told(lines: list[str], at: int) -> str:
    """The error in a line, with the next one where that is indented: pydantic says what is wrong there."""
    more = [line.strip() for line in lines[at + 1 : at + 2] if line.startswith("  ")]
    return " ".join([_plain(lines[at]), *more])


def _plain(line: str) -> str:
    """A line of vLLM's log without what stands before its text: process, level, time, place."""
    while (shorter := _PREFIX.sub("", line)) != line:
        line = shorter
    return line.strip().rstrip(".")
