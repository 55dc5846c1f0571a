"""The rules of the house about who imports whom, read from the sources."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.stage import STAGES

ROOT = Path(__file__).parents[2]
MODULES = sorted(p for top in ("components", "pipelines") for p in (ROOT / top).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Full names of what a file imports, at the top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_components_never_import_pipelines():
    guilty = [name(p) for p in MODULES if p.is_relative_to(ROOT / "components")
              for i in imports(p) if i.split(".")[0] == "pipelines"]  # fmt: skip
    assert guilty == []


def test_a_stage_never_imports_another_stage():
    guilty = []
    for stage in STAGES:
        for path in (ROOT / "components" / stage).rglob("*.py"):
            others = [
                i for i in imports(path) if i.startswith("components.") and i.split(".")[1] in set(STAGES) - {stage}
            ]
            guilty += [f"{name(path)}: {other}" for other in others]
    assert guilty == []


def test_only_the_edge_imports_kfp():
    allowed = {"component.py", "artifacts.py"}
    guilty = [name(p) for p in MODULES if p.is_relative_to(ROOT / "components") and p.name not in allowed
              for i in imports(p) if i.split(".")[0] == "kfp"]  # fmt: skip
    assert guilty == []


@pytest.mark.parametrize("module", ["components.maxtext_runtime.generate_spec", "components.rewards.maxtext_rewards"])
def test_what_runs_in_the_training_image_needs_neither_kfp_nor_aiplatform(module):
    code = f"import sys, {module}; sys.exit(bool({{'kfp', 'google.cloud.aiplatform'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
