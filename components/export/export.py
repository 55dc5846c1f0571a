"""Export: the trained checkpoint as a Hugging Face directory that loads, with proof that it holds the trained weights.

In: the trained checkpoint, the source model (sizes, tokenizer, tensors that MaxText does not carry), the evaluation
(for the model card). Out: `export/model` with its manifest, and `parity.json`. A shard that cannot be read, a value
that is not finite, or logits further apart than the tolerance raise, and no manifest is written.
"""

from __future__ import annotations

import json
import math
from typing import Any

from components import maxtext_args, record, storage
from components.errors import WorkloadError
from components.export.card import model_card
from components.manifest import write_manifest
from components.plan import Plan
from components.progress import say
from components.record import ArtifactRecord
from components.results import Evaluation, Parity
from components.stage import StageResult
from components.workloads import engine, machines
from components.workloads.workload import Input, Output, Workload

_PROGRAM = "components.export.program"


def export(plan: Plan, trained: ArtifactRecord, model: ArtifactRecord, evaluation: ArtifactRecord) -> StageResult:
    """Returns the record `exported` and the parity as scalars."""
    record.expect(trained, "rl-checkpoint")
    record.expect(model, "hf-model")
    here = plan.stage_dir("export")
    directory = storage.join(here, "model")
    storage.delete_file(storage.join(directory, "manifest.json"))  # of an earlier attempt
    say("export", "converting to Hugging Face format, then comparing logits")
    engine.run(plan, workload(plan, trained, model))
    measured = json.loads(storage.read_text(storage.join(here, "measured", "export.json")))
    parity = _parity(measured["parity"], plan.config.export.parity_tolerance)
    storage.write_text(storage.join(here, "parity.json"), parity.model_dump_json(indent=1))
    _refuse(parity, measured)
    found = Evaluation.model_validate_json(storage.read_text(storage.join(evaluation.data_uri, "evaluation.json")))
    storage.write_text(storage.join(directory, "README.md"), model_card(plan, found))
    contents, added = measured["contents"], measured["tensors_from_source"]
    made = plan.record(
        trained,
        kind="hf-model",
        format="safetensors",
        step=trained.step,
        parent_uris=[trained.data_uri, model.data_uri],
        data_uri=directory,
        extra={"verdict": str(found.verdict), "tensors": contents["tensors"], "tensors_from_source": added},
    )
    record.write(made, directory)
    write_manifest(directory)
    return StageResult(
        records={"exported": made},
        metrics={
            "parity_max_abs_diff": parity.max_abs_diff,
            "parity_argmax_agreement": parity.argmax_agreement,
            "parameters": float(contents["parameters"]),
        },
        note=f"{contents['tensors']} tensors"
        + (f", {added} of them from the source" if added else "")
        + f"; logits differ from the trained model's by at most {parity.max_abs_diff:.1g} of {parity.range:.2g}",
    )


def workload(plan: Plan, trained: ArtifactRecord, model: ArtifactRecord) -> Workload:
    """Conversion, completion and verification of the trained checkpoint."""
    config = plan.config
    here = plan.stage_dir("export")
    arguments = maxtext_args.to_huggingface(
        config, parameters=maxtext_args.items(trained), hf_model="@model@", output="@exported@"
    )
    options = ("--source", "@model@", "--report", "@measured@/export.json")
    dtype = ("--dtype", config.export.dtype or config.model.dtype)
    complete = ("--complete",) if config.model.multimodal_complete else ()
    return Workload(
        stage="export",
        run_id=plan.run_id,
        command=("python", "-m", _PROGRAM, *options, *dtype, *complete, *arguments),
        inputs=(Input(name="model", uri=model.data_uri),),
        outputs=(
            Output(name="exported", uri=storage.join(here, "model")),
            Output(name="measured", uri=storage.join(here, "measured")),
        ),
        needs=machines.converter(config, config.export),
        image="converter",
        deadline_s=config.export.deadline_s,
    )


def _parity(figures: dict[str, Any], tolerance: float) -> Parity:
    if not all(math.isfinite(value) for value in figures.values() if isinstance(value, float)):
        raise WorkloadError(
            "export", "The trained model's logits are not finite: training diverged, or the source is broken."
        )
    return Parity(
        method=figures["method"],
        max_abs_diff=figures["max_abs_diff_same_rounding"],
        max_abs_diff_hf=figures["max_abs_diff"],
        max_abs_parameter_diff=figures["max_abs_parameter_diff"],
        range=figures["range"],
        argmax_agreement=figures["argmax_agreement"],
        tolerance=tolerance,
        passed=figures["max_abs_diff_same_rounding"] <= tolerance * figures["range"],
    )


def _refuse(parity: Parity, measured: dict[str, Any]) -> None:
    if not parity.passed:
        raise WorkloadError(
            "export",
            f"The exported logits differ by {parity.max_abs_diff:.3g} on logits up to {parity.range:.3g}, more than "
            f"export.parity_tolerance={parity.tolerance}: the conversion mapping does not fit this model.",
        )
    if "problem" in measured:
        raise WorkloadError("export", f"The exported model is not usable: {measured['problem']}.")
