"""What the serving check found out, as a typed record: beside the answers as `serving.json`, and what the report shows.

Accuracies and rates are fractions 0..1, times are seconds, log probabilities are natural.
"""

from __future__ import annotations

from typing import Literal

from components.results import Record

SERVING = "serving.json"


class ServingCheck(Record):
    """One serving check. Only `passed` says that what was trained is what is served; `not run` is never a pass.

    Attributes:
      status: and `reason` why it is not `passed`: empty, or the first of the `findings`, or why it was not run.
      machine: `cpu` or the slice.
      ready_s: from the server's start until it was healthy.
      n_prompts: answers compared with transformers, completions and chats; `n_greedy_equal` of them are token by token
        what transformers chooses; `max_logprob_diff` is the largest |difference| of a token's log probability.
      accuracy: of the greedy answers over HTTP to `n_questions`; `evaluated_accuracy` of the evaluation's greedy answers
        to the same ones, with its 95 % interval.
      n_answers_equal: answers over HTTP whose text is that of the evaluation.
      first_token_s: median of requests that were alone. tokens_per_s: alone, and `concurrency` at a time.
    """

    status: Literal["passed", "failed", "not run"]
    reason: str = ""
    findings: list[str] = []
    vllm: str | None = None
    machine: str
    dtype: str
    concurrency: int
    ready_s: float | None = None
    n_prompts: int = 0
    n_greedy_equal: int = 0
    max_logprob_diff: float | None = None
    logprob_tolerance: float
    n_questions: int = 0
    accuracy: float | None = None
    evaluated_accuracy: float | None = None
    evaluated_ci_low: float | None = None
    evaluated_ci_high: float | None = None
    n_answers_equal: int = 0
    truncation_rate: float | None = None
    evaluated_truncation_rate: float | None = None
    first_token_s: float | None = None
    tokens_per_s_alone: float | None = None
    tokens_per_s_at_once: float | None = None
