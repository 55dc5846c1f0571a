"""What a run would do, as text: configuration, stages, command lines, work. Starts nothing and spends nothing."""

from __future__ import annotations

from components import maxtext_args
from components.config import Config

_WIDTH = 118
_EXPECTED = 0.5  # accuracy at which a difference is hardest to see


def preview(config: Config) -> str:
    """Returns the account that `posttrain plan` prints."""
    train, evaluate = config.train, config.evaluate
    completions = train.steps * train.batch_size * train.num_generations
    answers = 2 * evaluate.questions * (evaluate.samples + evaluate.greedy)
    places = {"run": "<run>", "store": "<store>"}
    stages = [
        ("prepare", "checks everything, pins the revision, computes identities"),
        ("download", f"{config.model.source}; questions from {config.data.train}"),
        ("convert", "to MaxText; skipped when the same weights are in the store"),
        (
            "train",
            f"{train.steps} GRPO steps of {train.batch_size} x {train.num_generations} completions ({completions:,} in all)",
        ),
        ("evaluate", f"{evaluate.questions} held-out questions, before and after ({answers:,} answers)"),
        ("export", "to Hugging Face format, with parity of logits"),
        ("report", "report.html and run.json"),
    ]
    lines = [f"{config.preset}: {config.description}", "", "Stages"]
    lines += [f"  {name:<10} {what}" for name, what in stages]
    lines += ["", *_power(config)]
    lines += ["", f"Engine: {config.engine} (this machine). Estimated cost: none beyond this machine's time."]
    lines += ["", "Command lines (places in angle brackets are filled in by the run)"]
    for title, module, arguments in _commands(config, places):
        lines += [f"  {title}: python -m {module}", *(_wrapped(arguments))]
    lines += [
        "",
        f"Configuration (sha256 {config.sha256()[:12]})",
        *("  " + line for line in config.to_yaml().splitlines()),
    ]
    return "\n".join(lines)


def _power(config: Config) -> list[str]:
    """What the evaluation will be able to show, before it is paid for."""
    from components.evaluate.statistics import detectable_difference, required_questions

    asked = config.evaluate
    seen = detectable_difference(asked.questions, _EXPECTED, asked.samples)
    half = required_questions(seen / 2, _EXPECTED, asked.samples)
    return [
        f"Power: {asked.questions} questions x {asked.samples} samples show a true difference of {100 * seen:.1f} points in "
        "4 of 5 evaluations",
        f"       (accuracy around {100 * _EXPECTED:.0f} %, questions independent); half of that takes {half:,} questions",
    ]


def _commands(config: Config, places: dict[str, str]) -> list[tuple[str, str, list[str]]]:
    run, base = places["run"], f"{places['store']}/converted/<id>"
    trained = f"{run}/train/grpo/checkpoints/actor/{config.train.steps}/model_params"
    return [
        ("convert", maxtext_args.TO_MAXTEXT, maxtext_args.to_maxtext(config, hf_model="@model@", output=base)),
        (
            "train",
            maxtext_args.TRAIN_RL,
            maxtext_args.train_rl(config, run_name="grpo", output=f"{run}/train", parameters=f"{base}/0/items"),
        ),
        (
            "export",
            maxtext_args.TO_HUGGINGFACE,
            maxtext_args.to_huggingface(config, parameters=trained, hf_model="@model@", output="@exported@"),
        ),
    ]


def _wrapped(arguments: list[str]) -> list[str]:
    lines, current = [], "   "
    for argument in arguments:
        if len(current) + len(argument) > _WIDTH and current.strip():
            lines.append(current)
            current = "   "
        current += f" {argument}"
    return [*lines, current]
