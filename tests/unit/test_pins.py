"""Every installed version is the pinned one."""

import importlib.metadata
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
PINS = dict(pin.split("==") for pin in PROJECT["tool"]["uv"]["constraint-dependencies"])


def normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def test_installed_versions_are_the_pinned_ones():
    installed = {normal(d.metadata["Name"]): d.version for d in importlib.metadata.distributions()}
    tools = {"pip", "uv", "setuptools", "wheel", "posttrain"}
    assert installed.keys() - PINS.keys() - tools == set()
    assert {n: v for n, v in installed.items() if n in PINS and PINS[n] != v} == {}
