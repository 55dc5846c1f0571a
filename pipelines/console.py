"""What a person sees while a pipeline runs: the stages' progress lines out of the stream of everything.

On a terminal the newest progress line of a stage replaces the one before it; elsewhere lines are printed at a readable pace. `verbose` shows every line.
"""

from __future__ import annotations

import io
import sys
import time
from typing import TextIO

from components.progress import FAILURE, MARK

_PACE_S = 10.0


class Console:
    """Shows progress lines on `stream`."""

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        self._stream = stream or sys.stdout
        self._verbose = verbose
        self._live = self._stream.isatty()
        self._transient = False
        self._shown = 0.0
        self._started = time.monotonic()

    def line(self, line: str) -> None:
        """Takes one line of the run's output."""
        text = line.strip()
        if self._verbose:
            self._print(line)
        elif text.startswith(MARK):
            stage, _, message = text[len(MARK) :].partition("] ")
            self._progress(stage, message)
        elif text.startswith(FAILURE):
            self._print(text[len(FAILURE) :])

    def _progress(self, stage: str, message: str) -> None:
        passing = message.startswith("step ") or "/" in message.split(" ", 1)[0]
        shown = f"{_clock(time.monotonic() - self._started)}  {stage:<9} {message}"
        if self._live:
            self._print(shown, transient=passing)
        elif not passing or time.monotonic() - self._shown > _PACE_S:
            self._shown = time.monotonic()
            self._print(shown)

    def _print(self, text: str, *, transient: bool = False) -> None:
        erase = "\r\x1b[2K" if self._live and self._transient else ""
        self._stream.write(erase + text + ("" if transient and self._live else "\n"))
        self._stream.flush()
        self._transient = transient


class Tee(io.TextIOBase):
    """A standard output that keeps everything in a log and shows lines to a console."""

    def __init__(self, log: TextIO, console: Console) -> None:
        self._log = log
        self._console = console
        self._rest = ""

    def write(self, text: str) -> int:
        self._log.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._console.line(line)
        if lines:
            self._log.flush()
        return len(text)

    def flush(self) -> None:
        self._log.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:d}:{int(seconds) % 60:02d}"
