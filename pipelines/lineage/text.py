"""A lineage as text: the node that was asked for, and two trees of one line per node.

A node to which several ways lead is followed once. What lies deep is continued at the margin, so that a model with
fifty generations of ancestors stays readable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from components.report.facts import date
from pipelines.lineage import words
from pipelines.lineage.graph import Lineage
from pipelines.lineage.records import Node
from pipelines.summary import verdict_line

_DEEPEST = 8
_WIDE = 100_000  # lines are never broken


def trees(lineage: Lineage) -> str:
    """Returns the lineage as text."""
    made_from = {uri: node.parents for uri, node in lineage.nodes.items()}
    searched = f"{lineage.runs} run{'' if lineage.runs == 1 else 's'} in {lineage.store}"
    above = _Trees(lineage, made_from).text("Made from")
    below = _Trees(lineage, lineage.children).text(f"Made from it (searched: {searched})")
    return f"{_head(lineage)}\n\n{above}\n{below}".rstrip()


def _head(lineage: Lineage) -> str:
    root, run = lineage.root, lineage.run
    lines = [words.title(root), root.uri, words.trouble(root)]
    if run:
        verdict = f": {verdict_line(run.record)}" if run.record and root.verdict else ""
        lines.append(f"run {run.run_id}, {date(run.started)}, {run.status}{verdict}")
    if made := root.record:
        base = f"{made.base_model_id} at {made.base_model_revision[:12]}, " if made.base_model_id else ""
        lines.append(f"{base}code {made.code_version}, configuration {made.config_sha256[:12]}")
    return "\n  ".join(filter(None, lines))


class _Trees:
    """One direction: a tree from the root, and further ones for what lies deeper than `_DEEPEST`."""

    def __init__(self, lineage: Lineage, edges: Mapping[str, Sequence[str]]) -> None:
        self._lineage = lineage
        self._edges = edges
        self._seen = {lineage.root.uri}
        self._deep: deque[str] = deque()

    def text(self, heading: str) -> str:
        root = self._lineage.root.uri
        made = [self._tree(heading if self._edges.get(root) else f"{heading}: nothing", root)]
        while self._deep:
            uri = self._deep.popleft()
            made.append(self._tree(self._line(self._lineage.nodes[uri], ""), uri))
        console = Console(width=_WIDE, color_system=None)
        with console.capture() as captured:
            console.print(*made)
        return captured.get()

    def _tree(self, heading: str, uri: str) -> Tree:
        tree = Tree(Text(heading))
        self._grow(tree, uri, 1)
        return tree

    def _grow(self, branch: Tree, uri: str, depth: int) -> None:
        for reached in self._edges.get(uri, ()):
            line = self._line(self._lineage.nodes[reached], self._lineage.nodes[uri].run_id)
            if reached in self._seen:
                branch.add(Text(f"{line}  (as above)"))
                continue
            self._seen.add(reached)
            if depth == _DEEPEST and self._edges.get(reached):
                branch.add(Text(f"{line}  (continued below)"))
                self._deep.append(reached)
            else:
                self._grow(branch.add(Text(line)), reached, depth + 1)

    def _line(self, node: Node, run_before: str) -> str:
        run = f"run {node.run_id}" if node.run_id not in ("", run_before) else ""
        trouble = f"({words.trouble(node)})" if words.trouble(node) else ""
        parts = [words.title(node), node.verdict, words.short(node.uri, node.run_id, self._lineage.store), run, trouble]
        return "  ".join(filter(None, parts))
