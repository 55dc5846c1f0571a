"""From a configuration to the YAML that Vertex AI Pipelines and Kubeflow Pipelines take: one document, the same bytes
every time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from components.config import Config


def compile_yaml(config: Config) -> str:
    """Returns the compiled pipeline of a preset."""
    from kfp import compiler

    from pipelines.grpo import build

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "pipeline.yaml"
        compiler.Compiler().compile(build(config), package_path=str(path))
        return path.read_text()
