"""Plays the programs of a Ray image: the command lines are real, what Ray would have done is given by the test."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from components.workloads import interpreter
from components.workloads.workload import Image

_SCRIPT = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
_, dash_m, program, *arguments = sys.argv
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps([program, *arguments]) + "\\n")
part = json.loads((folder / "parts").read_text())[program]
options = dict(argument.split("=", 1) for argument in arguments if argument.startswith("--") and "=" in argument)
for name, text in part["files"].items():
    path = pathlib.Path(name.format(**{{option.lstrip("-"): value for option, value in options.items()}}))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
print(*part["lines"], sep="\\n", flush=True)
if part["report"] is not None:
    pathlib.Path(options["--report"]).write_text(json.dumps(part["report"]))
sys.exit(part["exit_code"])
"""


@dataclass
class Programs:
    """The programs of one image.

    Attributes:
      folder: where the script and its record are.
    """

    folder: Path
    _parts: dict[str, Any] = field(default_factory=dict)

    def play(
        self,
        program: str,
        report: Any = None,
        *,
        lines: tuple[str, ...] = (),
        files: dict[str, str] | None = None,
        exit_code: int = 0,
    ) -> None:
        """Says what a program does: what it prints, what it writes (`{storage}` in a path is that option's value), what
        it reports, and how it ends.
        """
        name = f"components.ray_runtime.{program}"
        self._parts[name] = {"report": report, "lines": lines, "files": files or {}, "exit_code": exit_code}
        (self.folder / "parts").write_text(json.dumps(self._parts))

    @property
    def calls(self) -> list[list[str]]:
        """The programs that were started, with their arguments."""
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


def programs(image: Image, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Has the commands of an image run by a script in `folder`."""
    script = folder / f"python-of-{image}"
    script.write_text(_SCRIPT.format(python=sys.executable, folder=str(folder)))
    script.chmod(0o755)
    monkeypatch.setenv(interpreter.variable(image), str(script))
    return Programs(folder)
