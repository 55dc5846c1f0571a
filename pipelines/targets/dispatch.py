"""From `--on kfp|vertex` and its options to the module and the settings of that target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PIPELINES = ("grpo-post-training", "ray-finetuning", "ray-pretraining")  # names of the pipelines of this project


def target(on: str, options: Mapping[str, str | None]) -> tuple[Any, Any]:
    """Returns the module of a target and its settings. UserError names a setting that is missing or unusable."""
    if on == "kfp":
        from pipelines.targets import kfp
        from pipelines.targets.kfp_client import KfpSettings

        return kfp, KfpSettings.read(options)
    from pipelines.targets import vertex
    from pipelines.targets.vertex_client import VertexSettings

    return vertex, VertexSettings.read(options)
