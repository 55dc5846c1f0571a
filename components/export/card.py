"""The model card of an exported model: what was trained on what, how, and what the evaluation found. In: plan and evaluation. Out: README.md as text."""

from __future__ import annotations

import jinja2
from huggingface_hub import ModelCardData

from components.plan import Plan
from components.results import Evaluation

_BODY = """\
---
{{ header }}
---

# {{ plan.config.preset }}: {{ base }} after GRPO

{{ base }} trained with GRPO on verifiable rewards. Made by the run `{{ plan.run_id }}` of `posttrain`.
{% if note %}

{{ note }}
{% endif %}

| what | value |
|---|---|
| base model | `{{ base }}` at `{{ plan.model_revision }}` |
| training questions | `{{ plan.config.data.train }}` |
| steps | {{ plan.config.train.steps }} of {{ plan.config.train.batch_size }} prompts x {{ plan.config.train.num_generations }} completions |
| learning rate | {{ plan.config.train.learning_rate }} |
| rewards | {% for name, weight in plan.config.train.rewards.items() %}{{ name }} x {{ weight }}{{ ", " if not loop.last }}{% endfor %} |
| seed | {{ plan.config.seed }} |
| code | `{{ plan.code_version }}` |
| configuration | sha256 `{{ plan.config_sha256 }}` |

## Evaluation

{{ e.n_questions }} held-out questions, {{ e.samples_per_question }} samples each, the same for both models. No question was trained on.

| | before | after |
|---|---|---|
| accuracy | {{ pct(e.before.accuracy) }} | {{ pct(e.after.accuracy) }} |
| greedy accuracy | {{ pct(e.before.greedy_accuracy) }} | {{ pct(e.after.greedy_accuracy) }} |
| format | {{ pct(e.before.format_accuracy) }} | {{ pct(e.after.format_accuracy) }} |
| truncated | {{ pct(e.before.truncation_rate) }} | {{ pct(e.after.truncation_rate) }} |

Difference in accuracy: {{ "%+.1f"|format(100 * e.delta.value) }} points, 95 % interval \
{{ "%+.1f"|format(100 * e.delta.ci_low) }} to {{ "%+.1f"|format(100 * e.delta.ci_high) }}. Verdict: **{{ e.verdict }}**. {{ e.reasons[0] }}
"""


def model_card(plan: Plan, evaluation: Evaluation, note: str = "") -> str:
    """Returns the card. Its header is what the Hub reads."""
    base = plan.config.model.source.removeprefix("hf://")
    header = ModelCardData(
        base_model=base if plan.config.model.source.startswith("hf://") else None,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["grpo", "maxtext", "posttrain"],
    )
    environment = jinja2.Environment(autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    return environment.from_string(_BODY).render(
        plan=plan, e=evaluation, base=base, header=header.to_yaml().strip(), note=note, pct=_percent
    )


def _percent(fraction: float | None) -> str:
    return "not measured" if fraction is None else f"{100 * fraction:.1f} %"
