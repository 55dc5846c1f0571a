"""The model card of an exported model: what was trained on what, how, and what the evaluation found. In: plan and
evaluation. Out: README.md as text.
"""

from __future__ import annotations

from pathlib import Path

import jinja2
from huggingface_hub import ModelCardData

from components.plan import Plan
from components.results import Evaluation


def model_card(plan: Plan, evaluation: Evaluation) -> str:
    """Returns the card. Its header is what the Hub reads."""
    base = plan.config.model.source.removeprefix("hf://")
    header = ModelCardData(
        base_model=base if plan.config.model.source.startswith("hf://") else None,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["grpo", "maxtext", "posttrain"],
    )
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # the card is Markdown, and its values are our own
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("card.md.jinja").render(
        plan=plan, e=evaluation, base=base, header=header.to_yaml().strip(), pct=_percent
    )


def _percent(fraction: float | None) -> str:
    return "not measured" if fraction is None else f"{100 * fraction:.1f} %"
