"""The instructions of a run as a folder: `instructions.parquet` with the columns instruction and response.

In: an `InstructionsConfig`. Out: the folder with provenance and manifest, the rows in the order of the source. A source
that does not exist, lacks a column, has something else than text there, or has too little is a UserError, and nothing is
left behind.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from components import manifest, record, storage
from components.errors import UserError, did_you_mean
from components.ray_config import InstructionsConfig
from components.record import ArtifactRecord
from components.sources import hub, place, questions
from components.sources.addresses import TINY, is_here
from components.sources.tiny import word_problems

_TINY_ROWS = 256
_COLUMNS = ("instruction", "response")

type _Row = tuple[str, str]


def fetch(
    spec: InstructionsConfig,
    destination: storage.Uri,
    seed: int,
    *,
    need: int = 1,
    run_id: str = "",
    config_sha256: str = "",
) -> ArtifactRecord:
    """Writes the instructions to `destination` unless they are there already, and returns their record.

    The record's extra has `rows`, and in `left_out` how many of the rows that were read lack instruction or response.

    Args:
      spec: the source.
      destination: a folder, local or gs://, that is free or holds these very instructions.
      seed: makes the tiny data.
      need: fewer are an error.
      run_id: the run that asks for them.
      config_sha256: the configuration of that run.
    """
    with tempfile.TemporaryDirectory() as scratch:
        uri, version, files = _found(spec, Path(scratch))
        made = ArtifactRecord(
            kind="dataset",
            format="parquet",
            data_uri=os.fspath(destination),
            run_id=run_id,
            config_sha256=config_sha256,
            parent_uris=[f"{uri}@{version}"],
            extra={"identity": record.sha256_of([spec, version, seed]), "seed": seed},
        )
        if there := place.already_there(destination, made):
            return there
        rows, left_out = _rows(spec, files, seed, need)
    made = made.model_copy(update={"extra": made.extra | {"rows": len(rows), "left_out": left_out}})
    with storage.staged(destination) as stage:
        _write(rows, stage / "instructions.parquet")
        record.write(made, stage)
        manifest.write_manifest(stage)
    return made


def check(spec: InstructionsConfig, *, need: int = 1) -> None:
    """Raises the UserError that `fetch` would, as far as it shows without a network. Writes nothing."""
    if spec.source.startswith(hub.SCHEME):
        hub.parse(spec.source, "dataset", spec.revision)
    elif is_here(spec.source):
        _, _, files = _found(spec, Path())
        _rows(spec, files, 0, need)


def _found(spec: InstructionsConfig, scratch: Path) -> tuple[str, str, list[tuple[Path, str]]]:
    """Returns the source's address, what pins it, and its files on this machine, each with the name that the user knows."""
    if spec.source == TINY:
        return TINY, "made-now", []
    if spec.source.startswith("tiny://"):
        raise UserError(f"There is no {spec.source}: the only instructions made on the spot are {TINY}.")
    if spec.source.startswith(hub.SCHEME):
        repo = hub.parse(spec.source, "dataset", spec.revision)
        commit = hub.resolve(repo)
        names = _chosen(hub.list_files(repo, commit), spec.files, repo.uri)
        folder = hub.fetch(repo, commit, names)
        return repo.uri, commit, [(folder / name, f"{repo.uri}/{name}") for name in names]
    if names := [name for name, _ in storage.list_files(spec.source)]:
        addresses = [storage.join(spec.source, name) for name in _chosen(names, spec.files, spec.source)]
    elif not storage.exists(spec.source):
        raise UserError(f"{spec.source} does not exist: check data.source.")
    else:
        addresses = [spec.source]
        _chosen([spec.source.rsplit("/", 1)[-1]], "*", spec.source)
    files = [(storage.local_copy(address, scratch), address) for address in addresses]
    return spec.source, record.sha256_of([storage.crc32c(path) for path, _ in files])[:16], files


def _chosen(names: list[str], pattern: str, uri: str) -> list[str]:
    """Returns the files to read, in the order of their names; parquet wins over JSON lines where there is both."""
    readable = [name for name in sorted(names) if name.endswith(questions.ENDINGS)]
    fitting = [name for name in readable if fnmatch.fnmatchcase(name, pattern)]
    if not fitting:
        there = ", ".join(readable[:8]) or "no parquet and no JSON lines files"
        raise UserError(f"{uri} has no file that data.files={pattern} names. It has: {there}.")
    return [name for name in fitting if name.endswith(".parquet")] or fitting


def _rows(spec: InstructionsConfig, files: list[tuple[Path, str]], seed: int, need: int) -> tuple[list[_Row], int]:
    """Returns the rows, and how many of those before the last one are left out."""
    dropped: Counter[str] = Counter()
    if spec.source == TINY:
        made = word_problems.rows("train", spec.rows or max(need, _TINY_ROWS), seed)
        rows = [(row["question"], row["answer"]) for row in made]
    else:
        every = itertools.chain.from_iterable(_read(path, label, spec, dropped) for path, label in files)
        rows = list(itertools.islice(every, spec.rows))
    left_out = dropped.total()
    if len(rows) < need:
        without = f" ({left_out} rows have no instruction or no response)" if left_out else ""
        raise UserError(
            f"{spec.source} has {len(rows)} instructions{without}, and a step takes {need}: give more, or lower "
            "finetune.batch_size_per_device."
        )
    return rows, left_out


def _read(path: Path, label: str, spec: InstructionsConfig, dropped: Counter[str]) -> Iterator[_Row]:
    """Yields the rows of a file that have both texts, and counts the others in `dropped`."""
    columns, read = questions.table(path, label)
    names = (spec.instruction_column, spec.response_column)
    for what, name in zip(_COLUMNS, names, strict=True):
        if columns and name not in columns:
            there = f"It has: {', '.join(columns)}."
            raise UserError(
                f"{label} has no {what} column '{name}'.{did_you_mean(name, columns)} {there} Name it in data."
            )
    for number, row in enumerate(read(set(names)), 1):
        where = f"row {number} of {label}"
        instruction, response = (
            _text(row.get(name), what, name, where) for what, name in zip(_COLUMNS, names, strict=True)
        )
        if instruction and response:
            yield instruction, response
        else:
            dropped[label] += 1


def _text(value: object, what: str, column: str, where: str) -> str:
    if value is not None and not isinstance(value, str):
        raise UserError(
            f"'{column}' in {where} is {repr(value)[:60]} and no text: make it text, or name another column in "
            f"data.{what}_column."
        )
    return (value or "").strip()


def _write(rows: list[_Row], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in _COLUMNS])
    pq.write_table(pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema), path)
