"""The JobSets of the tutorials, as example manifests in the shared folder, and ours for the same work, made by the stages
from the presets as they are.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import kubernetes_schemas
import yaml

from components import config
from components.convert import convert
from components.evaluate import evaluate
from components.export import export
from components.plan import Plan
from components.record import ArtifactRecord
from components.train import train
from components.workloads import jobset, names
from components.workloads.workload import Order, Workload

GEMMA, QWEN = "gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"
STAGES = ("convert", "train", "evaluate", "export")

# each tutorial's manifest of a stage of a preset
MANIFESTS = {
    ("convert", GEMMA): "000-gemma4-hf-to-mt.v6e-32.yaml",
    ("train", GEMMA): "000-gemma4-training.v6e-32.yaml",
    ("export", GEMMA): "000-gemma4-mt-to-hf.v6e-32.yaml",
    ("convert", QWEN): "001-qwen-hf-to-mt.v6e-64.yaml",
    ("train", QWEN): "001-qwen-training.v6e-64.yaml",
    ("export", QWEN): "001-qwen-mt-to-hf.v6e-64.yaml",
}
# the tutorials' clusters have a queue, and their conversions run on the slice
LIKE_THE_TUTORIALS = ("cluster.queue=user-queue", "convert.on=slice")
RUN = "gs://my-bucket/runs/r"


def theirs(stage: str, preset: str) -> dict[str, Any]:
    """A tutorial's manifest."""
    path = kubernetes_schemas.shared_file("manifests", MANIFESTS[stage, preset])
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def ours(stage: str, preset: str, *overrides: str) -> dict[str, Any]:
    """Our manifest of a stage."""
    plan = _plan(preset, *overrides)
    work = workload(stage, preset, *overrides)
    name = names.object_name(plan.run_id, stage, plan.attempt)
    order = Order(workload=work, name=name, directory=f"{RUN}/{stage}/attempt-1", silence_s=900)
    return jobset.manifest(order, plan.config.cluster, plan.config.tpu)


def workload(stage: str, preset: str, *overrides: str) -> Workload:
    """What a stage wants run."""
    plan = _plan(preset, *overrides)
    model = _record("hf-model", "gs://my-bucket/store/models/m")
    dataset = _record("dataset", f"{RUN}/download/data")
    checkpoint = _record("maxtext-checkpoint", plan.converted_dir, items="0/items")
    trained = _record("rl-checkpoint", f"{RUN}/train/grpo/checkpoints/actor/50", items="model_params")
    match stage:
        case "convert":
            return convert.workload(plan, model, plan.converted_dir)
        case "train":
            return train.workload(plan, checkpoint, model, dataset)
        case "evaluate":
            return evaluate.workload(plan, checkpoint, trained, model, dataset)
        case _:
            return export.workload(plan, trained, model)


def _plan(preset: str, *overrides: str) -> Plan:
    loaded = config.load(preset, overrides)
    return Plan(
        run_id=f"{preset}-20260105-101112-ab12",
        run_dir=RUN,
        store="gs://my-bucket/store",
        config=loaded,
        config_sha256=loaded.sha256(),
        code_version="0" * 40,
        model_revision="1" * 40,
        converted_id="2" * 64,
        started="2026-01-05T10:11:12+00:00",
        attempt_started="2026-01-05T10:11:12+00:00",
    )


def _record(kind: Any, uri: str, **extra: str) -> ArtifactRecord:
    return ArtifactRecord(kind=kind, format="any", data_uri=uri, extra=dict(extra))


# -- comparison -------------------------------------------------------------------------------------------------------


def differences(mine: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Paths of the fields that differ, or that only one of the two manifests has."""
    left, right = dict(_fields(mine)), dict(_fields(other))
    return sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))


def without_reason(found: Iterable[str], reasons: Iterable[str]) -> list[str]:
    """The differences that no reason is for. A reason is for a path, in which `*` stands for any text."""
    patterns = [re.compile(re.escape(reason).replace(r"\*", ".*")) for reason in reasons]
    return [path for path in found if not any(pattern.fullmatch(path) for pattern in patterns)]


def without_difference(found: Iterable[str], reasons: Iterable[str]) -> list[str]:
    """The reasons that are for no difference."""
    paths = list(found)
    return [reason for reason in reasons if without_reason(paths, [reason]) == paths]


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a manifest. Items of lists are told by their name or port, options of a command line by theirs."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _fields(item, f"{path}/{key}".lstrip("/"))
    elif isinstance(value, list) and all(str(item).startswith("--") for item in value):
        for item in value:
            option, _, setting = item.partition("=")
            yield f"{path}/{option}", setting
    elif isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from _fields(item, f"{path}/{item.get('name', item.get('containerPort', index))}")
    else:
        yield path, value


# -- the arguments of MaxText -----------------------------------------------------------------------------------------


def script(stage: str, preset: str) -> str:
    """The shell script that the tutorial's container runs."""
    (found,) = [
        container["command"][2]
        for job in theirs(stage, preset)["spec"]["replicatedJobs"]
        for container in job["template"]["spec"]["template"]["spec"]["containers"]
        if "command" in container
    ]
    return str(found)


def their_arguments(stage: str, preset: str) -> dict[str, Any]:
    """What the tutorial's script gives MaxText."""
    text = script(stage, preset).replace("\\\n", " ")
    return arguments(shlex.split(text[text.index("exec python3 -m maxtext") :])[4:])


def arguments(words: Iterable[str]) -> dict[str, Any]:
    """Arguments `key=value`, `--key=value` and `--key`, with values as MaxText reads them: numbers, booleans, mappings."""
    split = (word.partition("=") for word in words)
    return {key: _value(value) for key, _, value in split}


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return text
