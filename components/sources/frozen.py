"""Whether the modules that a fine-tuning is to leave alone are modules of the model.

In: their names and the directory of the model, local or gs://. The names of its tensors tell which modules its text model
has; no weights are read. A module that has none is a UserError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from components import gcs, storage
from components.errors import UserError, did_you_mean
from components.sources import check as model

# of a model that has more than text, the text model's tensors; of another one, all but the head's
_NESTED = re.compile(r"(?:^|\.)language_model\.(?:model\.)?(\w+)\.")
_PLAIN = re.compile(r"^model\.(\w+)\.")


def check(frozen: Sequence[str], directory: str) -> None:
    """Raises UserError where the text model in `directory` has no module of a name in `frozen`."""
    if not frozen:
        return
    names = _tensors(directory)
    there = _modules(_NESTED, names) or _modules(_PLAIN, names)
    for name in frozen:
        if name not in there:
            known = ", ".join(sorted(there))
            raise UserError(
                f"model.frozen names '{name}', and the text model has no such module.{did_you_mean(name, there)} It has: "
                f"{known}."
            )


def _modules(pattern: re.Pattern[str], tensors: Iterable[str]) -> set[str]:
    return {found[1] for name in tensors if (found := pattern.search(name))}


def _tensors(directory: str) -> list[str]:
    """The names of all tensors: from the index, or where there is none from the headers of the files."""
    index = storage.join(directory, model.INDEX)
    if storage.exists(index):
        return list(json.loads(storage.read_text(index))["weight_map"])
    files = [name for name, _ in storage.list_files(directory) if "/" not in name and name.endswith(".safetensors")]
    return [tensor for name in files for tensor in _header(storage.join(directory, name))]


def _header(uri: str) -> list[str]:
    with _opened(uri) as file:
        # https://huggingface.co/docs/safetensors: eight bytes with the length of a JSON object, then the object
        return list(json.loads(file.read(int.from_bytes(file.read(8), "little"))))


def _opened(uri: str) -> AbstractContextManager[IO[bytes]]:
    return Path(uri).open("rb") if storage.is_local(uri) else gcs.opened(uri)  # type: ignore[return-value]
