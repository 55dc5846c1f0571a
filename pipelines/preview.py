"""What a run would do, as text: configuration, stages, command lines, work. Starts nothing and spends nothing."""

from __future__ import annotations

import yaml

from components import cost, maxtext_args, rl_slice, tpu
from components.config import AnyConfig, ClusterConfig, Config, TpuConfig
from pipelines import sketch

_WIDTH = 118
_EXPECTED = 0.5  # accuracy at which a difference is hardest to see


def preview(config: AnyConfig) -> str:
    """Returns the account that `posttrain plan` prints."""
    from pipelines import ray_preview  # it needs what is below

    stages, place, commands = _of_grpo(config) if isinstance(config, Config) else ray_preview.account(config)
    lines = [f"{config.preset}: {config.description}", "", "Stages"]
    lines += [f"  {name:<11} {what}" for name, what in stages]
    lines += ["", *place, "", "Command lines (`@name@` and places in angle brackets are filled in by the run)"]
    for title, program, arguments in commands:
        lines += [f"  {title}: python -m {program}", *(_wrapped(arguments))]
    lines += [
        "",
        f"Configuration (sha256 {config.sha256()[:12]})",
        *("  " + line for line in config.to_yaml().splitlines()),
    ]
    return "\n".join(lines)


type _Stages = list[tuple[str, str]]
type _Commands = list[tuple[str, str, list[str]]]


def _of_grpo(config: Config) -> tuple[_Stages, list[str], _Commands]:
    """Stages, where they run at what cost, and command lines."""
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
    where = _cluster(config) if config.engine != "process" else [HERE]
    return stages, [*_power(config), "", *where], _commands(config, places)


def manifests(config: AnyConfig, store: str) -> str:
    """Returns the Kubernetes objects of a run as YAML; names and places hold a run `plan`."""
    return yaml.safe_dump_all(sketch.objects(config, store), sort_keys=False, width=1_000)


HERE = "Where: this machine. Estimated cost: none beyond this machine's time."


def where(place: ClusterConfig) -> str:
    """Which cluster, and what in it."""
    named = place.gke or (f"context {place.context}" if place.context else "the cluster of the kubeconfig, or around")
    queue = f", Kueue queue {place.queue}" if place.queue else ""
    return f"Where: {named}, namespace {place.namespace}{queue}"


def _cluster(config: Config) -> list[str]:
    """Where the stages run in the cluster, who gets which devices, and what that costs."""
    place = config.cluster
    lines = [where(place)]
    converter = f"a CPU machine of {place.cpu_cores:g} cores, {config.convert.memory_gb:g} GB to convert"
    lines.append(f"  convert, export   {converter}, {config.export.memory_gb:g} GB to export")
    if config.tpu is None:
        lines.append(f"  train, evaluate   a CPU machine of {place.cpu_cores:g} cores, {place.cpu_memory_gb:g} GB")
        return [*lines, "Estimated cost: that of these machines."]
    slice_ = tpu.parse(config.tpu.slice)
    how = "Pathways: one head drives all hosts" if config.tpu.pathways else "every host runs the command"
    lines.append(
        f"  train, evaluate   {config.tpu.slices} x {slice_.name} ({slice_.topology}: {slice_.chips} chips on {slice_.hosts} "
        f"hosts), {config.tpu.capacity}; {how}"
    )
    split = rl_slice.devices(maxtext_args.settings(config), slice_, config.tpu.slices)
    lines += [f"    {line}" for line in split.lines()]
    return [*lines, "", *_cost(config)]


def _cost(config: Config) -> list[str]:
    assert config.tpu
    return estimate(
        config.tpu,
        [
            cost.Stage("train", config.train.steps, "step", config.tpu.seconds_per_step, "tpu.seconds_per_step"),
            cost.Stage(
                "evaluate",
                config.evaluate.questions,
                "question",
                config.tpu.seconds_per_question,
                "tpu.seconds_per_question",
            ),
        ],
    )


def estimate(slices: TpuConfig, stages: list[cost.Stage]) -> list[str]:
    """What the chips cost while these stages hold them, as lines."""
    asked = cost.estimate(tpu.parse(slices.slice), slices.slices, slices.capacity, stages, slices.usd_per_chip_hour)
    first, *rest = asked.lines()
    return [first[0].upper() + first[1:], *rest]


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
