"""The engine `process`: a workload as a local process.

In: a `Workload` and the place of its log. Out: an `Outcome`; a failed or overdue process raises `WorkloadError` with a
diagnosis. The process gets a group of its own, so that ending it ends all that it started. It never outlives its
launcher: it is ended when the launcher gets SIGTERM or SIGINT, when whoever reads the launcher's output is gone (a
killed run), and, through the kernel's parent-death signal, when the launcher itself is killed.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from components import storage
from components.errors import WorkloadError
from components.workloads import environment, reader
from components.workloads.diagnose import diagnose
from components.workloads.places import AtHand, Mirror, at_hand
from components.workloads.workload import OnLine, Outcome, Workload

_TAIL = 400
_GRACE_S = 10.0
_LAST_WORDS_S = 1.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # looked up here: after a fork, another thread's lock of the loader stays locked for ever


def run(
    workload: Workload,
    log: str,
    on_line: OnLine,
    *,
    env: Mapping[str, str] | None = None,
    stop: Callable[[], str | None] = lambda: None,
) -> Outcome:
    """Runs the workload to its end.

    Args:
      workload: what to run.
      log: where every line of its output is kept, a local path or gs://.
      on_line: gets every line too.
      env: environment of this machine, below that of the workload.
      stop: asked several times a second; a reason that it returns ends the workload as failed.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="posttrain-") as scratch, _kept(log, Path(scratch)) as file:
        (places := Path(scratch) / "places").mkdir()
        with at_hand(workload, places) as program, file.open("w", encoding="utf-8") as sink:
            merged = {**environment.common(), **environment.machine(workload.needs), **(env or {}), **program.env}
            _run(workload, AtHand(program.command, merged), sink, on_line, stop)
    return Outcome(seconds=time.monotonic() - started, log=log)


def _run(workload: Workload, program: AtHand, sink: IO[str], on_line: OnLine, stop: Callable[[], str | None]) -> None:
    tail: collections.deque[str] = collections.deque(maxlen=_TAIL)
    ended_because: list[str] = []
    marked = workload.marker is None
    with _started(program) as process:
        assert process.stdout is not None
        watchdog = threading.Thread(
            target=_watch, args=(process, workload.deadline_s, stop, ended_because), daemon=True
        )
        watchdog.start()
        for line in _lines(process.stdout):
            tail.append(line)
            sink.write(line + "\n")
            sink.flush()
            marked = marked or str(workload.marker) in line
            on_line(line)
        code = process.wait()
    if ended_because:
        raise WorkloadError(workload.stage, ended_because[0], list(tail)[-3:])
    if code != 0:
        reason, evidence = diagnose(list(tail), exit_code=code)
        raise WorkloadError(workload.stage, reason, evidence)
    if not marked:
        reason = f"It ended with exit code 0 but never said '{workload.marker}', so its work is not whole."
        raise WorkloadError(workload.stage, reason, list(tail)[-8:])


@contextlib.contextmanager
def _kept(log: str, scratch: Path) -> Iterator[Path]:
    """The file that the log is written to: the log itself, or a local one that is stored there as it grows."""
    if storage.is_local(log):
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        yield Path(log)
        return
    file = scratch / "log.txt"
    file.touch()
    with Mirror(file, log):
        yield file


@contextlib.contextmanager
def _started(program: AtHand) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        program.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **program.env},
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
        _signal_group(process, signal.SIGKILL)  # what it has left behind, when it was killed


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
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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


def _watch(
    process: subprocess.Popen[str], deadline_s: float, stop: Callable[[], str | None], ended_because: list[str]
) -> None:
    """Ends the process at its deadline, when it is told to, or when nobody reads this launcher's output any more."""
    until = time.monotonic() + deadline_s
    while process.poll() is None:
        reason = stop()
        if time.monotonic() > until:
            reason = f"It ran longer than its deadline of {deadline_s:.0f} s: raise deadline_s of the stage or make it smaller."
        if reason:
            ended_because.append(reason)
            end(process)
        elif reader.is_gone():
            end(process)
        time.sleep(0.2)
    # what it has left behind may hold its output open, whose end is waited for
    time.sleep(_LAST_WORDS_S)
    _signal_group(process, signal.SIGKILL)


def _lines(stream: IO[str]) -> Iterator[str]:
    """Lines of a stream; a progress bar's carriage returns separate lines too."""
    for raw in stream:
        for part in raw.rstrip("\n").split("\r"):
            if part.strip():
                yield part
