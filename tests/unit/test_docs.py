"""What the documentation tells people to type and to open: commands, settings, files, and the way to a TPU as a script."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from components import config, tpu
from pipelines.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TPU = ROOT / "docs" / "tpu.md"

SCRIPT = re.compile(r"```sh\n(.*?)```", re.DOTALL)
CODE = re.compile(r"```\w*\n(.*?)```|^ {4,}([^\n]*)|(?<!`)`([^`\n]+)`", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"\bposttrain ([a-z].*?)(?=  |\s#|\s&&|\s\||$)")
PATH = re.compile(r"(?<![\w./@:-])(?:benchmarks|components|configs|docs|images|pipelines|tests|\.ci)/[\w./-]*\w")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")

STUB = """#!/bin/bash
[[ -p /dev/stdin ]] && cat >/dev/null
printf '%s\\0' "${0##*/}" "$@" >>"$CALLS"; echo >>"$CALLS"
echo registry.example/image@sha256:0
"""


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request):
    return request.param.read_text()


def parse(words):
    """The command as `posttrain` itself reads it, and the configuration that it names."""
    name, *arguments = words
    parameters = app.commands[name].make_context(name, arguments).params
    preset = parameters.get("preset")
    if preset is None:
        return None
    of_the_reader = preset == "PRESET" or (preset.endswith(".yaml") and not Path(preset).exists())
    return config.load("tiny-qwen3" if of_the_reader else preset, parameters.get("overrides", ()))


def pieces(text):
    """Lines and spans of code, as far as they are no script of a page, with variables replaced by their names."""
    for found in CODE.finditer(SCRIPT.sub("", text)):
        for line in "".join(filter(None, found.groups())).replace("\\\n", " ").splitlines():
            yield re.sub(r'"?\$\{?(\w+)[^\s"]*\}?"?', lambda variable: variable[1].lower(), line)


def test_every_command_can_be_typed(page):
    for piece in pieces(page):
        for found in COMMAND.finditer(piece):
            words = shlex.split(found[1])
            if words[1:]:
                parse(words)
            else:  # the name of a command, in a sentence
                assert words[0] in app.commands


def test_every_setting_can_be_set(page):
    for piece in pieces(page):
        if piece.startswith("--set "):
            parse(["plan", "gemma4-26b-v6e-32", *shlex.split(piece)])


def test_every_file_is_there(page, request):
    beside = request.node.callspec.params["page"].parent
    missing = [path for path in PATH.findall(page) if not (ROOT / path).exists()]
    missing += [link for link in LINK.findall(page) if not (beside / link).exists()]
    assert missing == []


def calls_of(script, tmp_path, tools):
    """Runs a script where `tools` only write down what they are told, and nothing else is at hand but a few basics."""
    programs = tmp_path / "programs"
    for stub in (*(programs / tool for tool in tools), tmp_path / "images" / "build"):
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(STUB)
        stub.chmod(0o755)
    for basic in ("bash", "cat", "cp", "sed"):
        (programs / basic).symlink_to(shutil.which(basic))
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    typed = "read() { printf -v \"${!#}\" 'a secret'; }\n"  # what a person types when asked
    environment = {"PATH": str(programs), "CALLS": str(tmp_path / "calls")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", typed + script],
        env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\0")[:-1] for line in (tmp_path / "calls").read_text().splitlines()]


@pytest.mark.parametrize("preset", ["gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"])
def test_the_way_to_a_tpu_is_a_script_from_the_first_command_to_the_last(preset, tmp_path, monkeypatch):
    text = TPU.read_text()
    (names,) = re.findall(rf"PRESET={preset} TOPOLOGY=\S+ HOSTS=\d+", text)
    script = re.sub(r"PRESET=.*", names, "\n".join(SCRIPT.findall(text)))
    calls = calls_of(script, tmp_path, ("gcloud", "kubectl", "posttrain", "uv"))
    monkeypatch.chdir(tmp_path)
    typed = [call[1:] for call in calls if call[0] == "posttrain"]
    assert {words[0] for words in typed} >= {"plan", "doctor", "run", "status", "cancel"}
    ran = next(found for found in map(parse, typed) if found)
    assert (ran.preset, ran.tpu.capacity) == (preset, "reservation")

    wanted = tpu.parse(ran.tpu.slice)
    (pool,) = [call for call in calls if call[:5] == ["gcloud", "container", "node-pools", "create", "slice-0"]]
    shape = {"machine-type": wanted.machine_type, "tpu-topology": wanted.topology, "num-nodes": wanted.hosts}
    assert {f"--{flag}={value}" for flag, value in shape.items()} <= set(pool)
    assert "a secret" not in json.dumps(calls)
