"""From a configuration to the YAML that Vertex AI Pipelines and Kubeflow Pipelines take: one document, the same bytes
every time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from components.config import AnyConfig, Config
from components.ray_config import RayFinetuneConfig, RayPretrainConfig


def compile_yaml(config: AnyConfig) -> str:
    """Returns the compiled pipeline of a preset."""
    from kfp import compiler

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "pipeline.yaml"
        compiler.Compiler().compile(_pipeline(config), package_path=str(path))
        return path.read_text()


def _pipeline(config: AnyConfig) -> Any:
    """The pipeline that a configuration is for. Only its own components are imported."""
    match config:
        case Config():
            from pipelines import grpo

            return grpo.build(config)
        case RayFinetuneConfig():
            from pipelines import ray_finetune

            return ray_finetune.build(config)
        case RayPretrainConfig():
            from pipelines import ray_pretrain

            return ray_pretrain.build(config)
    raise AssertionError(f"no pipeline is for {type(config).__name__}")
