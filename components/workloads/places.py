"""Puts the places of a workload within reach of the machine that runs it.

In: a `Workload`, whose command and environment name places as `@name@`, and a scratch folder. Out: command and
environment with paths of this machine. A local place is its own path. An input from gs:// is fetched into the scratch
folder first; an output to gs:// is written there and stored afterwards, a live one while the command runs too. Two
more names are always known: `@components@` and `@maxtext@`, the folders of these packages.

Fails with UserError where a place cannot be read or written. Outputs that are not live are stored only when the block
ends well.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from components import maxtext_schema, storage
from components.errors import UserError
from components.fetch import fetch
from components.workloads.interpreter import interpreter
from components.workloads.workload import Output, Workload

PACKAGE = Path(__file__).resolve().parents[1]
_PLACE = re.compile(r"@([a-z][a-z_]*)@")
_MIRROR_S = 20.0


@dataclass(frozen=True)
class AtHand:
    """What can be started on this machine."""

    command: tuple[str, ...]
    env: Mapping[str, str]


@contextlib.contextmanager
def at_hand(workload: Workload, scratch: Path) -> Iterator[AtHand]:
    """Fetches the inputs, yields what to start, and stores the outputs."""
    paths = {"components": str(PACKAGE)}
    for source in workload.inputs:
        paths[source.name] = str(fetch(source.uri, scratch / source.name, source.only))
    with contextlib.ExitStack() as stores:
        for output in workload.outputs:
            paths[output.name] = str(stores.enter_context(_stored(output, scratch / output.name)))
        command = tuple(_resolved(part, paths) for part in workload.command)
        program = (interpreter(workload.image), *command[1:]) if command[0] == "python" else command
        yield AtHand(program, {key: _resolved(value, paths) for key, value in workload.env.items()})


def _resolved(text: str, paths: dict[str, str]) -> str:
    def path(match: re.Match[str]) -> str:
        if match[1] == "maxtext":  # looked for only where a command names it: not every image has it
            return str(maxtext_schema.package_root())
        if match[1] not in paths:
            raise AssertionError(f"the workload names no place '{match[1]}'")
        return paths[match[1]]

    return _PLACE.sub(path, text)


@contextlib.contextmanager
def _stored(output: Output, target: Path) -> Iterator[Path | str]:
    if output.how == "direct":
        storage.delete_tree(output.uri)
        yield output.uri
        return
    if storage.is_local(output.uri):
        Path(output.uri).mkdir(parents=True, exist_ok=True)
        yield Path(output.uri)
        return
    target.mkdir(parents=True)
    if output.how == "live":
        with Mirror(target, output.uri):
            yield target
    else:
        yield target
        storage.copy_tree(target, output.uri)


class Mirror:
    """Stores the files of a growing folder or file at `uri` every 20 s, and once more at the end; only what changed.

    A place that cannot be reached for a while is tried again; at the end it must be reached.
    """

    def __init__(self, source: Path, uri: str) -> None:
        self._source = source
        self._uri = uri
        self._stored: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Mirror:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._store()

    def _follow(self) -> None:
        while not self._ended.wait(_MIRROR_S):
            with contextlib.suppress(UserError):
                self._store()

    def _store(self) -> None:
        if self._source.is_file():
            changed = {"": self._source.stat().st_size}
        else:
            changed = dict(storage.list_files(self._source))
        for name, size in changed.items():
            if self._stored.get(name) != size:
                target = storage.join(self._uri, name) if name else self._uri
                storage.copy_file(self._source / name if name else self._source, target)
                self._stored[name] = size
