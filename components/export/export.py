"""Export: the trained checkpoint as a Hugging Face directory that loads, with proof that it holds the trained weights.

In: the trained checkpoint, the source model (sizes, tokenizer, tensors that MaxText does not carry), the evaluation
(for the model card). Out: `export/model` with its manifest, and `parity.json`. A shard that cannot be read, a value
that is not finite, or logits further apart than the tolerance raise, and no manifest is written.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from components import maxtext_args, record, storage
from components.errors import WorkloadError
from components.export.card import model_card
from components.export.finish import finish
from components.export.verify import ExportError, verify
from components.manifest import write_manifest
from components.plan import Plan
from components.progress import say
from components.record import ArtifactRecord
from components.results import Evaluation, Parity
from components.stage import StageResult
from components.workloads import environment, process
from components.workloads.workload import Workload

_EXPORT = "components.maxtext_runtime.export"


def export(plan: Plan, trained: ArtifactRecord, model: ArtifactRecord, evaluation: ArtifactRecord) -> StageResult:
    """Returns the record `exported` and the parity as scalars."""
    record.expect(trained, "rl-checkpoint")
    record.expect(model, "hf-model")
    here = Path(plan.stage_dir("export"))
    storage.delete_tree(str(here))
    here.mkdir(parents=True)
    directory = here / "model"
    parity = _convert(plan, trained, model, directory, here / "parity-measured.json")
    storage.write_text(str(here / "parity.json"), parity.model_dump_json(indent=1))
    if not parity.passed:
        raise WorkloadError(
            "export",
            f"The exported logits differ by {parity.max_abs_diff:.3g} on logits up to {parity.range:.3g}, more than "
            f"export.parity_tolerance={parity.tolerance}: the conversion mapping does not fit this model.",
        )
    config = plan.config
    added = finish(
        Path(model.data_uri),
        directory,
        config.export.dtype or config.model.dtype,
        complete=config.model.multimodal_complete,
    )
    try:
        contents = verify(Path(model.data_uri), directory, may_lack=False)
    except ExportError as error:
        raise WorkloadError("export", f"The exported model is not usable: {error}.") from error
    found = Evaluation.model_validate_json(storage.read_text(storage.join(evaluation.data_uri, "evaluation.json")))
    (directory / "README.md").write_text(model_card(plan, found))
    made = plan.record(
        trained,
        kind="hf-model",
        format="safetensors",
        step=trained.step,
        parent_uris=[trained.data_uri, model.data_uri],
        data_uri=str(directory),
        extra={"verdict": str(found.verdict), "tensors": contents.tensors, "tensors_from_source": added},
    )
    record.write(made, directory)
    write_manifest(directory)
    return StageResult(
        records={"exported": made},
        metrics={
            "parity_max_abs_diff": parity.max_abs_diff,
            "parity_argmax_agreement": parity.argmax_agreement,
            "parameters": float(contents.parameters),
        },
        note=f"{contents.tensors} tensors"
        + (f", {added} of them from the source" if added else "")
        + f"; logits differ from the trained model's by at most {parity.max_abs_diff:.1g} of {parity.range:.2g}",
    )


def _convert(plan: Plan, trained: ArtifactRecord, model: ArtifactRecord, directory: Path, measured: Path) -> Parity:
    config = plan.config
    arguments = maxtext_args.to_huggingface(
        config,
        parameters=storage.join(trained.data_uri, str(trained.extra["items"])),
        hf_model=model.data_uri,
        output=str(directory),
    )
    workload = Workload(
        stage="export",
        run_id=plan.run_id,
        command=(sys.executable, "-m", _EXPORT, "--parity", str(measured), *arguments),
        env=environment.cpu(plan),
        deadline_s=config.export.deadline_s,
    )
    say("export", "converting to Hugging Face format, then comparing logits")
    log = Path(plan.stage_dir("export")) / "log.txt"
    process.run(workload, log, lambda line: print(f"export | {line}", flush=True))
    figures = json.loads(measured.read_text())
    measured.unlink()
    if not all(math.isfinite(value) for value in figures.values() if isinstance(value, float)):
        raise WorkloadError(
            "export", "The trained model's logits are not finite: training diverged, or the source is broken."
        )
    tolerance = config.export.parity_tolerance
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
