"""What a person sees while a pipeline runs: the stages' progress lines out of the stream of everything.

On a terminal the stage at work has a live line with its latest progress and the time it has taken; elsewhere lines are
printed at a readable pace. `verbose` shows every line of every process.
"""

from __future__ import annotations

import io
import re
import sys
import time
from types import TracebackType
from typing import TextIO

from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from components.progress import FAILURE, MARK

_PACE_S = 10.0
_COUNT = re.compile(r"(\d+)/(\d+)")


class Console:
    """Shows the progress of a run; a context manager, so that a live line is taken down at the end."""

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        self._terminal = Terminal(file=stream or sys.stdout, highlight=False, soft_wrap=True)
        self._verbose = verbose
        self._live = self._terminal.is_terminal and not verbose
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[message]}"),
            TimeElapsedColumn(),
            console=self._terminal,
            transient=True,
        )
        self._stage = ""
        self._shown = 0.0
        self._started = time.monotonic()

    def __enter__(self) -> Console:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._progress.stop()

    def line(self, line: str) -> None:
        """Takes one line of the run's output."""
        text = line.strip()
        if self._verbose:
            self._terminal.print(Text(line))
        elif text.startswith(MARK):
            stage, _, message = text[len(MARK) :].partition("] ")
            self._show(stage, message)
        elif text.startswith(FAILURE):
            self._terminal.print(Text(text[len(FAILURE) :], style="bold red"))

    def _show(self, stage: str, message: str) -> None:
        count = _COUNT.search(message)
        if self._live:
            self._update(stage, message, count)
        if message == "starting":
            return
        passing = count is not None and not message.startswith("done in")
        if not passing or (not self._live and time.monotonic() - self._shown > _PACE_S):
            self._shown = time.monotonic()
            clock = time.monotonic() - self._started
            self._terminal.print(Text(f"{int(clock) // 60}:{int(clock) % 60:02d}  {stage:<9} {message}"))

    def _update(self, stage: str, message: str, count: re.Match[str] | None) -> None:
        if stage != self._stage:
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._progress.add_task(stage, total=None, message=message)
            self._stage = stage
        task = self._progress.task_ids[-1]
        if count:
            self._progress.update(task, completed=int(count[1]), total=int(count[2]), message=message)
        else:
            self._progress.update(task, message=message)


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
