"""Worker processes that run math-verify under hard time-outs.

math-verify bounds its own time with a signal, which neither a thread nor C code obeys. Here every comparison has its
own clock in the parent: a worker that exceeds it is killed with SIGKILL and replaced, its comparison counts as a
time-out, and the rest of its work goes back to the queue. A comparison whose worker dies is given to another once, then
counts as an error. One thread (the caller's), nothing shared.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

WORKER = Path(__file__).with_name("worker.py")

START_TIMEOUT_S = 120.0
"""Time for a fresh interpreter to import math-verify: one second, more on a machine that is busy compiling."""

CHUNK = 32
"""Comparisons handed to a worker at once: enough to keep it busy, few enough to balance the load at the end."""

WORTH_A_WORKER = 64
"""Waiting comparisons that pay for starting one more worker."""

TIMEOUT = "timeout"
DIED = "worker died"

Pair = tuple[tuple[str, ...], str]
Outcome = bool | str
"""True or false from math-verify, TIMEOUT, or the name of an error."""


class _Worker:
    """One process and the comparisons that it has in hand, the first of them running since `since`."""

    def __init__(self) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.input = cast(IO[bytes], self.process.stdin)
        self.output = cast(IO[bytes], self.process.stdout)
        os.set_blocking(self.output.fileno(), False)
        self.ready = False
        self.since = time.monotonic()
        self.tasks: deque[int] = deque()
        self.partial = b""

    def give(self, indices: Sequence[int], pairs: Sequence[Pair]) -> None:
        """Hands over comparisons. The worker is idle and reads while we write, so this does not block for long."""
        self.tasks.extend(indices)
        self.since = time.monotonic()
        # a worker that has died says so by the end of its output, and its comparisons are dealt with there
        with contextlib.suppress(BrokenPipeError):
            self.input.write(b"".join(json.dumps(pairs[i]).encode() + b"\n" for i in indices))
            self.input.flush()

    def read(self) -> list[Any] | None:
        """The complete lines that have arrived, or None at the end of the output."""
        chunk = self.output.read()
        if chunk == b"":
            return None
        *lines, self.partial = (self.partial + (chunk or b"")).split(b"\n")
        return [json.loads(line) for line in lines]

    def last_words(self) -> str:
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.process.poll()}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.input, self.output, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class MathVerifyPool:
    """Compares pairs of (gold answers, answer) in up to `workers` processes, each comparison within `timeout_s`
    seconds.

    Processes start when there is work for them, one for every `WORTH_A_WORKER` waiting comparisons, and live until
    `close`.
    """

    def __init__(self, workers: int, timeout_s: float) -> None:
        self._limit = workers
        self._timeout_s = timeout_s
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._died_once: set[int] = set()

    def __enter__(self) -> MathVerifyPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every worker. The pool can be used again."""
        for worker in list(self._workers):
            self._remove(worker)

    def compare(self, pairs: Sequence[Pair]) -> list[Outcome]:
        """The outcome of every pair, in order.

        Raises:
          RuntimeError: a worker does not start, with the last line that it wrote.
        """
        outcomes: list[Outcome | None] = [None] * len(pairs)
        waiting = deque(range(len(pairs)))
        self._died_once.clear()
        try:
            while waiting or any(worker.tasks for worker in self._workers):
                self._start(len(waiting))
                for worker in self._workers:
                    if worker.ready and not worker.tasks and waiting:
                        share = max(1, min(CHUNK, len(waiting) // (2 * len(self._workers))))
                        worker.give([waiting.popleft() for _ in range(min(share, len(waiting)))], pairs)
                self._collect(outcomes, waiting)
        except BaseException:
            self.close()  # interrupted: the answers still under way must not be taken for those of the next call
            raise
        return cast("list[Outcome]", outcomes)

    def _start(self, waiting: int) -> None:
        for worker in list(self._workers):
            if worker.process.poll() is not None and not worker.tasks and worker.ready:
                self._remove(worker)  # died while it was idle
        wanted = min(self._limit, -(-waiting // WORTH_A_WORKER))
        while len(self._workers) < wanted:
            worker = _Worker()
            self._workers.append(worker)
            self._selector.register(worker.output, selectors.EVENT_READ, worker)

    def _collect(self, outcomes: list[Outcome | None], waiting: deque[int]) -> None:
        now = time.monotonic()
        busy = [worker for worker in self._workers if worker.tasks or not worker.ready]
        nearest = min(self._deadline(worker) for worker in busy)
        for key, _ in self._selector.select(timeout=max(0.0, nearest - now)):
            worker: _Worker = key.data
            lines = worker.read()
            for line in lines or ():
                worker.since = time.monotonic()
                if not worker.ready:
                    worker.ready = True
                else:
                    outcomes[worker.tasks.popleft()] = line
            if lines is None:
                self._lost(worker, DIED, outcomes, waiting)
        for worker in list(self._workers):
            if (worker.tasks or not worker.ready) and time.monotonic() >= self._deadline(worker):
                self._lost(worker, TIMEOUT, outcomes, waiting)

    def _deadline(self, worker: _Worker) -> float:
        return worker.since + (self._timeout_s if worker.ready else START_TIMEOUT_S)

    def _lost(self, worker: _Worker, why: str, outcomes: list[Outcome | None], waiting: deque[int]) -> None:
        """Charges the comparison in hand, puts the others back in front of the queue, removes the worker."""
        if not worker.ready:
            words = worker.last_words()
            self._remove(worker)
            raise RuntimeError(f"the answer verifier's worker process does not start ({why}): {words}")
        if worker.tasks and (why == TIMEOUT or worker.tasks[0] in self._died_once):
            outcomes[worker.tasks.popleft()] = why
        elif worker.tasks:
            self._died_once.add(worker.tasks[0])
        waiting.extendleft(reversed(worker.tasks))
        self._remove(worker)

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._selector.unregister(worker.output)
        worker.kill()
