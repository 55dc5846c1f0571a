"""Questions with their answers, read from parquet or JSON lines one after the other.

In: a file and the names of its columns. Out: `Question`s. A column that is not there, a file that is not what its name
says, a question that is no text: UserError of one line that names the file as the user knows it.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import UserError, did_you_mean
from components.sources.spec import DatasetSpec

ENDINGS = (".parquet", ".jsonl", ".json")
_QUESTION = ("question", "problem", "prompt")
_ANSWER = ("answer", "expected_answer", "solution")
_BATCH = 4096  # rows

type _Rows = Callable[[set[str]], Iterator[dict[str, Any]]]  # given the columns that are wanted


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
      id: 16 hex digits that only the normalised text determines.
      text: the question as it stands in the source.
      answers: the answers that count as right, at least one.
      cluster: what it shares with questions of its kind; its id when the source names nothing.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    cluster: str


def question(text: str, answers: tuple[str, ...], cluster: str | None = None) -> Question:
    """Returns the question with its id: SHA-1 over the text in NFKC, without case, every white space one blank."""
    normalised = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    id = hashlib.sha1(normalised.encode(), usedforsecurity=False).hexdigest()[:16]
    return Question(id, text, answers, cluster or id)


def read(path: Path, label: str, spec: DatasetSpec, dropped: Counter[str]) -> Iterator[Question]:
    """Yields the questions of a file. Rows without question or answer are left out and counted as `unusable`.

    Args:
      path: the file; its ending tells the format.
      label: its name for the user, who may have given another address.
      spec: names the columns.
      dropped: the counts.
    """
    columns, rows = table(path, label)
    if not columns:  # an empty file of JSON lines
        return
    text_in = _column(spec.question_column, _QUESTION, columns, label, "question")
    answer_in = _column(spec.answer_column, _ANSWER, columns, label, "answer")
    cluster_in = spec.cluster_column and _column(spec.cluster_column, (), columns, label, "cluster")
    for row in rows({text_in, answer_in, cluster_in or text_in}):
        text, answers = row.get(text_in), _answers(row.get(answer_in))
        if isinstance(text, list | dict):
            raise UserError(f"The column '{text_in}' of {label} holds no text: name another in data.question_column.")
        if text is None or not str(text).strip() or not answers:
            dropped["unusable"] += 1
            continue
        cluster = row.get(cluster_in) if cluster_in else None
        yield question(str(text), answers, None if cluster is None else str(cluster))


def table(path: Path, label: str) -> tuple[list[str], _Rows]:
    """Returns the columns of a parquet or JSON lines file, and what yields its rows."""
    return _parquet(path, label) if path.suffix == ".parquet" else _json_lines(path, label)


def _column(named: str | None, usual: tuple[str, ...], columns: list[str], label: str, what: str) -> str:
    """Returns the column named in the configuration, else the first usual one that is there."""
    there = f"It has: {', '.join(columns)}."
    if named is not None:
        if named not in columns:
            hint = did_you_mean(named, columns)
            raise UserError(f"{label} has no column '{named}', which data.{what}_column names.{hint} {there}")
        return named
    for name in usual:
        if name in columns:
            return name
    raise UserError(f"{label} has no {what} column. {there} Name it in data.{what}_column.")


def _answers(value: object) -> tuple[str, ...]:
    """Returns the answers in a cell: text, a number, a list of them. Of GSM8K's text, what follows the last `####`."""
    if isinstance(value, list):
        return tuple(answer for item in value for answer in _answers(item))
    if isinstance(value, dict) or value is None or value != value:  # NaN is what a missing number becomes
        return ()
    answer = str(value).rsplit("####", 1)[-1].strip()
    return (answer,) if answer else ()


def _parquet(path: Path, label: str) -> tuple[list[str], _Rows]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise UserError(f"{label} is damaged or no parquet file: fetch it again.") from error

    def rows(columns: set[str]) -> Iterator[dict[str, Any]]:
        try:
            for batch in file.iter_batches(batch_size=_BATCH, columns=list(columns)):
                yield from batch.to_pylist()
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError(f"{label} is damaged: fetch it again.") from error

    return list(file.schema_arrow.names), rows


def _json_lines(path: Path, label: str) -> tuple[list[str], _Rows]:
    def rows(columns: set[str]) -> Iterator[dict[str, Any]]:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise UserError(f"{label} is no JSON in line {number}: give one JSON object a line.") from error
                if not isinstance(row, dict):
                    raise UserError(f"{label} has no JSON object in line {number}: give one JSON object a line.")
                yield row

    return list(next(rows(set()), {})), rows
