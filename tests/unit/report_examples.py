"""Runs to render, made from a seed: a big one (1319 questions x 8 samples, like GSM8K), a tiny one, and the ways a
run can end.

Each function returns `(run, config_yaml, lineage)`, the whole input of the report. The figures are drawn from a
simple model of questions of different difficulty, so that they agree with one another.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from components.results import (
    Evaluation,
    Flip,
    Interval,
    Measures,
    Parity,
    RunRecord,
    StageRecord,
    Training,
    TrainPoint,
    Verdict,
)

Example = tuple[RunRecord, str, list[dict[str, Any]]]

_TINY_VERBS = [("finds", 1), ("buys", 1), ("loses", -1), ("gives away", -1)]
_NAMES = ["Ana", "Ben", "Chidi", "Dana", "Emil", "Fatima", "Goran", "Hana"]
_THINGS = ["coins", "shells", "apples", "stamps", "marbles", "cards"]


def big() -> Example:
    """Qwen3 30B-A3B on GSM8K on a v6e-64: 1319 x 8, promoted by a small but sure margin."""
    rng = np.random.default_rng(7)
    n, k = 1319, 8
    skill = rng.beta(2.6, 0.65, n)
    before = rng.binomial(k, skill)
    after = rng.binomial(k, np.clip(skill + (1 - skill) * 0.42, 0, 1))
    evaluation = _evaluation(
        before, after, k, rng, _word_problem_flip, "GSM8K test", tokens=(188, 231), min_delta=0.01, limit=768
    )
    run = RunRecord(
        run_id="qwen3-30b-a3b-v6e64-20261130-0614-5f3a",
        preset="qwen3-30b-a3b-v6e-64",
        config_sha256="9b1f0d5c2a7e4f63b8d1c0a95e72f4418d3b6a90c5e1f7284a6b3d9c0e8f1a52",
        code_version="4c1d9e0b7f2a6835d4e9c1b0a7f6e5d4c3b2a190",
        status="succeeded",
        started="2026-11-30T06:14:09+00:00",
        seconds=26_410,
        where="vertex",
        engine="jobset",
        stages=_stages((41, 512, 2950, 15_806, 5104, 1210, 420), "gs://acme-rl/runs/5f3a", "done"),
        evaluation=evaluation,
        training=_training(
            rng,
            steps=200,
            start=0.86,
            end=0.99,
            tokens=(190, 232),
            seconds=15_640,
            engine="vLLM on TPU",
            rollouts=204_800,
        ),
        parity=Parity(
            method="transformers with torch, bfloat16, 4 x 256 fixed token ids",
            max_abs_parameter_diff=0.0,
            max_abs_diff=0.109375,
            max_abs_diff_hf=0.109375,
            range=31.25,
            argmax_agreement=0.998,
            tolerance=0.01,
            passed=True,
        ),
        model_uri="gs://acme-rl/runs/5f3a/export/qwen3-30b-a3b-grpo",
        report_uri="gs://acme-rl/runs/5f3a/report.html",
        cost={"machine": "v6e-64 (16 hosts x 4 chips)", "chip_hours": 371.8, "estimated_usd": 1003.86},
    )
    config = _config("qwen3-30b-a3b-v6e-64", "hf://Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b", "openai/gsm8k", 200)
    return (
        run,
        config,
        _lineage("gs://acme-rl/runs/5f3a", "Qwen/Qwen3-30B-A3B", "ad44e777bcd18fa416d9da3bd8f70d33ebb85d39", 200),
    )


def tiny() -> Example:
    """The embedded default on a laptop: 256 x 8, a large and sure gain."""
    rng = np.random.default_rng(3)
    n, k = 256, 8
    skill = np.repeat([0.66, 0.6, 0.47, 0.41], n // 4) + rng.normal(0, 0.05, n)
    before = rng.binomial(k, np.clip(skill, 0, 1))
    after = rng.binomial(k, np.clip(0.935 + rng.normal(0, 0.05, n), 0, 1))
    evaluation = _evaluation(
        before, after, k, rng, _coin_flip_text, "tiny word problems", tokens=(31, 34), clusters=242, limit=64
    )
    folder = "runs/tiny-qwen3-20261130-101502-8c2e"
    run = RunRecord(
        run_id="tiny-qwen3-20261130-101502-8c2e",
        preset="tiny-qwen3",
        config_sha256="1f6c2b7d9e0a4c58b3d2f1e0a9c8b7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0",
        code_version="a41f09c",
        status="succeeded",
        started="2026-11-30T10:15:02+00:00",
        seconds=107.4,
        where="local",
        engine="process",
        stages=_stages((1.2, 0.6, 0.4, 66.1, 27.9, 8.3, 0.0), folder, "done", reused="convert"),
        evaluation=evaluation,
        training=_training(
            rng,
            steps=80,
            start=0.56,
            end=1.04,
            tokens=(31, 34),
            seconds=61.7,
            engine="JAX sampler on CPU in place of vLLM on TPU",
            rollouts=10_240,
        ),
        parity=Parity(
            method="round trip Hugging Face to MaxText, float32, 4 x 32 fixed token ids",
            max_abs_parameter_diff=0.0,
            max_abs_diff=3.1e-5,
            max_abs_diff_hf=3.1e-5,
            range=14.2,
            argmax_agreement=1.0,
            tolerance=0.01,
            passed=True,
        ),
        model_uri=f"{folder}/export/hf",
        report_uri=f"{folder}/report.html",
    )
    config = _config("tiny-qwen3", "tiny://qwen3", "qwen3-0.6b", "tiny://word-problems", 80)
    return run, config, _lineage(folder, "tiny://qwen3", "sha256:52ab90cc", 80)


def hold() -> Example:
    """Training changed nothing that 256 questions could show."""
    run, config, lineage = tiny()
    rng = np.random.default_rng(11)
    skill = rng.beta(3, 2.4, 256)
    evaluation = _evaluation(
        rng.binomial(8, skill),
        rng.binomial(8, np.clip(skill + 0.006, 0, 1)),
        8,
        rng,
        _coin_flip_text,
        "tiny word problems",
        tokens=(31, 31),
        limit=64,
    )
    return run.model_copy(update={"evaluation": evaluation}), config, lineage


def with_champion() -> Example:
    """Better than the base model, and compared with the champion of last week."""
    run, config, lineage = big()
    rng = np.random.default_rng(5)
    skill = rng.beta(2.6, 0.65, 1319)
    better = np.clip(skill + (1 - skill) * 0.42, 0, 1)
    champion = rng.binomial(8, np.clip(skill + (1 - skill) * 0.33, 0, 1))
    evaluation = _evaluation(
        rng.binomial(8, skill),
        rng.binomial(8, better),
        8,
        rng,
        _word_problem_flip,
        "GSM8K test",
        tokens=(188, 231),
        min_delta=0.005,
        champion=champion,
        limit=768,
    )
    return run.model_copy(update={"evaluation": evaluation}), config, lineage


def failed() -> Example:
    """Training ran out of memory."""
    run, config, lineage = big()
    stages = [
        *run.stages[:3],
        StageRecord(name="train", status="failed", seconds=1263.0, note="attempt 2 of 2"),
        *(StageRecord(name=s.name, status="pending", seconds=0) for s in run.stages[4:]),
    ]
    return (
        run.model_copy(
            update={
                "status": "failed",
                "stages": stages,
                "evaluation": None,
                "training": None,
                "parity": None,
                "model_uri": None,
                "seconds": 4766.0,
                "cost": {"machine": "v6e-64 (16 hosts x 4 chips)", "chip_hours": 22.4, "estimated_usd": 60.48},
                "error": (
                    "train ran out of TPU memory at step 0 (needs 34.1 GiB of 31.2 GiB per chip): "
                    "set train.micro_batch_size to 4, or take a larger slice."
                ),
            }
        ),
        config,
        lineage[:4],
    )


def ray() -> Example:
    """Fine-tuning on Ray: figures instead of an evaluation."""
    run = RunRecord(
        run_id="tiny-ray-finetune-20261130-1411-77d0",
        preset="tiny-ray-finetune",
        config_sha256="c0ffee7d9e0a4c58b3d2f1e0a9c8b7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0",
        code_version="a41f09c",
        status="succeeded",
        started="2026-11-30T14:11:40+00:00",
        seconds=142.0,
        where="local",
        engine="process",
        stages=[
            StageRecord(name="prepare", status="succeeded", seconds=1.1),
            StageRecord(name="collectives", status="succeeded", seconds=45.2, note="2 workers, gloo"),
            StageRecord(name="finetune", status="succeeded", seconds=88.0),
            StageRecord(
                name="export",
                status="succeeded",
                seconds=6.4,
                artifacts={"model": {"kind": "hf_model", "uri": "runs/77d0/export/hf"}},
            ),
        ],
        metrics={
            "loss_first": 2.5647,
            "loss_last": 0.3078,
            "epochs": 3,
            "workers": 2,
            "tokens_per_second": 6987.4,
            "collectives_max_abs_diff": 0.0,
            "learning_rate": 2e-5,
        },
        model_uri="runs/77d0/export/hf",
    )
    return run, "preset: tiny-ray-finetune\nmodel:\n  source: tiny://qwen3\n", []


ALL = {"big": big, "tiny": tiny, "hold": hold, "with_champion": with_champion, "failed": failed, "ray": ray}


def _evaluation(
    before: np.ndarray,
    after: np.ndarray,
    k: int,
    rng: np.random.Generator,
    flip: Any,
    dataset: str,
    *,
    tokens: tuple[int, int],
    limit: int,
    min_delta: float = 0.0,
    clusters: int | None = None,
    champion: np.ndarray | None = None,
) -> Evaluation:
    n = len(before)
    delta = _interval((after - before) / k)
    lower = 100 * delta.ci_low
    verdict = Verdict.PROMOTE if delta.ci_low > min_delta else Verdict.HOLD
    is_above = "is above" if verdict is Verdict.PROMOTE else "is not above"
    reasons = [
        f"The lower end of the interval, {lower:+.1f} points, {is_above} the {100 * min_delta:.1f} points asked for."
    ]
    if verdict is Verdict.PROMOTE:
        reasons.append("Format and truncation are not worse than before.")
    improved = [i for i in np.argsort(before - after, kind="stable") if before[i] <= k // 2 < after[i]][:30]
    regressed = [i for i in np.argsort(after - before, kind="stable") if after[i] <= k // 2 < before[i]][:30]
    bins = np.linspace(0, limit, 25)
    histogram = {}
    for name, mean in (("before", tokens[0]), ("after", tokens[1])):
        drawn = np.minimum(rng.gamma(9, mean / 9, n * k), limit - 1)
        histogram[name] = np.histogram(drawn, bins)[0].tolist()
    return Evaluation(
        n_questions=n,
        n_clusters=clusters or n,
        samples_per_question=k,
        before=_measures(before, k, tokens[0], format_accuracy=0.851, cut=0.004, timeouts=1),
        after=_measures(after, k, tokens[1], format_accuracy=0.996, cut=0.002, timeouts=0),
        champion=None
        if champion is None
        else _measures(champion, k, tokens[1] - 8, format_accuracy=0.993, cut=0.003, timeouts=0),
        delta=delta,
        greedy_delta=_interval((after > k // 2) * 1.0 - (before > k // 2)),
        delta_vs_champion=None if champion is None else _interval((after - champion) / k),
        verdict=verdict,
        reasons=reasons,
        min_delta=min_delta,
        improved=[flip(int(i), before[i] / k, after[i] / k, better=True) for i in improved],
        regressed=[flip(int(i), before[i] / k, after[i] / k, better=False) for i in regressed],
        length_histogram=histogram,
        length_bins=bins.tolist(),
        settings={
            "dataset": dataset,
            "split": "test",
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            "max_completion_tokens": limit,
            "samples": k,
            "seed": 0,
            "template": "<reasoning>...</reasoning><answer>...</answer>",
        },
    )


def _interval(differences: np.ndarray) -> Interval:
    half = 1.96 * differences.std(ddof=1) / np.sqrt(len(differences))
    mean = float(differences.mean())
    return Interval(value=mean, ci_low=mean - half, ci_high=mean + half)


def _measures(
    right: np.ndarray, k: int, tokens: float, *, format_accuracy: float, cut: float, timeouts: int
) -> Measures:
    accuracy = _interval(right / k)
    majority = float((right > k // 2).mean())
    return Measures(
        n_questions=len(right),
        samples_per_question=k,
        accuracy=accuracy.value,
        accuracy_ci_low=accuracy.ci_low,
        accuracy_ci_high=accuracy.ci_high,
        greedy_accuracy=majority,
        mean_reward=accuracy.value + 0.1 * format_accuracy,
        reward_parts={"exact_answer": accuracy.value, "has_format": 0.1 * format_accuracy},
        format_accuracy=format_accuracy,
        truncation_rate=cut,
        pass_at_k={str(j): float(np.mean([1 - comb(k - c, j) / comb(k, j) for c in right])) for j in (1, 2, 4, 8)},
        maj_at_k={"8": majority},
        pass_hat_k={"8": float((right == k).mean())},
        solved_all=float((right == k).mean()),
        solved_none=float((right == 0).mean()),
        mean_tokens=tokens,
        p95_tokens=tokens * 1.62,
        verifier_timeouts=timeouts,
        verifier_errors=0,
        unscorable=0,
    )


def _training(
    rng: np.random.Generator,
    *,
    steps: int,
    start: float,
    end: float,
    tokens: tuple[int, int],
    seconds: float,
    engine: str,
    rollouts: int,
) -> Training:
    progress = 1 - np.exp(-np.arange(1, steps + 1) / (steps / 3.2))
    exact = start + (end - start) * progress + rng.normal(0, 0.035, steps)
    exact = np.clip(exact - 0.1 * (0.85 + 0.15 * progress), 0, 1)
    form = 0.1 * np.clip(0.85 + 0.15 * progress + rng.normal(0, 0.02, steps), 0, 1)
    length = tokens[0] + (tokens[1] - tokens[0]) * progress + rng.normal(0, 0.02 * tokens[0], steps)
    kl = 0.02 * progress + rng.gamma(2, 0.001, steps)
    curve = [
        TrainPoint(
            step=i + 1,
            reward=float(exact[i] + form[i]),
            reward_parts={"exact_answer": float(exact[i]), "has_format": float(form[i])},
            completion_tokens=float(length[i]),
            loss=float(rng.normal(0, 0.002)),
            kl=float(kl[i]),
            grad_norm=float(rng.gamma(6, 0.05)),
        )
        for i in range(steps)
    ]
    return Training(
        first_step=1, last_step=steps, seconds=seconds, rollout_engine=engine, rollouts=rollouts, curve=curve
    )


def _stages(seconds: tuple[float, ...], root: str, status: str, reused: str = "") -> list[StageRecord]:
    made = {
        "prepare": {"config": {"kind": "config", "uri": f"{root}/prepare/config.yaml"}},
        "download": {"model": {"kind": "hf_model", "uri": f"{root}/download/model"}},
        "convert": {"checkpoint": {"kind": "maxtext_checkpoint", "uri": f"{root}/convert/0/items"}},
        "train": {"checkpoint": {"kind": "maxtext_checkpoint", "uri": f"{root}/train/checkpoints"}},
        "evaluate": {"evaluation": {"kind": "evaluation", "uri": f"{root}/evaluate/evaluation.json"}},
        "export": {"model": {"kind": "hf_model", "uri": f"{root}/export/hf"}},
        "publish": {"release": {"kind": "release", "uri": f"{root}/publish"}},
    }
    return [
        StageRecord(
            name=name,
            status="succeeded",
            seconds=s,
            note="reused: same weights, same converter" if name == reused else "",
            artifacts=artifacts,
        )
        for (name, artifacts), s in zip(made.items(), seconds, strict=True)
        if s
    ]


def _lineage(root: str, base: str, revision: str, step: int) -> list[dict[str, Any]]:
    source, data = f"{root}/download/model", f"{root}/download/data"
    converted, trained = f"{root}/convert/0/items", f"{root}/train/checkpoints/actor/{step}"
    common = {"base_model_id": base, "base_model_revision": revision}
    return [
        {"kind": "hf_model", "uri": source, "parents": [f"{base}@{revision}"], "format": "safetensors", **common},
        {"kind": "dataset", "uri": data, "parents": [], "format": "parquet"},
        {"kind": "maxtext_checkpoint", "uri": converted, "parents": [source], "format": "orbax", **common},
        {
            "kind": "maxtext_checkpoint",
            "uri": trained,
            "parents": [converted, data],
            "format": "orbax",
            "step": step,
            **common,
        },
        {"kind": "evaluation", "uri": f"{root}/evaluate/evaluation.json", "parents": [converted, trained, data]},
        {
            "kind": "hf_model",
            "uri": f"{root}/export/hf",
            "parents": [trained],
            "format": "safetensors",
            "step": step,
            **common,
        },
    ]


def _config(preset: str, source: str, name: str, dataset: str, steps: int) -> str:
    return f"""preset: {preset}
