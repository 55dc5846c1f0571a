"""For runs of the Ray pipelines as they are: Ray, torch and MaxText on this machine's CPUs.

Their environments take 4.1 and 2.4 GB, so these tests do not make them: they skip where one is not set up. Each is made by
the first `posttrain run tiny-ray-finetune` and `posttrain run tiny-ray-pretrain`.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from components import config
from components.plan import AnyPlan
from components.prepare import prepare
from components.results import RunRecord
from components.workloads import interpreter
from components.workloads.workload import Image


def need(image: Image) -> None:
    """Skips the test where an image's environment is not set up."""
    if interpreter.variable(image) not in os.environ and not interpreter.is_made(image):
        pytest.skip(f"the environment of the image {image} is not set up in {interpreter.IMAGES / image}")


def plan(folder: Path, preset: str, *settings: str) -> AnyPlan:
    """A run of a preset in a folder."""
    return prepare.make_plan(
        config.load(preset, settings),
        run_id="r",
        run_dir=str(folder / "run"),
        store=str(folder / "store"),
        where="local",
    )


class Command:
    """`posttrain run` of one preset, with a directory of its own, from a shell that works on another Ray cluster."""

    _SHELL = {"RAY_ADDRESS": "ray://127.0.0.1:1", "RAY_RUNTIME_ENV_HOOK": "of.another.cluster"}

    def __init__(self, folder: Path, preset: str, *settings: str) -> None:
        self.output = folder / "run"
        options = [part for setting in settings for part in ("--set", setting)]
        self._command = [
            *(sys.executable, "-m", "pipelines.cli", "run", preset),
            *("--output", str(self.output), "--store", str(folder / "store"), *options),
        ]
        self.log = folder / "said.txt"

    def start(self, *below: str) -> psutil.Popen:
        """Starts it, below another command if one is given."""
        with self.log.open("w") as log:
            return psutil.Popen(
                [*below, *self._command], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **self._SHELL}
            )

    def run(self) -> RunRecord:
        """Runs to the end, which must be a good one, below `uv run` as the README says, which Ray notices."""
        assert self.start("uv", "run", "--no-sync").wait(1800) == 0, self.log.read_text()[-4000:]
        return RunRecord.model_validate_json((self.output / "run.json").read_text())


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)


def ray_workers(process: psutil.Process) -> list[psutil.Process]:
    """The workers of Ray Train among all that a process has started."""
    found = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "RayTrainWorker" in " ".join(child.cmdline()):
                found.append(child)
    return found
