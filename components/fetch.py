"""A folder or file on this machine: where it is local, itself; from gs://, a copy."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from components import storage

# All of a model directory but its weights: tokenizer, chat template, sizes.
TOKENIZER_FILES = ("*.json", "*.txt", "*.model", "*.jinja")


def fetch(uri: str, target: Path, only: Sequence[str] = ()) -> Path:
    """Returns a local path with the content of `uri`; of a folder in gs:// only the files that match `only`, if given.

    Raises UserError when it does not exist.
    """
    if storage.is_local(uri):
        return Path(uri)
    names = [name for name, _ in storage.list_files(uri)]
    if not names:  # a single file; its ending tells its format
        file = target / uri.rsplit("/", 1)[-1]
        storage.copy_file(uri, file)
        return file
    if only:
        storage.copy_files(uri, target, [n for n in names if any(fnmatch.fnmatchcase(n, one) for one in only)])
    else:
        storage.copy_tree(uri, target)
    return target
