"""Convert: Hugging Face weights to a MaxText checkpoint (Orbax), once per identity.

In: the model directory. Out: a checkpoint at `<store>/converted/<identity>/0/items` with its manifest. A complete one
is used as it is; one with a missing or damaged file is converted anew. The conversion writes beside its final place and
moves there last, or in Cloud Storage writes the manifest last, so a killed one leaves nothing that looks complete.
"""

from __future__ import annotations

import importlib.metadata

from components import manifest, maxtext_args, record, storage
from components.errors import UserError
from components.plan import Plan
from components.progress import say
from components.record import ArtifactRecord
from components.stage import StageResult
from components.workloads import engine, machines
from components.workloads.workload import Input, Workload


def convert(plan: Plan, model: ArtifactRecord) -> StageResult:
    """Returns the record `checkpoint`: the base weights in MaxText's format."""
    record.expect(model, "hf-model")
    problem = _damage(plan.converted_dir)
    if problem is None:
        return StageResult(records={"checkpoint": record.read(plan.converted_dir)}, note="already converted")
    say("convert", f"converting {plan.config.model.name}" + (f" ({problem})" if problem else ""))
    if problem:
        storage.delete_tree(plan.converted_dir)
    try:
        return StageResult(records={"checkpoint": _convert(plan, model)}, note="converted")
    except UserError:
        # another run of the same identity was faster, and its conversion is as good as ours
        if _damage(plan.converted_dir) is None:
            return StageResult(records={"checkpoint": record.read(plan.converted_dir)}, note="converted by another run")
        raise


def workload(plan: Plan, model: ArtifactRecord, output: str) -> Workload:
    """The conversion of `model` to a checkpoint below `output`."""
    arguments = maxtext_args.to_maxtext(plan.config, hf_model="@model@", output=output)
    return Workload(
        stage="convert",
        run_id=plan.run_id,
        command=maxtext_args.command(maxtext_args.TO_MAXTEXT, arguments),
        inputs=(Input(name="model", uri=model.data_uri),),
        needs=machines.converter(plan.config, plan.config.convert),
        image="converter",
        deadline_s=plan.config.convert.deadline_s,
    )


def _convert(plan: Plan, model: ArtifactRecord) -> ArtifactRecord:
    made = _record(plan, model)
    with manifest.published(plan.converted_dir) as output:
        engine.run(plan, workload(plan, model, output))
        record.write(made, output)
    return made


def _damage(directory: str) -> str | None:
    """None when the converted weights are there and whole; an empty string when absent; else what is wrong with them."""
    try:
        manifest.check(directory)
    except manifest.IncompleteError as error:
        return "" if error.problem == "missing" and not storage.exists(directory) else str(error)
    return None


def _record(plan: Plan, model: ArtifactRecord) -> ArtifactRecord:
    return plan.record(
        model,
        kind="maxtext-checkpoint",
        format="orbax",
        step=0,
        parent_uris=[model.data_uri],
        data_uri=plan.converted_dir,
        extra={"items": "0/items", "identity": plan.converted_id, "maxtext": importlib.metadata.version("maxtext")},
    )
