"""Runs of the real pipeline, shared between tests: each costs a minute."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from components.results import RunRecord

# Small enough for a minute, large enough that every stage has something to do.
SHORT = ["train.steps=4", "train.checkpoint_period=2", "evaluate.questions=100", "evaluate.samples=2"]


class Posttrain:
    """The command, with a store, a directory for runs and one for temporary files of its own."""

    def __init__(self, root: Path, store: Path, scratch: Path) -> None:
        self.root = root
        self.store = store
        self.scratch = scratch

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pipelines.cli", *arguments, "--store", str(self.store)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.root,
                                env={**os.environ, "TMPDIR": str(self.scratch)})  # fmt: skip

    def __call__(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=900)
        return process.returncode, said

    def record(self, name: str) -> RunRecord:
        return RunRecord.model_validate_json((self.root / name / "run.json").read_text())

    def run(self, name: str, *settings: str, preset: str = "tiny-qwen3") -> tuple[int, str]:
        options = [part for setting in (*SHORT, *settings) for part in ("--set", setting)]
        return self("run", preset, "--output", name, *options)


@pytest.fixture(scope="session")
def posttrain(tmp_path_factory):
    """With POSTTRAIN_TEST_STORE the compiled programs of an earlier run serve again."""
    given = os.environ.get("POSTTRAIN_TEST_STORE")
    store = Path(given) if given else tmp_path_factory.mktemp("store")
    # short, for sockets have their place there
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        yield Posttrain(tmp_path_factory.mktemp("runs"), store, Path(scratch))


@pytest.fixture(scope="session")
def short_run(posttrain) -> Path:
    """A finished run of `tiny-qwen3`, cut short."""
    code, said = posttrain.run("short")
    assert code == 0, said
    assert list(posttrain.scratch.iterdir()) == []
    return posttrain.root / "short"


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)
