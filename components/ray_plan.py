"""What a run of a Ray pipeline will do, decided before anything is spent. See plan.py."""

from __future__ import annotations

from components.plan import AnyPlan, model_dir
from components.ray_config import RayFinetuneConfig, RayPretrainConfig


class FinetunePlan(AnyPlan):
    """A run of `ray-finetune`. `model_revision` is what pins the bytes of the model's source."""

    config: RayFinetuneConfig
    model_revision: str

    @property
    def model_dir(self) -> str:
        """Where the source model lies in Hugging Face format."""
        return model_dir(self.store, self.config.model.source, self.model_revision)


class PretrainPlan(AnyPlan):
    """A run of `ray-pretrain`."""

    config: RayPretrainConfig


SHAPES: dict[str, type[AnyPlan]] = {"ray-finetune": FinetunePlan, "ray-pretrain": PretrainPlan}
