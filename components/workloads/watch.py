"""Looks at a workload whenever something about it changes, and every `poll_s` where nothing is heard.

Two watches, on the object and on its pods, only ring a bell; every look asks for the whole state. So a watch that ends,
is cut off or was asleep too long (410) loses nothing: it is opened anew, and the poll covers the time between.
Everything comes together in one inbox, so that whoever looks also hands over the log lines, in one thread.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from types import TracebackType

from components.errors import UserError
from components.progress import say
from components.workloads.api import Unreachable
from components.workloads.kinds import Kind
from components.workloads.objects import PODS, Objects, Resource
from components.workloads.seen import Snapshot, look
from components.workloads.workload import OnLine

# how long the API server may be away while a workload runs: an upgrade of a zonal cluster takes some minutes
OUTAGE_S = 1800.0
_BUSIEST_S = 1.0  # of many changes at once, one look is enough
_PAUSE_S = 1.0


class Watch:
    """The watches and the inbox of one workload, open while the block runs.

    Args:
      objects, kind, name: the object.
      poll_s: seconds between two looks where nothing is heard.
      stage: who says that the cluster does not answer.
      on_line: gets the lines that were put in with `hear`.
    """

    def __init__(self, objects: Objects, kind: Kind, name: str, *, poll_s: float, stage: str, on_line: OnLine) -> None:
        self._objects = objects
        self._kind = kind
        self._name = name
        self._poll_s = poll_s
        self._stage = stage
        self._on_line = on_line
        self._inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # a line of the log, or None: a change
        self._over = threading.Event()

    def __enter__(self) -> Watch:
        for resource, selector in (
            (self._kind.resource, {"fields": f"metadata.name={self._name}"}),
            (PODS, {"labels": self._kind.pods_of(self._name)}),
        ):
            threading.Thread(target=self._listen, args=(resource, selector), name="watch", daemon=True).start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._over.set()

    def hear(self, line: str) -> None:
        """Puts in a line of the command's log, from any thread."""
        self._inbox.put(line)

    def looks(self) -> Iterator[Snapshot | None]:
        """Yields what there is, again and again; None while there is no such object. Hands over lines in between."""
        while True:
            yield self._look()
            self._wait()

    def hand_over(self) -> None:
        """Hands over the lines that are left."""
        while not self._inbox.empty():
            if (line := self._inbox.get()) is not None:
                self._on_line(line)

    def _look(self) -> Snapshot | None:
        began = time.monotonic()
        while True:
            try:
                return look(self._objects, self._kind, self._name)
            except Unreachable as error:
                if time.monotonic() - began > OUTAGE_S:
                    raise
                say(self._stage, f"no word from the cluster, the workload goes on; trying on: {error}")

    def _wait(self) -> None:
        """Hands over lines until it is time for the next look."""
        now = time.monotonic()
        earliest, due = now + min(_BUSIEST_S, self._poll_s), now + self._poll_s
        while (left := due - time.monotonic()) > 0:
            try:
                line = self._inbox.get(timeout=left)
            except queue.Empty:
                return
            if line is None:
                due = min(due, max(earliest, time.monotonic()))
            else:
                self._on_line(line)

    def _listen(self, resource: Resource, selector: dict[str, str]) -> None:
        while not self._over.is_set():
            try:
                for _ in self._objects.changes(resource, **selector):
                    self._inbox.put(None)
                    if self._over.is_set():
                        return
            except UserError:
                pass  # the look that follows says so, if it lasts
            self._over.wait(min(_PAUSE_S, self._poll_s))
