"""The records of a store, each read once, as the nodes of a graph.

In: a store and its runs. Out: a `Node` for every artifact and every source that a record names, by its address. What a
run has made is in its `run.json`, or in the `stage.json` of each stage of a run that has not ended well; beside each
artifact lies its record. So a store costs a few small reads per run, many at once, whatever the size of the data. A
record that is gone or damaged makes a node too, which says so.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from components import record, storage, transfer
from components.errors import UserError
from components.record import ArtifactRecord
from components.results import StageRecord
from components.stage import STAGES
from pipelines.registry import Entry

SOURCE, UNKNOWN = "source", "artifact"  # kinds of what has no record
SHARED = ("models", "converted")  # folders of a store with artifacts that belong to no run in particular
_GONE, _DAMAGED, _NO_RECORD = "gone", "its record is damaged", ""
_VERSION = re.compile(r"@[0-9a-f]{12,64}$")  # a commit, or a hash over the content

type _Found = ArtifactRecord | str  # a record, or why there is none


@dataclass(frozen=True)
class Node:
    """An artifact, or a source from outside.

    Attributes:
      uri: where it is; of a source with its version.
      kind: as in its record, or as in the list of its run; else `SOURCE` or `UNKNOWN`.
      parents: the addresses of what it was made from.
      record: None for a source, and where it cannot be read.
      run_id: the run that made it, where that is known.
      problem: what is wrong with it, in a few words.
      guessed: the record is lost, so `parents` is all that its run had made before it.
    """

    uri: str
    kind: str
    parents: tuple[str, ...] = ()
    record: ArtifactRecord | None = None
    run_id: str = ""
    problem: str = ""
    guessed: bool = False

    @property
    def verdict(self) -> str:
        """The verdict of an evaluation or of an exported model; empty for anything else."""
        return str(self.record.extra.get("verdict", "")) if self.record else ""


def read(store: str, runs: Sequence[Entry], further: str) -> dict[str, Node]:
    """Returns the nodes of a store, of the address `further`, and of all that they were made from, wherever it lies."""
    made: dict[str, Node] = {}
    for run, stages in zip(runs, transfer.run([partial(made_by, run) for run in runs]), strict=True):
        _note(made, run, stages)
    found = _found([*_shared(store), *made, further])
    nodes = {}
    for uri, what in found.items():
        if isinstance(what, ArtifactRecord):
            parents = dict.fromkeys(_name(parent, found, made) for parent in what.parent_uris)
            nodes[uri] = Node(uri, what.kind, tuple(parents), what, what.run_id)
        elif uri in made:
            nodes[uri] = _lost(made[uri], what)
    for name in [_name(further, found, made), *(parent for node in nodes.values() for parent in node.parents)]:
        if name not in nodes:
            nodes[name] = _unmade(name, found.get(plain(name), _NO_RECORD))
    return nodes


def made_by(run: Entry) -> Sequence[StageRecord]:
    """Returns the stages that a run has finished, with what each made."""
    if run.record:
        return run.record.stages
    done = []
    for stage in STAGES:
        with contextlib.suppress(UserError, ValidationError):  # it did not get there, or broke off while writing
            text = storage.read_bytes(storage.join(run.run_dir, stage, "stage.json"))
            done.append(StageRecord.model_validate_json(text))
    return done


def plain(address: str) -> str:
    """Returns an address without its version."""
    return _VERSION.sub("", address)


def is_outside(address: str) -> bool:
    """Whether an address is of something that lies neither here nor in Cloud Storage, such as on the hub."""
    return "://" in address and not address.startswith("gs://")


def _note(made: dict[str, Node], run: Entry, stages: Iterable[StageRecord]) -> None:
    """Notes what a run made and from what it could, in case that records are lost.

    Of what lies elsewhere nothing is guessed: another run may have made it, from less.
    """
    earlier: tuple[str, ...] = ()
    for stage in stages:
        for artifact in stage.artifacts.values():
            uri, kind = artifact["uri"], artifact["kind"]
            if uri.startswith(f"{run.run_dir}/"):
                made[uri] = Node(uri, kind, earlier, run_id=run.run_id, guessed=True)
            else:
                made.setdefault(uri, Node(uri, kind))
        earlier += tuple(artifact["uri"] for artifact in stage.artifacts.values())


def _found(addresses: Iterable[str]) -> dict[str, _Found]:
    """Reads the records at some addresses and of all that they name, level by level."""
    found: dict[str, _Found] = {}
    wave = list(addresses)
    while wave:
        wanted = dict.fromkeys(plain(address) for address in wave if not is_outside(address))
        new = [uri for uri in wanted if uri not in found]
        found |= zip(new, transfer.run([partial(_read, uri) for uri in new]), strict=True)
        wave = [parent for uri in new if isinstance(what := found[uri], ArtifactRecord) for parent in what.parent_uris]
    return found


def _read(uri: str) -> _Found:
    try:
        return record.read(uri)
    except UserError:
        if storage.exists(storage.join(uri, record.FILE_NAME)):
            return _DAMAGED
        return _NO_RECORD if storage.exists(uri) else _GONE


def _shared(store: str) -> list[str]:
    """Returns what runs share, also where none of them is left."""
    ending = f"/{record.FILE_NAME}"
    return [
        storage.join(store, folder, name.removesuffix(ending))
        for folder in SHARED
        for name, _ in storage.list_files(storage.join(store, folder))
        if name.endswith(ending) and name.count("/") == 1
    ]


def _name(parent: str, found: dict[str, _Found], made: dict[str, Node]) -> str:
    """Returns the address of the node that a parent is: an artifact has one, a source one for each of its versions."""
    where = plain(parent)
    return where if where in made or isinstance(found.get(where), ArtifactRecord) else parent


def _lost(known: Node, problem: str) -> Node:
    """An artifact that a run has listed, without its record."""
    return Node(
        known.uri, known.kind, known.parents, None, known.run_id, problem or "its record is gone", known.guessed
    )


def _unmade(address: str, problem: _Found) -> Node:
    """What no run has listed and no record describes."""
    assert isinstance(problem, str)
    kind = UNKNOWN if problem and address == plain(address) else SOURCE
    return Node(address, kind, problem=problem)