description: GRPO on grade-school maths
engine: process
seed: 0
model:
  name: {name}
  source: {source}
  revision: null
  dtype: float32
data:
  name: {dataset}
  split: train
train:
  steps: {steps}
  batch_size: 16
  num_generations: 8
  learning_rate: 3.0e-06
  kl_beta: 0.0
  temperature: 1.0
  rewards:
    exact_answer: 1.0
    has_format: 0.1
evaluate:
  questions: 256
  samples: 8
"""


def _coin_flip_text(i: int, before: float, after: float, *, better: bool) -> Flip:
    name, thing = _NAMES[i % len(_NAMES)], _THINGS[i % len(_THINGS)]
    verb, sign = _TINY_VERBS[i % len(_TINY_VERBS)]
    a, b = 11 + i * 7 % 79, 2 + i % 8
    right, wrong = ("+", "-") if sign > 0 else ("-", "+")

    def text(operation: str) -> str:
        value = a + b if operation == "+" else a - b
        return f"<reasoning>{a}{operation}{b}={value}</reasoning><answer>{value}</answer>"

    texts = (text(wrong), text(right)) if better else (text(right), text(wrong))
    return Flip(
        id=f"eval-{i:04d}",
        question=f"{name} has {a} {thing} and {verb} {b}. How many {thing} now?",
        answer=str(a + sign * b),
        before=texts[0],
        after=texts[1],
        accuracy_before=before,
        accuracy_after=after,
    )


def _word_problem_flip(i: int, before: float, after: float, *, better: bool) -> Flip:
    name, friend = _NAMES[i % len(_NAMES)], _NAMES[(i + 3) % len(_NAMES)]
    boxes, each, price, sold = 3 + i % 9, 6 + i % 13, 2 + i % 5, 5 + i % 11
    total = boxes * each
    right = (total - sold) * price
    slip = total * price - sold
    good = (
        f"<reasoning>\nFirst I count the muffins: {boxes} boxes of {each} make {boxes} * {each} = {total}.\n"
        f"{friend} takes {sold} of them, so {total} - {sold} = {total - sold} are left to sell.\n"
        f"Each one is sold for ${price}, so the takings are {total - sold} * {price} = {right} dollars.\n"
        f"</reasoning>\n<answer>{right}</answer>"
    )
    bad = (
        f"<reasoning>\n{name} has {boxes} * {each} = {total} muffins. At ${price} each this makes "
        f"{total} * {price} = {total * price} dollars.\n"
        f"Then the {sold} that {friend} takes have to be taken away: {total * price} - {sold} = {slip}.\n"
        f"</reasoning>\n<answer>{slip}</answer>"
    )
    return Flip(
        id=f"gsm8k-test-{i:04d}",
        question=(
            f"{name} bakes muffins for the school fair and packs them in {boxes} boxes with {each} muffins each. "
            f"{friend} takes {sold} muffins home before the fair opens. {name} sells the others for ${price} each. "
            f"How many dollars does {name} take in?"
        ),
        answer=str(right),
        before=bad if better else good,
        after=good if better else bad,
        accuracy_before=before,
        accuracy_after=after,
    )
