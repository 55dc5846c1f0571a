"""The three facts below the headline (cost, model, origin) and the honest notes.

In: the run, its configuration as YAML, its lineage. Out: labels and texts. A configuration that cannot be read as
YAML, or that names no model, leaves its facts out.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import yaml

from components.report.formats import NBSP, count, decimal, duration, label, percent, quantity
from components.results import Measures, RunRecord, Verdict


@dataclass(frozen=True)
class Fact:
    """One line of a fact sheet. `code` sets it in the typewriter face; `full` is the text of a shortened value."""

    label: str
    value: str
    code: bool = False
    full: str = ""


@dataclass(frozen=True)
class ModelPlace:
    """Where the model is, what it is fit for in one sentence, and the commands that load it, in their order."""

    uri: str
    note: str
    load: list[str]


_MAIN_COST = {
    "chip_hours": lambda v: f"{decimal(v, 1)} chip hours",
    "estimated_usd": lambda v: f"${decimal(v, 2)} (estimated)",
    "usd": lambda v: f"${decimal(v, 2)}",
}
_COST_LABELS = {"chip_hours": "Accelerators", "estimated_usd": "Price", "usd": "Price"}


def cost(run: RunRecord) -> list[Fact]:
    """Returns time and money: what the run recorded of its cost, else the wall time on this machine."""
    again = f" (attempt {run.attempt}; earlier ones not counted)" if run.attempt > 1 else ""
    facts = [Fact("Time", duration(run.seconds) + again)]
    longest = max(run.stages, key=lambda s: s.seconds, default=None)
    if longest is not None and run.seconds > 0 and longest.seconds > 0:
        share = f" ({longest.seconds / run.seconds:.0%})".replace("%", NBSP + "%")
        facts.append(
            Fact(
                "Longest stage",
                f"{longest.name}, {duration(longest.seconds)}{share if longest.seconds <= run.seconds else ''}",
            )
        )
    for key, value in run.cost.items():
        facts.append(Fact(_COST_LABELS.get(key, label(key)), _cost_text(key, value)))
    if not run.cost:
        facts.append(
            Fact("Accelerators", "none; wall time on this machine" if run.engine == "process" else "cost not recorded")
        )
    return facts


def _cost_text(key: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if key in _MAIN_COST:
        return _MAIN_COST[key](value)
    if key.endswith("_usd"):
        return f"${decimal(value, 2)}"
    return duration(value) if key.endswith(("_seconds", "_s")) else quantity(value)


def model_place(run: RunRecord) -> ModelPlace | None:
    """Returns where the model is and how to load it, or None when the run made none."""
    uri = run.model_uri
    if not uri:
        return None
    kinds = " ".join(a.get("kind", "") for s in run.stages for a in s.artifacts.values() if a.get("uri") == uri).lower()
    if "maxtext" in kinds or "orbax" in kinds:
        return ModelPlace(uri, "A MaxText checkpoint.", [f"load_parameters_path={json.dumps(uri)}"])
    local = uri.removeprefix("file://")
    load = []
    if uri.startswith("gs://"):
        local = uri.rstrip("/").rsplit("/", 1)[-1]
        load.append(f"gcloud storage cp -r {shlex.quote(uri)} .")
    python = [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        f"path = {json.dumps(local, ensure_ascii=False)}",
        "model = AutoModelForCausalLM.from_pretrained(path)",
        "tokenizer = AutoTokenizer.from_pretrained(path)",
    ]
    verdict = run.evaluation.verdict if run.evaluation else None
    note = "Hugging Face format; loading it needs transformers with PyTorch, or serve it with vLLM."
    if verdict is not None and verdict is not Verdict.PROMOTE:
        note = f"Hugging Face format, for inspection only: a model with the verdict {verdict.value} is not published."
    return ModelPlace(uri, note, [*load, "\n".join(python)])


def shipped(run: RunRecord) -> list[Fact]:
    """Returns where the model was published and whether it was seen serving; empty where neither was asked for."""
    facts = []
    if (p := run.published) is not None:
        places = [place for place in (p.hub, p.vertex) if place]
        champion = f"champion of {p.slot}" + (f", in place of {p.replaced}" if p.replaced else "") if p.promoted else ""
        said = "; ".join([*([champion] if champion else []), *places])
        if said or p.verdict is not Verdict.PROMOTE:
            facts.append(Fact("Published", said or f"no: {p.verdict.value}"))
    if (s := run.serving) is not None:
        facts.append(Fact("Serving check", s.status if s.status == "passed" else f"{s.status}: {s.reason}"))
    if s and s.status == "passed" and s.accuracy is not None and s.max_logprob_diff is not None:
        facts += [
            Fact(
                "Served answers",
                f"{percent(s.accuracy)} of {count(s.n_questions, 'question')} right over HTTP, vLLM {s.vllm}",
            ),
            Fact(
                "Against transformers",
                f"{s.n_greedy_equal} of {s.n_prompts} answers equal, log probabilities within {s.max_logprob_diff:.0e}",
            ),
        ]
        if s.first_token_s is not None and s.tokens_per_s_at_once is not None:
            facts.append(
                Fact(
                    "Speed",
                    f"first token {s.first_token_s:.2f} s, {s.tokens_per_s_at_once:.0f} tokens/s on {s.machine}",
                )
            )
    return facts


def origin(run: RunRecord, config: Mapping[str, Any], lineage: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """Returns what made the model: preset, run, base model, code and configuration."""
    description = config.get("description")
    facts = [
        Fact("Preset", f"{run.preset}: {description}" if isinstance(description, str) and description else run.preset)
    ]
    facts.append(Fact("Run", run.run_id, code=True))
    base, revision = _base_model(config, lineage)
    if base:
        facts.append(Fact("Base model", base))
    elif architecture := _model(config).get("name"):  # of what began from random weights
        facts.append(Fact("Architecture", str(architecture)))
    if revision:
        facts.append(_short("Base revision", revision))
    facts += [_short("Code", run.code_version), _short("Config", run.config_sha256), Fact("Started", date(run.started))]
    facts.append(Fact("Ran", f"{run.where}, engine {run.engine}"))
    return facts


def _base_model(config: Mapping[str, Any], lineage: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    # the lineage knows the pinned revision, the configuration only what was asked for
    for entry in lineage:
        if entry.get("base_model_id"):
            return str(entry["base_model_id"]), str(entry.get("base_model_revision") or "")
    model = _model(config)
    return str(model.get("source") or ""), str(model.get("revision") or "")


def _model(config: Mapping[str, Any]) -> Mapping[str, Any]:
    model = config.get("model")
    return model if isinstance(model, Mapping) else {}


def _short(name: str, value: str) -> Fact:
    digest, dash, state = value.partition("-")  # a commit may end in -dirty, which must not be cut off
    head = f"{digest[:12]}{dash}{state}" if len(digest) > 16 and " " not in value else value
    return Fact(name, head, code=True, full=value if head != value else "")


def date(text: str) -> str:
    """An ISO time as `30 November 2026, 10:15 UTC`; any other text as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = "" if moment.tzinfo is None else " UTC"
    return (moment.astimezone(UTC) if zone else moment).strftime(f"%-d %B %Y, %H:%M{zone}")


