"""Sources of questions: each is found once, pinned, and can then be read any number of times.

In: an address (hub, file, folder, `tiny://word-problems`) and the split. Out: a `Source`. What is not there is a
UserError that says what is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from components import record, storage
from components.errors import UserError
from components.sources import hub, questions
from components.sources.questions import Question
from components.sources.spec import DatasetSpec
from components.sources.tiny import word_problems

TINY = "tiny://word-problems"


@dataclass(frozen=True)
class Source:
    """Where questions come from.

    Attributes:
      uri: its address, without version.
      version: the commit on the hub, elsewhere a hash over the content.
      read: yields the questions in order; counts under `unusable` the rows it leaves out.
    """

    uri: str
    version: str
    read: Callable[[Counter[str]], Iterator[Question]]


def is_here(uri: str) -> bool:
    """Whether a source can be read without a network."""
    return uri.startswith("tiny://") or (not uri.startswith(hub.SCHEME) and storage.is_local(uri))


def tiny_source(side: word_problems.Split, rows: int, seed: int) -> Source:
    """Returns word problems of one side, made now. Raises UserError when there are not so many."""
    try:
        made = word_problems.rows(side, rows, seed)
    except ValueError as error:
        raise UserError(f"{TINY}: {error}. Ask for fewer.") from error

    def read(dropped: Counter[str]) -> Iterator[Question]:
        return (questions.question(row["question"], (row["answer"],), row["cluster"]) for row in made)

    return Source(f"{TINY}/{side}", record.sha256_of(made)[:16], read)


def source(uri: str, split: str, spec: DatasetSpec, scratch: Path) -> Source:
    """Returns the questions of one split of a dataset; fetches its files, those in a bucket to `scratch`."""
    if uri.startswith("tiny://"):
        raise UserError(f"There is no {uri}: the only questions made on the spot are {TINY}.")
    if uri.startswith(hub.SCHEME):
        repo = hub.parse(uri, "dataset", spec.revision)
        uri, version = repo.uri, hub.resolve(repo)
        names = _of_split(hub.list_files(repo, version), split, spec.subset, uri)
        folder = hub.fetch(repo, version, names)
        files = [(folder / name, f"{uri}/{name}") for name in names]
    else:
        files = [(storage.local_copy(address, scratch), address) for address in _addresses(uri, split, spec.subset)]
        version = record.sha256_of([storage.crc32c(path) for path, _ in files])[:16]

    def read(dropped: Counter[str]) -> Iterator[Question]:
        for path, label in files:
            yield from questions.read(path, label, spec, dropped)

    return Source(uri, version, read)


def _addresses(uri: str, split: str, subset: str | None) -> list[str]:
    """Returns the address itself when it is a file (or nothing), and those of the split's files in a folder."""
    if names := [name for name, _ in storage.list_files(uri)]:
        return [storage.join(uri, name) for name in _of_split(names, split, subset, uri)]
    if not uri.endswith(questions.ENDINGS):
        raise UserError(f"{uri} is no file of questions: give one that ends in {', '.join(questions.ENDINGS)}.")
    return [uri]


def _of_split(names: list[str], split: str, subset: str | None, uri: str) -> list[str]:
    """Returns the files of one split, named as on the hub: `main/train-00000-of-00001.parquet`, `main/train/0.parquet`.

    Parquet wins over JSON lines when a dataset has both.
    """
    readable = [name for name in names if name.endswith(questions.ENDINGS)]
    pattern = re.compile(rf"{re.escape(split)}(-\d+-of-\d+(-[0-9a-f]+)?)?\.\w+")
    found = []
    for path in map(PurePosixPath, readable):
        folders = path.parts[:-1]
        if (subset is None or subset in folders) and (pattern.fullmatch(path.name) or split in folders):
            found.append(str(path))
    found = [name for name in found if name.endswith(".parquet")] or found
    places = sorted({str(PurePosixPath(name).parent) for name in found})
    if len(places) > 1:
        raise UserError(f"{uri} has the split '{split}' in {', '.join(places)}: name one of them in data.subset.")
    if not found:
        within = f" in the subset '{subset}'" if subset else ""
        there = ", ".join(readable[:8]) or "no parquet and no JSON lines files"
        raise UserError(f"{uri} has no files of the split '{split}'{within}. It has: {there}.")
    return sorted(found)
