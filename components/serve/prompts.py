"""The questions as the model was trained on them: MaxText's template, then the chat template of the source model.

In: the evaluation's questions, the folder of the data set (template), the source model (tokenizer, chat template). Out:
for each question the user's message and the ids of the whole prompt. These come from the source and not from the export,
so an export that makes other prompts shows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from components.serve.spec import Question
from components.sources.fit import TAGS


def prompts(questions: Mapping[str, str], template: str, model: Path) -> list[Question]:
    """Returns the prompts in the order of the questions.

    Args:
      questions: id -> text.
      template: MaxText's template file, as text.
      model: the source model's directory; its weights are not read.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it would say that there is no PyTorch; none is needed
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    parts = json.loads(template)
    system = parts["SYSTEM_PROMPT"].format(**TAGS)
    made = []
    for name, text in questions.items():
        message = parts["TEMPLATE"].format(system_prompt=system, question=text)
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        made.append(Question(id=name, message=message, prompt_ids=ids))
    return made