def read_config(config_yaml: str) -> Mapping[str, Any]:
    """Returns the configuration as a tree; empty when the text is no YAML mapping (the page still shows the text)."""
    try:
        tree = yaml.safe_load(config_yaml)
    except yaml.YAMLError:
        return {}
    return tree if isinstance(tree, Mapping) else {}


def notes(run: RunRecord) -> list[str]:
    """Returns what a reader must know before quoting the figures, as sentences."""
    found: list[str] = []
    if run.training is not None:
        found.append(f"Rollouts in training came from the {_rollout_engine(run.training.rollout_engine)}.")
        if run.training.resumed_from is not None:
            found.append(
                f"Training was interrupted and went on from the checkpoint of step {run.training.resumed_from:,}."
            )
    if run.loss is not None and len({group.workers for group in run.loss.groups}) > 1:
        found.append(
            "The number of workers changed during training, and with it the number of examples in the batch of a step: "
            "losses before and after a change are not of the same examples, and can jump there."
        )
    if run.preset.startswith("tiny-"):
        found.append(
            "This is a tiny preset: a very small model that shows every stage at work. Its figures say nothing about "
            "the real model that it stands for."
        )
    if run.preset == "tiny-qwen3":
        found.append(
            "Its starting model was taught a wrong habit on purpose, so that training has something to put right: "
            "training selects the right operation here, it does not teach arithmetic."
        )
    if run.code_version.endswith("-dirty"):
        found.append("The code had changes that were not committed: the code version does not identify it fully.")
    if run.evaluation is not None:
        found.append(
            "The interval covers the choice of questions and of samples. It does not cover a repetition of the "
            "training with another seed."
        )
        found.extend(_verifier_note("before training", run.evaluation.before))
        found.extend(_verifier_note("after training", run.evaluation.after))
        if run.evaluation.champion is not None:
            found.extend(_verifier_note("of the champion", run.evaluation.champion))
        for when, m in (("before", run.evaluation.before), ("after", run.evaluation.after)):
            if m.truncation_rate > 0.05:
                found.append(
                    f"{percent(m.truncation_rate)} of the completions {when} training were cut off at the token limit; "
                    "a cut-off answer counts as wrong."
                )
    return found


def _rollout_engine(text: str) -> str:
    lowered = text.lower()
    if "in place of" in lowered or "jax" not in lowered:
        return text
    return "JAX sampler on CPU in place of vLLM on TPU"


def _verifier_note(which: str, m: Measures) -> list[str]:
    parts = [(m.verifier_timeouts, "time-out"), (m.verifier_errors, "error")]
    failures = " and ".join(count(n, noun) for n, noun in parts if n)
    if m.unscorable:
        failures += (" and " if failures else "") + f"{count(m.unscorable, 'completion')} that cannot be scored"
    return [f"The verifier had {failures} on the completions {which}."] if failures else []
