"""The questions as the model was trained on them: MaxText's template, then the chat template of the source model.

In: the evaluation's questions, the folder of the data set (template), the source model (tokenizer, chat template). Out:
for each question the user's message and the ids of the whole prompt. These come from the source and not from the export,
so an export that makes other prompts shows. A tokenizer that cannot be used is a `UserError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.serve.spec import Question
from components.sources import fit


def prompts(questions: Mapping[str, str], template: str, model: Path) -> list[Question]:
    """Returns the prompts in the order of the questions.

    Args:
      questions: id -> text.
      template: MaxText's template file, as text.
      model: the source model's directory; its weights are not read.
    """
    made = fit.prompts(model, template, list(questions.values()))
    return [
        Question(id=name, message=prompt.message, prompt_ids=prompt.ids)
        for name, prompt in zip(questions, made, strict=True)
    ]
