"""The questions of a run as a folder: some to train on, others to evaluate with, none on both sides.

In: a `DatasetSpec`. Out: `train.parquet` and `eval.parquet` (columns id, question, answer as a JSON list of texts,
cluster), `template.json`, provenance and manifest. A source that does not exist, lacks a column, or has too little is a
UserError, and nothing is left behind.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from components import manifest, maxtext_schema, record, storage
from components.errors import UserError, did_you_mean
from components.record import ArtifactRecord
from components.sources import hub, place
from components.sources.addresses import TINY, Source, is_here, source, tiny_source
from components.sources.choose import Chosen, choose
from components.sources.fit import TAGS
from components.sources.questions import Question
from components.sources.spec import DatasetSpec
from components.sources.tiny import word_problems

if TYPE_CHECKING:
    import pandas as pd

TINY_TEMPLATE = "tiny://template"
MAXTEXT = "maxtext://"  # a template that MaxText ships
_TINY_ROWS = {"train": 2000, "eval": 256}
_COLUMNS = ("id", "question", "answer", "cluster")


def fetch_dataset(
    spec: DatasetSpec,
    destination: storage.Uri,
    seed: int,
    *,
    need_train: int = 1,
    need_eval: int = 1,
    run_id: str = "",
    config_sha256: str = "",
) -> ArtifactRecord:
    """Writes the questions to `destination` unless they are there already, and returns their record.

    The record's extra has `train_rows`, `eval_rows`, and how many rows of the training source were `dropped_unusable`,
    `dropped_duplicate`, `dropped_in_evaluation`.

    Args:
      spec: the sources.
      destination: a folder, local or gs://, that is free or holds these very questions.
      seed: draws rows where a source has more than are wanted, and makes the tiny data.
      need_train: fewer questions to train on are an error.
      need_eval: fewer to evaluate with are an error; so many are held out of the training source when neither an
        evaluation source nor `eval_rows` is given.
      run_id: the run that asks for them.
      config_sha256: the configuration of that run.
    """
    template = read_template(spec.template)
    with tempfile.TemporaryDirectory() as scratch:
        train, evaluation = _sources(spec, seed, need_train, need_eval, Path(scratch))
        versions = [f"{found.uri}@{found.version}" for found in (train, evaluation) if found]
        made = ArtifactRecord(
            kind="dataset",
            format="parquet",
            data_uri=os.fspath(destination),
            run_id=run_id,
            config_sha256=config_sha256,
            parent_uris=list(dict.fromkeys(versions)),
            extra={"identity": record.sha256_of([spec, versions, template, seed, need_eval]), "seed": seed},
        )
        if there := place.already_there(destination, made):
            return there
        chosen = choose(spec, train, evaluation, seed, need_train, need_eval)
    counts = {"train_rows": len(chosen.train), "eval_rows": len(chosen.evaluation)}
    counts |= {f"dropped_{reason}": count for reason, count in chosen.dropped.items()}
    made = made.model_copy(update={"extra": made.extra | counts})
    with storage.staged(destination) as stage:
        _write(chosen.train, stage / "train.parquet")
        _write(chosen.evaluation, stage / "eval.parquet")
        storage.write_text(stage / "template.json", template)
        record.write(made, stage)
        manifest.write_manifest(stage)
    return made


def read(directory: str, side: str) -> pd.DataFrame:
    """Returns the questions of one side, `train` or `eval`: id, question, answer (JSON list of texts), cluster."""
    import pandas as pd

    return pd.read_parquet(io.BytesIO(storage.read_bytes(storage.join(directory, f"{side}.parquet"))))


def check(spec: DatasetSpec, *, need_train: int = 1, need_eval: int = 1) -> Chosen | None:
    """Raises the UserError that `fetch_dataset` would, as far as it shows without a network. Writes nothing.

    Returns the questions that would be chosen with seed 0, or None when they are not on this machine.
    """
    if spec.template.startswith(MAXTEXT) or is_here(spec.template):
        read_template(spec.template)
    for uri in (spec.train, spec.evaluation or spec.train):
        if uri.startswith(hub.SCHEME):
            hub.parse(uri, "dataset", spec.revision)
    if is_here(spec.train) and is_here(spec.evaluation or spec.train):
        train, evaluation = _sources(spec, 0, need_train, need_eval, Path())
        return choose(spec, train, evaluation, 0, need_train, need_eval)
    return None


def _sources(
    spec: DatasetSpec, seed: int, need_train: int, need_eval: int, scratch: Path
) -> tuple[Source, Source | None]:
    """Returns the sources to train on and to evaluate with; None when the second is to be held out of the first."""
    if spec.train == TINY:
        train = tiny_source("train", spec.train_rows or max(need_train, _TINY_ROWS["train"]), seed)
    else:
        train = source(spec.train, spec.train_split, spec, scratch)
    if (spec.evaluation or spec.train) == TINY:  # the tiny data has a side of its own to evaluate with
        return train, tiny_source("eval", spec.eval_rows or max(need_eval, _TINY_ROWS["eval"]), seed)
    if spec.evaluation is None:
        return train, None
    return train, source(spec.evaluation, spec.eval_split, spec, scratch)


def _write(chosen: list[Question], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [(q.id, q.text, json.dumps(q.answers, ensure_ascii=False), q.cluster) for q in chosen]
    schema = pa.schema([(name, pa.string()) for name in _COLUMNS])
    pq.write_table(pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema), path)


def _of_maxtext(uri: str) -> Path:
    folder = maxtext_schema.package_root() / "examples" / "chat_templates"
    path = folder / f"{uri.removeprefix(MAXTEXT)}.json"
    if not path.is_file():
        known = [one.stem for one in folder.glob("*_rl.json")]
        raise UserError(f"MaxText has no template {uri}.{did_you_mean(uri.removeprefix(MAXTEXT), known)}")
    return path


def read_template(uri: str) -> str:
    """Returns the text of MaxText's template file: a JSON object whose TEMPLATE has a place for the question."""
    if uri == TINY_TEMPLATE:
        return json.dumps(word_problems.TEMPLATE, indent=2) + "\n"
    text = storage.read_bytes(_of_maxtext(uri) if uri.startswith(MAXTEXT) else uri)
    try:
        template = json.loads(text)
    except ValueError:
        template = None
    body = template.get("TEMPLATE") if isinstance(template, dict) else None
    system = template.get("SYSTEM_PROMPT") if isinstance(template, dict) else None
    if not isinstance(body, str) or "{question}" not in body or not isinstance(system, str):
        raise UserError(
            f"{uri} is no template: give a JSON object with the texts SYSTEM_PROMPT and TEMPLATE, the latter with {{question}}."
        )
    try:
        body.format(system_prompt=system.format(**TAGS), question="")
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(
            f"{uri} has a placeholder that nothing fills ({error}): TEMPLATE may hold {{system_prompt}} and {{question}}, "
            f"SYSTEM_PROMPT {', '.join('{' + name + '}' for name in TAGS)}; write other braces twice."
        ) from error
    return text.decode()
