"""What `generate` is asked: questions, how to sample, and which checkpoints. Plain data, imports nothing heavy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Checkpoint:
    """A set of weights to sample from.

    name: for progress lines. load_parameters_path: as MaxText's argument of that name. output: JSON lines go there.
    """

    name: str
    load_parameters_path: str
    output: str


@dataclass(frozen=True)
class Spec:
    """One evaluation run, as JSON on the command line of `generate`.

    questions: JSON lines with `id` (str or int) and `question`. MaxText's own code makes the prompt, as in training.
    checkpoints: sampled one after the other in one process, with the same random numbers for the same weights.
    samples_per_question: drawn per question, 0 for greedy alone.
    greedy: one more, greedy, completion per question.
    temperature, top_p, top_k: of the drawn samples; top_p 1 and top_k -1 are off.
    max_new_tokens: budget of a completion. The training run's gives the program that training has compiled already.
    seed: of the draws, on CPU. vLLM on TPU takes no seed.
    """

    questions: str
    checkpoints: tuple[Checkpoint, ...]
    samples_per_question: int
    max_new_tokens: int
    greedy: bool = True
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples_per_question < 0 or not (self.samples_per_question or self.greedy):
            raise UserError("samples_per_question must be positive, or greedy true")
        if self.max_new_tokens < 1:
            raise UserError("max_new_tokens must be at least 1")
        if not self.checkpoints:
            raise UserError("the specification names no checkpoint")
        if self.samples_per_question and self.temperature <= 0:
            raise UserError("temperature must be positive for drawn samples; greedy has its own switch")

    @property
    def passes(self) -> int:
        """Completions per question."""
        return self.samples_per_question + self.greedy

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Raises UserError for a text that is not a specification, with the nearest known key."""
        try:
            values: dict[str, Any] = json.loads(text)
            checkpoints = tuple(Checkpoint(**checkpoint) for checkpoint in values.pop("checkpoints"))
            known = cls.__dataclass_fields__
            for key in values:
                if key not in known:
                    raise UserError(
                        f"The specification for generate has an unknown key '{key}'.{did_you_mean(key, known)}"
                    )
            return cls(checkpoints=checkpoints, **values)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise UserError(f"The text after --spec is not a specification for generate: {error!r}") from error


@dataclass(frozen=True)
class Question:
    """A question by its id and its text."""

    id: str | int
    question: str


def read_questions(path: str | Path) -> list[Question]:
    """Raises UserError for a missing or empty file, a line without id or question, or an id that comes twice."""
    try:
        lines = [json.loads(line) for line in Path(path).read_text().splitlines() if line.strip()]
        questions = [Question(line["id"], line["question"]) for line in lines]
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} does not hold questions, one JSON object with id and question a line: {error!r}"
        ) from error
    if not questions:
        raise UserError(f"{path} holds no question")
    if len({question.id for question in questions}) < len(questions):
        raise UserError(f"{path} names a question id twice")
    return questions
