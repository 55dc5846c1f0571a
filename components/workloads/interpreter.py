"""Which Python runs the commands of an image.

In: the name of an image. Out: the path of an interpreter. In a pod that is the image's own. On this machine it is the one
that runs this code, which has what the images `training` and `converter` have; the image `serving` has other versions of
the same packages, so its commands get an environment of their own: `images/serving/.venv`, made with uv from the same
lock as the image when it is first wanted, or the one that POSTTRAIN_SERVING_PYTHON names.

Raises `NoEnvironment`, one line with the cure, where there is none and none can be made.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from components import lock, storage
from components.errors import UserError
from components.progress import say
from components.workloads.workload import ORDER_VARIABLE, Image

SERVING = Path(__file__).resolve().parents[2] / "images" / "serving"
OWN_VARIABLE = "POSTTRAIN_SERVING_PYTHON"
_MADE_FROM = "posttrain-made-from"  # written last, so an environment that was left half made is made again


class NoEnvironment(UserError):
    """There is no Python that can run the image's commands on this machine."""


def interpreter(image: Image) -> str:
    """Returns the path of the Python for the commands of an image. The first call for `serving` may take minutes."""
    if image != "serving" or ORDER_VARIABLE in os.environ:
        return sys.executable
    return os.environ.get(OWN_VARIABLE) or str(environment(SERVING))


def environment(folder: Path) -> Path:
    """Returns the Python of the environment in `folder`, which is made, or made anew, unless it is as the lock says.

    Args:
      folder: has `requirements.txt`, every package with its version and hashes. Gets `.venv`, several GB.
    """
    requirements = folder / "requirements.txt"
    if not requirements.is_file():
        raise NoEnvironment(
            f"vLLM has an environment of its own, and {requirements} is not there to make it from: work in a checkout "
            f"of this project, or name a Python that has vLLM in {OWN_VARIABLE}."
        )
    place = folder / ".venv"
    with lock.held(place, functools.partial(say, "serve")):
        if not is_made(folder):
            _make(place, requirements)
            storage.write_text(place / _MADE_FROM, _identity(requirements))
    return place / "bin" / "python"


def is_made(folder: Path) -> bool:
    """Whether the environment in `folder` is there and is what the lock says."""
    made_from = folder / ".venv" / _MADE_FROM
    return made_from.is_file() and made_from.read_text() == _identity(folder / "requirements.txt")


def _identity(requirements: Path) -> str:
    return hashlib.sha256(requirements.read_bytes()).hexdigest()


def _make(place: Path, requirements: Path) -> None:
    say("serve", f"making vLLM's environment in {place}: a download of 2.7 GB, 5.6 GB on disk, some minutes")
    uv = shutil.which("uv")
    if uv is None:
        raise NoEnvironment(
            f"vLLM's environment is not there, and uv, which makes it, is not installed: install uv, or name a Python that "
            f"has vLLM in {OWN_VARIABLE}."
        )
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)], place.parent)
    # the lock is complete, so nothing is resolved; without compiled bytecode each of vLLM's processes takes a minute more
    options = ["--quiet", "--no-deps", "--require-hashes", "--compile-bytecode"]
    _run([uv, "pip", "install", *options, "--python", str(place), "--requirement", str(requirements)], place.parent)


def _run(command: list[str], folder: Path) -> None:
    # uv takes the constraints of the project that it is started in, and ours are for other versions
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=folder)
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[-400:]
        raise NoEnvironment(f"vLLM's environment cannot be made: {said} See whether the package index can be reached.")
