"""What the program in the workload is told, and what it measures. Both as JSON; imports nothing heavy.

The stage writes the `Spec` and the questions, and reads the `Report`; it alone judges. Times are seconds, logarithms are
natural.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

REPORT, SERVER_LOG = "report.json", "server.log"
PROGRESS = "serve: "
"""How a line begins that tells a person what the program is doing."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spec(_Part):
    """One serving check.

    Attributes:
      model: the exported directory.
      questions: JSON lines of `Question`.
      result: a folder for report and log.
      name: under which the server offers the model; no other server has it.
      dtype: float32 or bfloat16.
      port: 0 for any that is free.
      startup_s: until the server must be ready; also how long an answer may take.
      prompts: so many of the questions are compared token by token.
      max_tokens: of an answer.
      concurrency: requests at a time.
      arguments: further ones of vLLM's server.
      compiled: a folder for programs compiled for a TPU; None where none are compiled.
      compiled_before: a folder with those of an earlier check; None where there is none.
    """

    model: str
    questions: str
    result: str
    name: str
    dtype: str
    port: int
    startup_s: float
    prompts: int
    max_tokens: int
    concurrency: int
    arguments: tuple[str, ...] = ()
    compiled: str | None = None
    compiled_before: str | None = None


class Question(_Part):
    """A question as the model was trained on it: the user's message, and the ids of the whole prompt."""

    id: str
    message: str
    prompt_ids: list[int]


class Answer(_Part):
    """A greedy answer. `logprobs` has the log probability of each token; `ended`: by itself, before the limit."""

    id: str
    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    text: str
    ended: bool


class Stop(_Part):
    """An answer that was to end before the text `stop`, and the whole answer without that wish."""

    stop: str
    text: str
    whole: str


class Speed(_Part):
    """Seconds to the first token of requests that were alone, and generated tokens per second, alone and at once."""

    first_token_s: list[float]
    tokens_per_s_alone: float
    tokens_per_s_at_once: float


class Compared(_Part):
    """An answer against transformers on the same tokens.

    `greedy`: how many of its `tokens` transformers would have chosen too. `max_logprob_diff`: the largest |difference|
    of a token's log probability.
    """

    id: str
    tokens: int
    greedy: int
    max_logprob_diff: float


class Answers(_Part):
    """All that the server answered. `completions` and `chats` are of the same first questions, one after the other;
    `at_once` are chats of all questions, several at a time.
    """

    vllm: str
    models: list[str]
    completions: list[Answer]
    chats: list[Answer]
    stop: Stop
    at_once: list[Answer]
    speed: Speed


class Fault(_Part):
    """Why the server did not serve: a sentence with the cure, and lines of its log."""

    reason: str
    evidence: list[str]


class Report(_Part):
    """What was measured. `absent` says why there is no vLLM; `fault` why it did not serve; else there are answers."""

    absent: str | None = None
    fault: Fault | None = None
    ready_s: float | None = None
    answers: Answers | None = None
    compared: list[Compared] = []
