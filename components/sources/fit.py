"""Whether the questions fit the context: prompts as MaxText will make them, counted in tokens.

In: a model directory (tokenizer, chat template), MaxText's template as JSON text, questions, and the room for a prompt.
MaxText leaves out training questions that are too long, and an evaluation that leaves out questions is another
evaluation; so a held-out question that does not fit is a `UserError`, and so are too few training questions that do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from components.errors import UserError
from components.sources.tiny.make import WARM_QWEN3

# MaxText's defaults of reasoning_start_token and its fellows, the values that its templates are filled with
TAGS = {
    "reasoning_start_token": "<reasoning>",
    "reasoning_end_token": "</reasoning>",
    "solution_start_token": "<answer>",
    "solution_end_token": "</answer>",
}

_SAMPLE = 500  # training questions that are counted; enough to tell a wrong limit from a few long questions


class Prompt(NamedTuple):
    """A question as the model is asked it: the user's message, and the tokens of the whole prompt."""

    message: str
    ids: list[int]


def tokenizer_at_hand(source: str) -> Path | None:
    """Where the tokenizer of a source lies on this machine without fetching anything; None for the hub and for
    gs://.
    """
    if source.startswith("tiny://"):
        return WARM_QWEN3
    return Path(source) if "://" not in source else None


def check_prompts(
    model: Path, template: str, train: Sequence[str], evaluation: Sequence[str], *, room: int, need_train: int
) -> None:
    """Raises UserError when a held-out prompt, or all but fewer than `need_train` training prompts, exceed `room`
    tokens.
    """
    longest = max(evaluation, key=len, default="")
    over = [length for prompt in prompts(model, template, evaluation) if (length := len(prompt.ids)) > room]
    if over:
        raise UserError(
            f"{len(over)} of {len(evaluation)} held-out questions make a prompt longer than train.max_prompt_tokens={room} "
            f"(the longest has {max(over)} tokens, such as '{longest[:60]}'): raise train.max_prompt_tokens."
        )
    some = train[:_SAMPLE]
    fitting = sum(len(prompt.ids) <= room for prompt in prompts(model, template, some))
    if fitting < min(need_train, len(some)):
        raise UserError(
            f"Only {fitting} of {len(some)} training questions make a prompt of at most train.max_prompt_tokens={room} "
            f"tokens, but a step needs {need_train}: raise train.max_prompt_tokens."
        )


def prompts(model: Path, template: str, questions: Sequence[str]) -> list[Prompt]:
    """The questions as training asks them: MaxText's template, then the chat template, then the tokenizer."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it would say that there is no PyTorch; none is needed
    from transformers import AutoTokenizer

    parts = json.loads(template)
    system = parts["SYSTEM_PROMPT"].format(**TAGS)
    messages = [parts["TEMPLATE"].format(system_prompt=system, question=question) for question in questions]
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        texts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
            )
            for message in messages
        ]
        ids = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    except Exception as error:  # a broken tokenizer or chat template raises anything, tokenizers even a bare Exception
        said = " ".join(str(error).split())[:200]
        raise UserError(
            f"The tokenizer or chat template of {model} cannot be used: {said}. Mend those files."
        ) from error
    return list(map(Prompt, messages, ids))
