"""Export: the fine-tuned checkpoint as a Hugging Face directory that loads, with proof that it holds the trained weights.

In: the checkpoint, the source model (tokenizer, and what was not trained), the instructions. Out: `export/model` with its
manifest, and `parity.json`: the directory was read back and compared with the checkpoint. Any difference raises, and no
manifest is written.
"""

from __future__ import annotations

import json
from typing import Any

from components import ray_args, record, storage
from components.errors import WorkloadError
from components.manifest import write_manifest
from components.progress import say
from components.ray_plan import FinetunePlan
from components.record import ArtifactRecord
from components.results import Parity
from components.stage import StageResult
from components.workloads import engine
from components.workloads.workload import Cpu, Input, Output, Workload

_PROGRAM = "components.ray_runtime.merge"
_WEIGHTS = "model.pt"  # of the checkpoint; the rest of it is the optimizer's
_METHOD = "the directory read back with transformers, against the checkpoint's weights in the source model"


def export(plan: FinetunePlan, tuned: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord) -> StageResult:
    """Returns the record `exported` and the parity as scalars."""
    record.expect(tuned, "ray-checkpoint")
    record.expect(model, "hf-model")
    here = plan.stage_dir("export")
    directory = storage.join(here, "model")
    storage.delete_file(storage.join(directory, "manifest.json"))  # of an earlier attempt
    say("export", "writing the Hugging Face directory, then reading it back")
    engine.run(plan, workload(plan, tuned, model, dataset))
    measured = json.loads(storage.read_text(storage.join(here, "measured", "export.json")))
    parity = _parity(measured)
    storage.write_text(storage.join(here, "parity.json"), parity.model_dump_json(indent=1))
    if not parity.passed:
        raise WorkloadError(
            "export",
            f"The exported model is not the trained one: weights differ by {parity.max_abs_parameter_diff:.3g}, logits by "
            f"{parity.max_abs_diff:.3g} of {parity.range:.3g}; transformers writes this architecture otherwise than it reads it.",
        )
    storage.write_text(storage.join(directory, "README.md"), _card(plan, tuned, measured))
    exported = plan.record(
        tuned,
        kind="hf-model",
        format="safetensors",
        step=tuned.step,
        parent_uris=[tuned.data_uri, model.data_uri],
        data_uri=directory,
        extra={"tensors_trained": measured["tensors"]},
    )
    record.write(exported, directory)
    write_manifest(directory)
    return StageResult(
        records={"exported": exported},
        metrics={
            "parity_max_abs_diff": parity.max_abs_diff,
            "examples_loss_source": measured["loss_source"],
            "examples_loss_exported": measured["loss_exported"],
        },
        note=f"{measured['tensors']} trained tensors, read back exactly; loss on examples {measured['loss_source']:.3f} -> "
        f"{measured['loss_exported']:.3f}",
    )


def workload(plan: FinetunePlan, tuned: ArtifactRecord, model: ArtifactRecord, dataset: ArtifactRecord) -> Workload:
    """Merging, writing and reading back; one machine without chips does it."""
    config = plan.config
    here = plan.stage_dir("export")
    return Workload(
        stage="export",
        run_id=plan.run_id,
        command=(
            *("python", "-m", _PROGRAM),
            *("--model=@model@", "--checkpoint=@checkpoint@", "--data=@data@"),
            *("--output=@exported@", "--report=@measured@/export.json"),
            f"--template={ray_args.quoted(config.data.text)}",
            f"--dtype={config.model.dtype}",
            f"--max-tokens={config.finetune.max_tokens}",
        ),
        inputs=(
            Input(name="model", uri=model.data_uri),
            Input(name="checkpoint", uri=tuned.data_uri, only=(_WEIGHTS,)),
            Input(name="data", uri=dataset.data_uri),
        ),
        outputs=(
            Output(name="exported", uri=storage.join(here, "model")),
            Output(name="measured", uri=storage.join(here, "measured")),
        ),
        needs=Cpu(cores=config.cluster.cpu_cores, memory_gb=config.export.memory_gb, disk_gb=config.export.disk_gb),
        image="ray-torchtpu",
        deadline_s=config.export.deadline_s,
    )


def _parity(measured: dict[str, Any]) -> Parity:
    """The same program reads both, so that nothing but equality will do."""
    return Parity(
        method=_METHOD,
        max_abs_diff=measured["max_abs_diff"],
        max_abs_diff_hf=measured["max_abs_diff"],
        max_abs_parameter_diff=measured["max_abs_parameter_diff"],
        range=measured["range"],
        argmax_agreement=measured["argmax_agreement"],
        tolerance=0.0,
        passed=measured["finite"] and measured["max_abs_parameter_diff"] == 0 == measured["max_abs_diff"],
    )


def _card(plan: FinetunePlan, tuned: ArtifactRecord, measured: dict[str, Any]) -> str:
    """The model card."""
    config = plan.config
    hub_id = config.model.source.removeprefix("hf://")
    base = f"base_model: {hub_id}\n" if hub_id != config.model.source else ""  # the hub knows no other
    return f"""---
{base}library_name: transformers
tags: [ray, fsdp2, posttrain]
---
# {config.preset}

{tuned.base_model_id} at `{tuned.base_model_revision}`, fine-tuned for {config.finetune.epochs} epochs on {config.data.source}
by the run `{plan.run_id}`. The loss on a few of its training examples went from {measured["loss_source"]:.3f} to
{measured["loss_exported"]:.3f}; nothing else was measured. provenance.json says what it was made from.
"""
