"""What a reward function sees and gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from components.rewards.extract import DEFAULT_TAGS, Tags
from components.rewards.verifier import Verifier


@dataclass(frozen=True)
class Batch:
    """The completions to reward. All sequences have one entry per completion.

    Attributes:
      completions: the generated texts.
      golds: acceptable answers; an empty list when there is none.
      prompts, questions: as the trainer gives them; empty when the caller has none.
      tags: the marks of the format.
      verifier: None for the one that this process shares.
    """

    completions: Sequence[str]
    golds: Sequence[Sequence[str]]
    prompts: Sequence[str] = ()
    questions: Sequence[str] = ()
    tags: Tags = DEFAULT_TAGS
    verifier: Verifier | None = field(default=None, repr=False)


Values = list[float | None]
"""One value per completion, about 0..1 before its weight; None where there is no gold answer to compare with."""

RewardFunction = Callable[[Batch], Values]
