"""What a run of a Ray pipeline would do, for preview.py: its stages, where they run at what cost, its command lines."""

from __future__ import annotations

from components import cost, ray_args
from components.config import AnyConfig
from components.ray_config import RayConfig, RayFinetuneConfig, RayPretrainConfig
from pipelines import preview, sketch

_REPORT = ("report", "report.html and run.json")
_PREPARE = ("prepare", "checks everything, pins the revision")


def account(config: AnyConfig) -> tuple[list[tuple[str, str]], list[str], list[tuple[str, str, list[str]]]]:
    """Returns stages, where they run, and command lines."""
    assert isinstance(config, RayFinetuneConfig | RayPretrainConfig)
    commands = []
    for work in sketch.workloads(config, "<store>"):
        _, _, program, *arguments = work.command
        commands.append((work.stage, program, [argument.replace("\n", "\\n") for argument in arguments]))
    return _stages(config), _where(config), commands


def _stages(config: RayFinetuneConfig | RayPretrainConfig) -> list[tuple[str, str]]:
    if isinstance(config, RayPretrainConfig):
        how, unit = config.pretrain, "slices" if config.tpu else "workers"
        elastic = f"; with {config.elastic.least} {unit} at least" if config.elastic else ""
        what = f"{how.steps} steps of {config.model.name} on {how.dataset} data"
        saved = f"a checkpoint every {how.checkpoint_period}"
        return [_PREPARE, ("pretrain", f"{what}, {saved}{elastic}"), _REPORT]
    tune = config.finetune
    rows = f"the first {config.data.rows} rows" if config.data.rows else "all rows"
    return [
        _PREPARE,
        ("download", f"{config.model.source}; {rows} of {config.data.source}"),
        ("collectives", "every device against a CPU: tensor parallelism and all-reduce"),
        ("finetune", f"{tune.epochs} epochs with FSDP2, {config.examples_per_step} examples a step"),
        ("export", "to Hugging Face format, read back and compared with the checkpoint"),
        _REPORT,
    ]


def _where(config: RayFinetuneConfig | RayPretrainConfig) -> list[str]:
    if config.engine == "process":
        return [preview.HERE]
    lines = [preview.where(config.cluster), f"  Ray cluster       {_pods(config)}"]
    if isinstance(config, RayFinetuneConfig):
        lines.append(
            f"  export            a CPU machine of {config.cluster.cpu_cores:g} cores, {config.export.memory_gb:g} GB"
        )
    if config.tpu is None:
        return [*lines, "Estimated cost: that of these machines."]
    return [*lines, "", *preview.estimate(config.tpu, [_work(config)])]


def _pods(config: RayConfig) -> str:
    slice_, pods = ray_args.slice_of(config), config.ray
    head = f"a head of {pods.head_cpu:g} cores, {pods.head_memory_gb:g} GB"
    if slice_ is None or config.tpu is None:
        return f"{head}; {pods.workers} workers of {pods.worker_cpu:g} cores, {pods.worker_memory_gb:g} GB"
    return (
        f"{head}; {config.tpu.slices} x {slice_.name} ({slice_.topology}: {slice_.chips} chips on {slice_.hosts} hosts), "
        f"{config.tpu.capacity}"
    )


def _work(config: RayFinetuneConfig | RayPretrainConfig) -> cost.Stage:
    measured = config.tpu.seconds_per_step if config.tpu else None
    if isinstance(config, RayPretrainConfig):
        return cost.Stage("pretrain", config.pretrain.steps, "step", measured, "tpu.seconds_per_step")
    per_epoch = (config.data.rows or 0) // config.examples_per_step
    return cost.Stage("finetune", config.finetune.epochs * per_epoch, "step", measured, "tpu.seconds_per_step")
