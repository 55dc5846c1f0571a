"""Keeps Python's bytecode where the environment says not to write it beside the sources.

Importing MaxText from source takes twenty seconds, from bytecode six. PYTHONDONTWRITEBYTECODE asks that no files appear among the
sources, which is respected: bytecode goes to the user's cache directory instead, for this process and all that it starts.
Where nothing forbids it, Python does the right thing by itself and nothing happens here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def keep() -> None:
    """Call before heavy imports."""
    if not sys.dont_write_bytecode or sys.pycache_prefix:
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "posttrain" / "bytecode"
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
