"""Where the lines of the graph run: one row per node, parents above children, as `git log --graph` draws commits.

In: a lineage. Out: its rows, from the first source to the last artifact. A node's line keeps its column until its last
child, so that a graph of hundreds of runs is as narrow as one of a single run, and stands on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.lineage.graph import Lineage
from pipelines.lineage.records import Node


@dataclass(frozen=True)
class Line:
    """A line in a column; its colour is that of the node that it comes from."""

    column: int
    node: Node


@dataclass(frozen=True)
class Row:
    """A node and the lines about it.

    Attributes:
      number: 1 for the first row.
      node: what the row shows.
      column: of its dot.
      above: numbers of the rows of its parents.
      elsewhere: the parents that the lineage does not show.
      incoming: lines that end or branch off at the dot.
      passing: lines that go on, from the row above to the row below.
      goes_on: whether a line leaves the dot.
    """

    number: int
    node: Node
    column: int
    above: Sequence[int]
    elsewhere: Sequence[str]
    incoming: Sequence[Line]
    passing: Sequence[Line]
    goes_on: bool

    @property
    def width(self) -> int:
        """How many columns the row takes."""
        return 1 + max([self.column, *(line.column for line in (*self.incoming, *self.passing))])


def rows(lineage: Lineage) -> list[Row]:
    """Returns the rows of a lineage."""
    order = _ordered(lineage)
    numbers = {uri: number for number, uri in enumerate(order, 1)}
    # of a cycle, which only records that are wrong make, the edge that leads upwards is left out
    parents = {
        uri: [parent for parent in lineage.nodes[uri].parents if numbers.get(parent, number) < number]
        for uri, number in numbers.items()
    }
    left = dict.fromkeys(order, 0)
    for those in parents.values():
        for parent in those:
            left[parent] += 1
    columns: list[str | None] = []
    made = []
    for uri in order:
        lines = {held: Line(at, lineage.nodes[held]) for at, held in enumerate(columns) if held}
        for parent in parents[uri]:
            left[parent] -= 1
            if not left[parent]:
                columns[lines[parent].column] = None
        column = min((lines[p].column for p in parents[uri] if not left[p]), default=_free(columns))
        passing = [line for held, line in lines.items() if left[held]]
        columns += [None] * (column + 1 - len(columns))
        columns[column] = uri if left[uri] else None
        made.append(
            Row(
                number=numbers[uri],
                node=lineage.nodes[uri],
                column=column,
                above=sorted(numbers[parent] for parent in parents[uri]),
                elsewhere=[parent for parent in lineage.nodes[uri].parents if parent not in numbers],
                incoming=[lines[parent] for parent in parents[uri]],
                passing=passing,
                goes_on=left[uri] > 0,
            )
        )
    return made


def _free(columns: Sequence[str | None]) -> int:
    return next((at for at, held in enumerate(columns) if held is None), len(columns))


def _ordered(lineage: Lineage) -> list[str]:
    """Returns all nodes, each after its parents and, as far as that goes, right after one of them."""
    placed: dict[str, None] = {}
    for start in _downwards(lineage):
        path = {start: None}
        while path:
            at = next(reversed(path))
            parents = (p for p in lineage.nodes[at].parents if p in lineage.nodes and p not in placed and p not in path)
            if parent := next(parents, None):
                path[parent] = None
            else:
                path.popitem()
                placed[at] = None
    return list(placed)


def _downwards(lineage: Lineage) -> Iterator[str]:
    """Yields the root and what was made from it, each branch to its end."""
    seen: set[str] = set()
    waiting = [lineage.root.uri]
    while waiting:
        uri = waiting.pop()
        if uri not in seen:
            seen.add(uri)
            yield uri
            waiting.extend(reversed(lineage.children.get(uri, ())))
