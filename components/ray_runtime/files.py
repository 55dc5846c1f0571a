"""Files in gs:// and on this machine, within reach of Ray and of a worker.

Clients that honour STORAGE_EMULATOR_HOST read and write gs://, as everywhere in this project.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pyarrow import fs


def located(uri: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system of a place, and its path there."""
    if not uri.startswith("gs://"):
        return fs.LocalFileSystem(), uri
    import gcsfs

    # without its cache of listings: others write there too
    bucket = gcsfs.GCSFileSystem(use_listings_cache=False)
    return fs.PyFileSystem(fs.FSSpecHandler(bucket)), uri.removeprefix("gs://")


def uri_of(checkpoint: Any) -> str:
    """Returns the place of one of Ray's checkpoints."""
    return str(checkpoint.path) if isinstance(checkpoint.filesystem, fs.LocalFileSystem) else f"gs://{checkpoint.path}"


def read_json(checkpoint: Any, name: str) -> Any:
    """Reads a file of one of Ray's checkpoints, without fetching the others."""
    with checkpoint.filesystem.open_input_stream(f"{checkpoint.path}/{name}") as stream:
        return json.loads(stream.readall())


def fetched(uri: str) -> Path:
    """Returns a folder of this machine with the files of `uri`. The workers of a machine share one copy."""
    system, path = located(uri)
    if isinstance(system, fs.LocalFileSystem):
        return Path(path)
    target = Path(tempfile.gettempdir(), "posttrain-fetched", path.replace("/", "-"))
    target.parent.mkdir(exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            partial = target.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()  # of a bucket, which has no folders, it makes none
            fs.copy_files(path, str(partial), source_filesystem=system, destination_filesystem=fs.LocalFileSystem())
            partial.rename(target)
    return target
