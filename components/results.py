"""What a run found out, as typed records: the `evaluation` part of `run.json` and what the report page shows.

Written by the stages that train and by `evaluate`, read by `export` (model card), `publish` (gate) and `report`.
Accuracies and rates are fractions 0..1, times are seconds, lengths are tokens. Intervals are two-sided 95 %. Reading a
record with an unknown or missing field raises pydantic's ValidationError.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A record that refuses unknown fields, so that a writer and a reader of different versions notice each other."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")


class Verdict(StrEnum):
    """PROMOTE: shown to be better. HOLD: not shown either way. REJECT: shown to be worse. INVALID: not a
    measurement.
    """

    PROMOTE = "PROMOTE"
    HOLD = "HOLD"
    REJECT = "REJECT"
    INVALID = "INVALID"


class Interval(Record):
    """A value with its two-sided 95 % interval."""

    value: float
    ci_low: float
    ci_high: float


class Measures(Record):
    """One checkpoint on one set of questions.

    `accuracy` is the mean over questions of the mean over samples (avg@k); the gate uses it. `greedy_accuracy` is from
    one greedy sample per question and is None when none was drawn. `pass_at_k`, `maj_at_k` and `pass_hat_k` are keyed
    by k as text.
    """

    n_questions: int
    samples_per_question: int
    accuracy: float
    accuracy_ci_low: float
    accuracy_ci_high: float
    greedy_accuracy: float | None
    mean_reward: float
    reward_parts: dict[str, float]
    format_accuracy: float
    truncation_rate: float
    pass_at_k: dict[str, float]
    maj_at_k: dict[str, float]
    pass_hat_k: dict[str, float]
    solved_all: float
    solved_none: float
    mean_tokens: float
    p95_tokens: float
    verifier_timeouts: int
    verifier_errors: int
    unscorable: int


class Flip(Record):
    """A question whose answers changed: texts of one sample before and one after, with the share of right samples."""

    id: str
    question: str
    answer: str
    before: str
    after: str
    accuracy_before: float
    accuracy_after: float


class Evaluation(Record):
    """Before and after on the same held-out questions, with the decision and why.

    `delta` is after minus before, `delta_vs_champion` after minus champion; both paired by question, bootstrapped by
    cluster. `reasons` are sentences, the deciding one first.
    """

    n_questions: int
    n_clusters: int
    samples_per_question: int
    before: Measures
    after: Measures
    champion: Measures | None = None
    delta: Interval
    greedy_delta: Interval | None = None
    delta_vs_champion: Interval | None = None
    verdict: Verdict
    reasons: list[str]
    min_delta: float
    improved: list[Flip] = []
    regressed: list[Flip] = []
    length_histogram: dict[str, list[int]] = {}
    length_bins: list[float] = []
    settings: dict[str, str | int | float | bool] = {}


class TrainPoint(Record):
    """One training step as the trainer recorded it. `reward` is the mean over the batch of the summed reward
    functions.
    """

    step: int
    reward: float
    reward_parts: dict[str, float] = {}
    completion_tokens: float | None = None
    loss: float | None = None
    kl: float | None = None
    grad_norm: float | None = None


class Training(Record):
    """The training of a run: where it began and ended, its curve, and how many rollouts were kept."""

    first_step: int
    last_step: int
    resumed_from: int | None = None
    seconds: float
    rollout_engine: str
    rollouts: int
    curve: list[TrainPoint]


class LossPoint(Record):
    """The loss of one step, a mean over the batch. MaxText counts steps from 0, fine-tuning from 1."""

    step: int
    loss: float


class WorkerGroup(Record):
    """Workers that trained together until their number changed or one was lost: how many, the first step that they
    trained, and when they began (ISO 8601, UTC).
    """

    workers: int
    from_step: int
    at: str


class LossCurve(Record):
    """The loss of a training under Ray by step, and the worker groups that trained one after the other, where their
    number may vary.
    """

    points: list[LossPoint]
    groups: list[WorkerGroup] = []

    @classmethod
    def thinned(cls, points: Sequence[LossPoint], groups: Sequence[WorkerGroup] = (), *, most: int = 500) -> Self:
        """Keeps at most `most` (2 or more) of the points, evenly spaced, the first and the last among them."""
        if len(points) > most:
            points = [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]
        return cls(points=list(points), groups=list(groups))


class Parity(Record):
    """How far the exported directory is from the trained checkpoint.

    Logits on fixed token ids: `range` is the largest |logit|, `tolerance` a fraction of it. `max_abs_diff` is that of
    the export itself. `max_abs_diff_hf` is as Hugging Face computes logits, without MaxText's rounding of a tied
    unembedding to bfloat16; `argmax_agreement` goes with it. `max_abs_parameter_diff` compares parameters after a round
    trip; it is 0 for a lossless export. `method` says where the second logits come from.
    """

    method: str
    max_abs_diff: float
    max_abs_diff_hf: float
    max_abs_parameter_diff: float
    range: float
    argmax_agreement: float
    tolerance: float
    passed: bool


class ServingCheck(Record):
    """One serving check: what vLLM served and how it compares.

    Only `passed` says that what was trained is what is served; `not run` is never a pass.

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


class Published(Record):
    """What became of a model after its verdict.

    `promoted` says whether it is the champion of `slot`, in place of the run `replaced`; without a slot none is kept.
    `hub` is the page of its commit on the Hugging Face hub, `vertex` the resource name of its version in Vertex AI's
    Model Registry.
    """

    verdict: Verdict
    promoted: bool
    slot: str | None
    replaced: str | None = None
    hub: str | None = None
    vertex: str | None = None


class StageRecord(Record):
    """One stage of a run. `artifacts` maps a name to its kind and uri, `metrics` a name to its value."""

    name: str
    status: str
    seconds: float
    note: str = ""
    artifacts: dict[str, dict[str, str]] = {}
    metrics: dict[str, float] = {}


class RunRecord(Record):
    """`run.json`: all that a script needs to know about a run. `seconds` are those of the attempt that wrote it."""

    run_id: str
    preset: str
    config_sha256: str
    code_version: str
    status: str
    started: str
    attempt: int = 1
    seconds: float
    where: str
    engine: str
    stages: list[StageRecord]
    evaluation: Evaluation | None = None
    training: Training | None = None
    loss: LossCurve | None = None
    parity: Parity | None = None
    published: Published | None = None
    serving: ServingCheck | None = None
    metrics: dict[str, float] = {}
    model_uri: str | None = None
    report_uri: str | None = None
    error: str | None = None
    cost: dict[str, float | str] = {}
