"""The lineage of a run as a numbered list: each artifact with what it was made from.

In: one dict per artifact, either short (`kind`, `uri`, `parents`) or a whole provenance record (`data_uri`,
`parent_uris`; lists may be JSON text, as in artifact metadata). Out: entries in the given order. Parents that are in
the list are named by their number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One artifact. `parents` are (number, kind) of other entries, `sources` are uris from outside the list."""

    number: int
    kind: str
    uri: str
    details: str
    parents: list[tuple[int, str]]
    sources: list[str]


def entries(lineage: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Returns the artifacts, numbered from 1."""
    places = {uri: i for i, item in enumerate(lineage, 1) if (uri := _uri(item))}
    kinds = [str(item.get("kind") or "artifact") for item in lineage]
    result = []
    for number, item in enumerate(lineage, 1):
        parents = _uris(item.get("parents", item.get("parent_uris")))
        result.append(
            Entry(
                number,
                kinds[number - 1],
                _uri(item),
                ", ".join(details(item)),
                [(places[p], kinds[places[p] - 1]) for p in parents if p in places and places[p] != number],
                [p for p in parents if p not in places],
            )
        )
    return result


def details(item: Mapping[str, Any]) -> list[str]:
    """Returns how an artifact is laid out and from which training step it is, as far as it says so."""
    step = item.get("step")
    found = [str(item["format"])] if item.get("format") else []
    # KFP turns every number of a metadata record into a float
    return [*found, f"step {step:,.0f}"] if isinstance(step, int | float) else found


def _uri(item: Mapping[str, Any]) -> str:
    return str(item.get("uri") or item.get("data_uri") or "")


def _uris(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            value = [value] if value else []
    if isinstance(value, Mapping):
        value = list(value.values())
    return [str(v) for v in value] if isinstance(value, list | tuple) else []
