"""Which Python runs the commands of an image.

In: the name of an image. Out: the path of an interpreter. In a pod that is the image's own. On this machine it is the one
that runs this code, which has what the images `training` and `converter` have; the others have other versions of the same
packages, so their commands get an environment of their own: `images/NAME/.venv`, made with uv from the same lock as the
image when it is first wanted, or the one that an environment variable names, such as POSTTRAIN_SERVING_PYTHON.

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

IMAGES = Path(__file__).resolve().parents[2] / "images"
# of the images with an environment of their own, what making it takes
COSTS: dict[Image, str] = {
    "serving": "a download of 2.7 GB, 5.6 GB on disk, some minutes",
    "ray-torchtpu": "a download of 2.5 GB, 4.1 GB on disk, some minutes",
    "ray-maxtext": "a download of 0.9 GB, 2.4 GB on disk, some minutes",
}
_MADE_FROM = "posttrain-made-from"  # written last, so an environment that was left half made is made again


class NoEnvironment(UserError):
    """There is no Python that can run the image's commands on this machine."""


def interpreter(image: Image) -> str:
    """Returns the path of the Python for the commands of an image. The first call for one of `COSTS` may take minutes."""
    if image not in COSTS or ORDER_VARIABLE in os.environ:
        return sys.executable
    return os.environ.get(variable(image)) or str(environment(image))


def variable(image: Image) -> str:
    """The environment variable that may name a Python of one's own for an image."""
    return f"POSTTRAIN_{image.upper().replace('-', '_')}_PYTHON"


def environment(image: Image) -> Path:
    """Returns the Python of an image's environment, which is made, or made anew, unless it is as the lock says.

    The image's folder has `requirements.txt`, every package with its version and hashes. It gets `.venv`, several GB.
    """
    requirements = _requirements(image)
    if not requirements.is_file():
        raise NoEnvironment(
            f"The commands of the image {image} have an environment of their own, and {requirements} is not there to make "
            f"it from: work in a checkout of this project, or name a Python that has its packages in {variable(image)}."
        )
    place = IMAGES / image / ".venv"
    with lock.held(place, functools.partial(say, image)):
        if not is_made(image):
            _make(image, place, requirements)
            storage.write_text(place / _MADE_FROM, _identity(requirements))
    return place / "bin" / "python"


def is_made(image: Image) -> bool:
    """Whether an image's environment is there and is what the lock says."""
    made_from = IMAGES / image / ".venv" / _MADE_FROM
    return made_from.is_file() and made_from.read_text() == _identity(_requirements(image))


def _requirements(image: Image) -> Path:
    return IMAGES / image / "requirements.txt"


def _identity(requirements: Path) -> str:
    return hashlib.sha256(requirements.read_bytes()).hexdigest()


def _make(image: Image, place: Path, requirements: Path) -> None:
    say(image, f"making its environment in {place}: {COSTS[image]}")
    uv = shutil.which("uv")
    if uv is None:
        raise NoEnvironment(
            f"The environment of the image {image} is not there, and uv, which makes it, is not installed: install uv, or "
            f"name a Python that has its packages in {variable(image)}."
        )
    _run(image, [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)])
    # the lock is complete, so nothing is resolved; without compiled bytecode the first start takes minutes
    options = ["--quiet", "--no-deps", "--require-hashes", "--compile-bytecode"]
    _run(image, [uv, "pip", "install", *options, "--python", str(place), "--requirement", str(requirements)])


def _run(image: Image, command: list[str]) -> None:
    """Runs uv where its configuration is the lock's own, not that of the project, whose pins may be others."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=IMAGES / image
    )
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[-400:]
        raise NoEnvironment(
            f"The environment of the image {image} cannot be made: {said} See whether the package index can be reached."
        )
