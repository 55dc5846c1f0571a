"""Follows records both ways from a run, an artifact or a source.

In: what a person typed. Out: a `Lineage`. A run stands for the model that it made. The data of everything above is
compared with its manifest, by names and sizes, so that a model that could not be made again shows it. What is neither a
run nor named by any record is a UserError with the nearest name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from components import manifest, record, storage, transfer
from components.errors import UserError, did_you_mean
from components.plan import PLAN
from pipelines import registry
from pipelines.launch import rooted
from pipelines.lineage import records
from pipelines.lineage.records import SHARED, SOURCE, UNKNOWN, Node
from pipelines.registry import Entry

_UNLISTED = ("rollouts",)  # kinds without a manifest
_DEPTH = 4  # a person may name a folder within an artifact, such as the items of a checkpoint


@dataclass(frozen=True)
class Lineage:
    """A node, all that it was made from and all that was made from it.

    Attributes:
      root: the node that was asked for.
      run: the run that made it, where it is listed.
      store: where was searched, among so many `runs`.
      nodes: by address, the root's own among them.
      children: the addresses of what was made from each.
      above: the addresses of what the root was made from, nearest first.
      below: the addresses of what was made from it, nearest first.
    """

    root: Node
    run: Entry | None
    store: str
    runs: int
    nodes: Mapping[str, Node]
    children: Mapping[str, Sequence[str]]
    above: Sequence[str]
    below: Sequence[str]


def trace(target: str, store: str | None) -> Lineage:
    """Returns the lineage of a run (its name or directory), an artifact, or a source such as hf://org/name.

    What was made from it is searched in `store`; None is that of the run or of the artifact, else the usual one.
    """
    place = _place(target)
    where = _store(place, store)
    runs = registry.entries(where)
    run = _run(runs, where, target, place)
    address = _model(run) if run else _artifact(place) if place else target
    nodes = records.read(where, runs if run is None or run in runs else [run, *runs], address)
    root = nodes.get(records.plain(address)) or nodes[address]
    if root.kind in (SOURCE, UNKNOWN):
        nodes |= {uri: replace(nodes[uri], parents=(root.uri,)) for uri in _versions(root, nodes)}
    children = _children(nodes)
    above = _reached(root.uri, {uri: node.parents for uri, node in nodes.items()})
    below = _reached(root.uri, children)
    if root.uri not in (made := {uri for uri, node in nodes.items() if node.record or node.run_id}) and not below:
        known = [*made, *(entry.run_id for entry in runs)]
        raise UserError(f"Nothing in {where} was made from {target}.{did_you_mean(target, known)}")
    nodes |= _checked([nodes[uri] for uri in (root.uri, *above)])
    return Lineage(
        root=nodes[root.uri],
        run=run or next((entry for entry in runs if entry.run_id == root.run_id), None),
        store=where,
        runs=len(runs),
        nodes={uri: nodes[uri] for uri in (root.uri, *above, *below)},
        children=children,
        above=above,
        below=below,
    )


# -- what a person typed ----------------------------------------------------------------------------------------------


def _place(target: str) -> str | None:
    """Returns the place here or in Cloud Storage that a person has named; None for a run's name or a source."""
    if target.startswith("gs://"):
        return target.rstrip("/")
    if "://" not in target and ("/" in target or Path(target).exists()):
        return str(Path(target).absolute())
    return None


def _store(place: str | None, given: str | None) -> str:
    if place and not given:
        for above in _upwards(place):
            if storage.exists(storage.join(above, PLAN)):
                return registry.read_plan(above).store
            parent, _, name = above.rpartition("/")
            if name in SHARED and storage.exists(storage.join(parent, "runs")):
                return parent
    return rooted(given)


def _run(runs: Sequence[Entry], store: str, target: str, place: str | None) -> Entry | None:
    if place and not storage.exists(storage.join(place, PLAN)):
        return None
    if not place and records.is_outside(target):
        return None
    listed = (entry for entry in runs if target == entry.run_id or place in (entry.run_dir, entry.home))
    return next(listed, None) or registry.find(store, place or target)


def _model(run: Entry) -> str:
    """Returns the address of the model that a run made, or of the last that it made on the way there."""
    made = {name: artifact["uri"] for stage in records.made_by(run) for name, artifact in stage.artifacts.items()}
    if not made:
        raise UserError(f"The run {run.run_id} has made nothing: `posttrain status {run.run_id}` says how it is.")
    own = [uri for uri in made.values() if uri.startswith(f"{run.run_dir}/")]
    return made.get("exported") or made.get("trained") or (own or list(made.values()))[-1]


def _artifact(place: str) -> str:
    """Returns the artifact that a place is, or lies in."""
    with_record = (a for a in islice(_upwards(place), _DEPTH) if storage.exists(storage.join(a, record.FILE_NAME)))
    return next(with_record, place)


def _upwards(place: str) -> Iterator[str]:
    """Yields a place and the folders that it lies in, without the root of the file system and without a bucket."""
    scheme = "gs://" if place.startswith("gs://") else ""
    parts = place.removeprefix(scheme).split("/")
    return (scheme + "/".join(parts[:end]) for end in range(len(parts), 1, -1))


# -- the graph --------------------------------------------------------------------------------------------------------


def _children(nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for node in nodes.values():
        for parent in node.parents:
            children.setdefault(parent, []).append(node.uri)
    return children


def _versions(source: Node, nodes: Mapping[str, Node]) -> list[str]:
    """Returns the versions and parts of a source that was named without."""
    return [uri for uri in nodes if uri.startswith((f"{source.uri}@", f"{source.uri}/")) and nodes[uri].kind == SOURCE]


def _reached(start: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns what can be reached, nearest first, without the start."""
    seen = {start: None}
    wave = [start]
    while wave:
        wave = list(dict.fromkeys(uri for reached in wave for uri in edges.get(reached, ()) if uri not in seen))
        seen |= dict.fromkeys(wave)
    return [uri for uri in seen if uri != start]


def _checked(nodes: Sequence[Node]) -> dict[str, Node]:
    """Returns nodes by address, with what is wrong with their data."""
    found = transfer.run([partial(_problem, node) for node in nodes])
    return {node.uri: replace(node, problem=problem) for node, problem in zip(nodes, found, strict=True)}


def _problem(node: Node) -> str:
    if node.record is None or node.kind in _UNLISTED:
        return node.problem
    try:
        manifest.check(node.uri, deep=False)
    except manifest.IncompleteError as error:
        return f"{error.file} is {error.problem}"
    return ""
