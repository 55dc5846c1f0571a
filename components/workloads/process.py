"""The engine `process`: a workload as a local process.

In: a `Workload` and the path of its log. Out: an `Outcome`; a failed or overdue process raises `WorkloadError` with a
diagnosis. The process gets a group of its own, so that ending it ends all that it started. It never outlives its
launcher: it is ended when the launcher gets SIGTERM or SIGINT, when whoever reads the launcher's output is gone (a
killed run), and, through the kernel's parent-death signal, when the launcher itself is killed.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from components.errors import WorkloadError
from components.workloads.diagnose import diagnose
from components.workloads.workload import OnLine, Outcome, Workload

_TAIL = 400
_GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1


def run(workload: Workload, log: Path, on_line: OnLine) -> Outcome:
    """Runs the workload to its end; every line of its output goes to `log` and to `on_line`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    tail: collections.deque[str] = collections.deque(maxlen=_TAIL)
    overdue = threading.Event()
    with log.open("w", encoding="utf-8") as sink, _started(workload) as process:
        assert process.stdout is not None
        watchdog = threading.Thread(target=_watch, args=(process, workload.deadline_s, overdue), daemon=True)
        watchdog.start()
        for line in _lines(process.stdout):
            tail.append(line)
            sink.write(line + "\n")
            sink.flush()
            on_line(line)
        code = process.wait()
    if code != 0:
        reason, evidence = diagnose(
            list(tail), exit_code=code, timed_out=overdue.is_set(), deadline_s=workload.deadline_s
        )
        raise WorkloadError(workload.stage, reason, evidence)
    return Outcome(seconds=time.monotonic() - started, log=str(log))


@contextlib.contextmanager
def _started(workload: Workload) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        workload.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **workload.env},
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,
    )
    try:
        with _signals_end(process):
            yield process
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Ends a process and its group: SIGTERM, then SIGKILL after a grace period. Does nothing when it has ended."""
    if process.poll() is not None:
        return
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[str], signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signum)


def _die_with_parent() -> None:
    # async-signal-safe enough: one system call between fork and exec
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def _signals_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """While inside, SIGTERM and SIGINT to this process end the workload first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, _frame: object) -> None:
        end(process)
        raise SystemExit(128 + signum)

    previous = {s: signal.signal(s, handle) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for signum, old in previous.items():
            signal.signal(signum, old)


def _watch(process: subprocess.Popen[str], deadline_s: float, overdue: threading.Event) -> None:
    """Ends the process at its deadline, or when nobody reads this launcher's output any more."""
    until = time.monotonic() + deadline_s
    poller = select.poll()
    poller.register(1, select.POLLERR)  # the reader of a pipe closing it shows as an error at the writer's end
    while process.poll() is None:
        if time.monotonic() > until:
            overdue.set()
            end(process)
        elif any(event & select.POLLERR for _, event in poller.poll(0)):
            end(process)
        time.sleep(0.2)


def _lines(stream: IO[str]) -> Iterator[str]:
    """Lines of a stream; a progress bar's carriage returns separate lines too."""
    for raw in stream:
        for part in raw.rstrip("\n").split("\r"):
            if part.strip():
                yield part
