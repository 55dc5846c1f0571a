"""How an artifact is called and its address shortened, in the trees and on the page alike."""

from __future__ import annotations

import re
from pathlib import Path

from components.report.lineage import details
from pipelines.lineage.records import Node

_LONG_HASH = re.compile(r"@([0-9a-f]{12})[0-9a-f]+$")


def title(node: Node) -> str:
    """What it is: `rl-checkpoint, orbax, step 40`."""
    return ", ".join([node.kind, *(details(node.record.model_dump()) if node.record else ())])


def trouble(node: Node) -> str:
    """What is wrong with it, and what that means for the graph; empty where all is well."""
    guess = "taken to be from all that its run had made before" if node.guessed and node.parents else ""
    return "; ".join(filter(None, [node.problem, guess]))


def short(uri: str, run_id: str, store: str) -> str:
    """An address, relative to the store or to the working directory, without the name of the run that made it."""
    uri = _LONG_HASH.sub(r"@\1", uri)
    for root in (store, Path.cwd()):
        uri = uri.removeprefix(f"{root}/")
    return "/".join("…" if part and part == run_id else part for part in uri.split("/"))
