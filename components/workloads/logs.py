"""Follows the logs of a workload's pods from their start, and keeps them with the attempt.

Of each role the first pod is followed, all of its containers: for Pathways the command, the proxy, the resource manager
and worker 0 of slice 0. Of other pods, such as a slice's other hosts, only what has failed is followed. A stream that
breaks is opened again from its last line's time, without a line twice. Each log is kept as `logs/<role>-<container>.txt`,
other pods' as `logs/<role>-<number>-<container>.txt`, stored every minute and at the end. Lines of the command are handed
over too.
"""

from __future__ import annotations

import collections
import contextlib
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

import urllib3

from components import storage
from components.errors import UserError
from components.workloads import api
from components.workloads.api import Refused, Unreachable
from components.workloads.objects import PODS, Objects
from components.workloads.seen import Container, Pod, Snapshot
from components.workloads.workload import OnLine

FOLDER = "logs"
_TAIL = 400
_STORE_EVERY_S = 60.0
_PAUSE_S = 1.0
_LAST_WORDS_S = 10.0
_ANSWER_S = 30
_MOST_FILES = 16  # where all hosts of a slice fail, some tell enough
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\S+")


class Logs:
    """The logs of one attempt, followed while the block runs.

    Args:
      objects: where its pods are.
      directory: the attempt's folder.
      on_line: gets the lines of the command, in a thread of its own.
    """

    def __init__(self, objects: Objects, directory: str, on_line: OnLine) -> None:
        self._objects = objects
        self._directory = directory
        self._on_line = on_line
        self._scratch = tempfile.TemporaryDirectory(prefix="posttrain-logs-")
        self._followers: dict[tuple[str, str], _Follower] = {}
        self._files: dict[str, _File] = {}
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="logs", daemon=True)

    def __enter__(self) -> Logs:
        self._keeper.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._over.set()
        self._keeper.join()
        self._scratch.cleanup()

    def see(self, seen: Snapshot) -> None:
        """Begins to follow what has started in first pods and failed in others, and notes what has ended or is gone."""
        writing = set()
        for pod in seen.pods:
            for container in pod.containers:
                if _worth_keeping(pod, container):
                    self._follow(pod, container)
                if pod.phase not in ("Succeeded", "Failed"):
                    writing.add((pod.uid, container.name))
        for key, follower in self._followers.items():
            if key not in writing:
                follower.ended.set()

    def tails(self) -> dict[str, list[str]]:
        """The last lines of each log, by `log_name`; the command's own first."""
        files = sorted(self._files.items(), key=lambda item: not item[1].main)
        return {name: list(file.tail) for name, file in files}

    def finish(self) -> None:
        """Waits for the last lines, but not for long: what a pod that hangs may still say must not hold up the end."""
        until = time.monotonic() + _LAST_WORDS_S
        for follower in self._followers.values():
            follower.ended.set()
        for follower in self._followers.values():
            follower.thread.join(max(0.0, until - time.monotonic()))

    def _follow(self, pod: Pod, container: Container) -> None:
        if (pod.uid, container.name) in self._followers:
            return
        main = pod.main and container == pod.command
        name = log_name(pod, container)
        if name not in self._files:
            if len(self._files) >= _MOST_FILES and not pod.seat.first:
                return
            self._files[name] = _File(Path(self._scratch.name, f"{name}.txt"), main)
        file = self._files[name]

        def heard(line: str) -> None:
            file.add(line)
            if main:
                self._on_line(line)

        again = _failed(container) and container.state == "running"
        self._followers[pod.uid, container.name] = _Follower(
            self._objects, pod.name, container.name, heard, self._over, again=again
        )

    def _keep(self) -> None:
        over = False
        while not over:
            over = self._over.wait(_STORE_EVERY_S)
            for file in list(self._files.values()):
                # a log that cannot be stored must not hide how the workload went; in a minute it is tried again
                with contextlib.suppress(UserError):
                    file.store(storage.join(self._directory, FOLDER, file.path.name))


def log_name(pod: Pod, container: Container) -> str:
    """What the log of a container is called."""
    seat = pod.seat.role if pod.seat.first else f"{pod.seat.role}-{pod.seat.number}"
    return f"{seat}-{container.name}"


def _worth_keeping(pod: Pod, container: Container) -> bool:
    """Whether there is a log that a person will want: of first pods any, of others that of a failure.

    A pod that is deleted fails because it is told to end.
    """
    return bool(container.started) if pod.seat.first else _failed(container) and not pod.deleted


def _failed(container: Container) -> bool:
    """Whether it has failed, now or in its run before this one."""
    return bool(container.exit_code or container.last_exit_code)


class _File:
    """A log on this machine. `main`: it is the command's own."""

    def __init__(self, path: Path, main: bool) -> None:
        self.path = path
        self.main = main
        self.tail: collections.deque[str] = collections.deque(maxlen=_TAIL)
        self._sink = path.open("w", encoding="utf-8", buffering=1)
        self._stored = 0

    def add(self, line: str) -> None:
        self.tail.append(line)
        self._sink.write(line + "\n")

    def store(self, uri: str) -> None:
        size = self.path.stat().st_size
        if size > self._stored:
            storage.copy_file(self.path, uri)
            self._stored = size


class _Follower:
    """Reads one container's log to its end, in a thread of its own. Set `ended` when its pod has ended or is gone.

    With `again` it was started again in its pod, and the log of its run before this one is read first.
    """

    def __init__(
        self,
        objects: Objects,
        pod: str,
        container: str,
        heard: Callable[[str], None],
        over: threading.Event,
        *,
        again: bool,
    ) -> None:
        self.ended = threading.Event()
        self._over = over
        self._objects = objects
        self._pod = pod
        self._container = container
        self._heard = heard
        self._again = again
        self._since = ""  # the time of the last line
        self._at_since = 0  # how many lines had that time
        self.thread = threading.Thread(target=self._read, name=f"log of {pod}", daemon=True)
        self.thread.start()

    def _read(self) -> None:
        if self._again:
            self._read_run_before()
        while not self._over.is_set():
            last = self.ended.is_set()
            try:
                self._stream()
                if last:
                    return  # a stream that began after the end and ended well is whole
            except (urllib3.exceptions.HTTPError, Unreachable):
                pass  # cut off, or not to be had at the moment
            except Refused:
                if last:
                    return  # the pod is gone, and its log with it
            (self._over if last else self.ended).wait(_PAUSE_S)

    def _read_run_before(self) -> None:
        query = {"container": self._container, "previous": "true", "timestamps": "true"}
        path = f"{PODS.path(self._objects.namespace, self._pod)}/log"
        # the kubelet may have thrown it away
        with contextlib.suppress(urllib3.exceptions.HTTPError, Unreachable, Refused):
            self._take(api.lines(self._objects.client, path, query, _ANSWER_S))
        self._since, self._at_since = "", 0

    def _stream(self) -> None:
        self._take(self._objects.log(self._pod, self._container, self._since))

    def _take(self, lines: Iterable[str]) -> None:
        known, repeated = self._at_since, 0
        for line in lines:
            at, _, text = line.partition(" ")
            if not _TIME.fullmatch(at) or at < self._since:  # without a time it is kubelet that speaks
                continue
            if at == self._since:
                repeated += 1
                if repeated <= known:
                    continue
                self._at_since += 1
            else:
                self._since, self._at_since = at, 1
                repeated = known = 0
            self._heard(text)
