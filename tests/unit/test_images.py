"""The Dockerfiles and the script that builds them: pinned, without secrets, without root where that can be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = sorted(path.parent.name for path in (ROOT / "images").glob("*/Dockerfile"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINNED = {pin.partition("==")[0] for pin in PROJECT["tool"]["uv"]["constraint-dependencies"]}


def steps(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, in order: (instruction, the rest)."""
    text = (ROOT / "images" / name / "Dockerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines.splitlines() if line.strip()]


def of(name: str, instruction: str) -> list[str]:
    return [rest for kind, rest in steps(name) if kind == instruction]


@pytest.fixture(params=IMAGES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_images_of_the_design_are_there():
    assert {"launcher", "converter", "training"} <= set(IMAGES)


def test_a_base_can_be_chosen_and_its_default_has_a_version(name):
    assert {base.partition(" AS ")[0] for base in of(name, "FROM")} == {"${BASE}"}
    (default,) = (argument for argument in of(name, "ARG") if argument.startswith("BASE="))
    assert re.fullmatch(r"BASE=\S+:[\w.-]*\d[\w.-]*(@sha256:[0-9a-f]{64})?", default)


def test_whatever_is_installed_has_one_version(name):
    for run in of(name, "RUN"):
        # of the base's own Debian, whose version is the base's
        fetched = re.sub(r"apt-get install --yes --no-install-recommends (libnuma1|wget)", "", run)
        assert not re.search(r"\b(curl|wget|git|apt-get install)\b", fetched)
        for command in re.split(r"&&", run):
            if re.search(r"\bpip install\b", command):
                pinned = "--constraint pins.txt" in command
                words = re.sub(r"(--constraint|-r) \S+", "", command.split("install", 1)[1]).split()
                packages = [word for word in words if not word.startswith("-")]
                assert all("==" in package or (pinned and package in PINNED) for package in packages), command
                assert pinned or "-r" not in command.split(), command


@pytest.mark.parametrize("path", sorted((ROOT / "images").glob("*/requirements.txt")), ids=lambda p: p.parent.name)
def test_requirements_have_a_version_or_leave_it_to_the_project(path):
    named = [line for line in path.read_text().splitlines() if re.match(r"\w", line)]
    assert [line for line in named if "==" not in line and line not in PINNED] == []


def test_nothing_secret_can_get_in(name):
    text = (ROOT / "images" / name / "Dockerfile").read_text()
    assert not re.search(r"token|secret|password|credential|index.url|--mount=type=(secret|ssh)", text, re.IGNORECASE)
    assert not of(name, "ADD")
    copied = {source for rest in of(name, "COPY") if "--from" not in rest for source in rest.split()[:-1]}
    assert copied <= {"components", "pipelines", "configs", "pyproject.toml", f"images/{name}/requirements.txt"}


def test_only_what_the_dockerfiles_copy_is_sent_to_a_build():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*" and lines[-1] == "**/.*"
    assert {line[1:] for line in lines if line.startswith("!")} == {
        "components", "pipelines", "configs/*.yaml", "pyproject.toml", "images/*/requirements.txt",
    }  # fmt: skip


def test_an_image_runs_without_root_unless_its_base_needs_it(name):
    user = of(name, "USER")[-1]
    assert re.fullmatch(
        r"[1-9]\d*:[1-9]\d*" if name not in ("training", "serving-tpu", "ray-torchtpu", "ray-maxtext") else "0:0", user
    )  # a number, as Kubernetes wants


def test_the_version_of_the_code_is_in_the_image_and_changes_no_layer_of_work(name):
    kinds = steps(name)
    at = kinds.index(("ARG", "CODE_VERSION=unknown"))
    assert ("ENV", "POSTTRAIN_CODE_VERSION=${CODE_VERSION}") in kinds[at:]
    assert any(kind == "LABEL" and "image.revision=${CODE_VERSION}" in rest for kind, rest in kinds[at:])
    assert {kind for kind, _ in kinds[at:]} <= {"ARG", "ENV", "LABEL", "WORKDIR", "USER", "ENTRYPOINT"}


def test_an_image_imports_at_its_end_what_its_work_needs(name):
    assert "python3 -c" in of(name, "RUN")[-1]


def test_code_comes_after_dependencies(name):
    kinds = steps(name)
    copy = next(i for i, (kind, rest) in enumerate(kinds) if kind == "COPY" and rest.startswith("components"))
    assert not any(kind == "RUN" and "pip install" in rest for kind, rest in kinds[copy:])


def test_the_training_image_has_neither_pipelines_nor_kfp():
    assert not any("pipelines" in rest for _, rest in steps("training"))
    assert not any("kfp" in rest for _, rest in steps("training"))


# -- images/build ------------------------------------------------------------------------------------------------------


@pytest.fixture
def builder(tmp_path: Path):
    """`builder("buildah", *arguments)`: runs images/build with a program of that name that notes how it is called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    noted = tmp_path / "noted"

    def run(tool: str, *arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
        program = programs / tool
        program.write_text(f"""#!{sys.executable}
import json, sys
open({str(noted)!r}, "a").write(json.dumps(sys.argv[1:]) + "\\n")
if "--digestfile" in sys.argv:
    open(sys.argv[sys.argv.index("--digestfile") + 1], "w").write("sha256:abc")
if sys.argv[1:3] == ["image", "inspect"]:
    print(sys.argv[-1].rsplit(":", 1)[0] + "@sha256:def")
sys.exit(sys.argv[-2:] == ["images/converter/Dockerfile", "."])
""")
        program.chmod(0o755)
        for needed in ("bash", "dirname", "git", "mktemp", "rm", "env", "tail", "sed"):
            if not (programs / needed).exists():
                found = subprocess.run(["which", needed], capture_output=True, text=True, check=True).stdout.strip()
                (programs / needed).symlink_to(found)
        env = {"PATH": str(programs), **environment}
        done = subprocess.run(
            [str(ROOT / "images" / "build"), *arguments], capture_output=True, text=True, env=env, check=False
        )
        calls = [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
        return done, calls

    return run


def test_without_a_registry_an_image_has_the_name_that_the_engine_starts(builder):
    from components.workloads.images import DEFAULTS

    done, _ = builder("buildah", "training")
    assert done.stdout == f"{DEFAULTS['training']}\n"


@pytest.mark.parametrize(("tool", "digest"), [("buildah", "sha256:abc"), ("docker", "sha256:def")])
def test_a_push_prints_the_digest_that_a_preset_names(builder, tool, digest):
    done, calls = builder(tool, "--registry", "eu.example/p/r", "--tag", "7", "--push", "launcher")
    assert done.stdout == f"eu.example/p/r/posttrain-launcher@{digest}\n"
    assert calls[0][0] == "build" and calls[1][0] == "push"
    assert "eu.example/p/r/posttrain-launcher:7" in calls[0]


def test_build_arguments_reach_the_build_and_the_commit_is_told(builder):
    _, calls = builder("docker", "--build-arg", "BASE=mine:1", "training")
    given = [value for flag, value in pairwise(calls[0]) if flag == "--build-arg"]
    assert given[0] == "BASE=mine:1"
    assert re.fullmatch(r"CODE_VERSION=[0-9a-f]{40}(-dirty)?", given[1])


def test_a_build_that_fails_says_so_and_builds_no_more(builder):
    done, calls = builder("buildah", "converter", "training")
    assert done.returncode == 1 and done.stdout == "" and len(calls) == 1


def test_an_image_that_does_not_exist_is_the_users_mistake(builder):
    done, calls = builder("buildah", "nonsense")
    assert done.returncode == 2 and "nonsense" in done.stderr and calls == []


def test_docker_builds_where_it_is_asked_for(builder):
    builder("docker")
    _, calls = builder("buildah", "launcher", BUILDER="docker")
    assert calls and not any("--isolation" in call for call in calls)


def test_help_is_the_comment_at_the_top(builder):
    done, _ = builder("buildah", "--help")
    assert done.returncode == 0 and "--registry" in done.stdout and "set -euo" not in done.stdout
