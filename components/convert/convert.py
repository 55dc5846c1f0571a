"""Convert: Hugging Face weights to a MaxText checkpoint (Orbax), once per identity.

In: the model directory. Out: a checkpoint at `<store>/converted/<identity>/0/items` with its manifest. A complete one
is used as it is; one with a missing or damaged file is converted anew. The conversion writes beside its final place and
moves there last, or in Cloud Storage writes the manifest last, so a killed one leaves nothing that looks complete.

With `model.start=champion` the checkpoint is the champion's and nothing is converted; where there is no champion yet, it
is the source's as ever.
"""

from __future__ import annotations

import functools
import importlib.metadata

from components import lock, manifest, maxtext_args, record, storage
from components.plan import Plan
from components.progress import say
from components.record import ArtifactRecord
from components.stage import StageResult
from components.workloads import engine, machines
from components.workloads.workload import Input, Output, Workload


def convert(plan: Plan, model: ArtifactRecord) -> StageResult:
    """Returns the record `checkpoint`: the weights that training begins from, in MaxText's format."""
    record.expect(model, "hf-model")
    if plan.beginning:
        begin = plan.beginning.checkpoint.model_copy(update={"kind": "maxtext-checkpoint"})
        return StageResult(
            records={"checkpoint": begin}, note=f"training begins from the champion, run {plan.beginning.run_id}"
        )
    wanted = plan.config.model.start == "champion"
    yet = (
        f"; nothing was promoted to '{plan.config.publish.slot}' yet, so training begins from the source"
        if wanted
        else ""
    )
    if there := _whole(plan.converted_dir):
        return StageResult(records={"checkpoint": there}, note=f"already converted{yet}")
    with lock.held(plan.converted_dir, functools.partial(say, "convert")):
        if there := _whole(plan.converted_dir):
            return StageResult(records={"checkpoint": there}, note=f"converted by another run{yet}")
        return StageResult(records={"checkpoint": _convert(plan, model)}, note=f"converted{yet}")


def workload(plan: Plan, model: ArtifactRecord, output: str) -> Workload:
    """The conversion of `model` to a checkpoint below `output`."""
    arguments = maxtext_args.to_maxtext(plan.config, hf_model="@model@", output="@checkpoint@")
    return Workload(
        stage="convert",
        run_id=plan.run_id,
        command=maxtext_args.command(maxtext_args.TO_MAXTEXT, arguments),
        inputs=(Input(name="model", uri=model.data_uri),),
        outputs=(Output(name="checkpoint", uri=output, how="direct"),),
        needs=machines.converter(plan.config, plan.config.convert),
        image="converter",
        deadline_s=plan.config.convert.deadline_s,
    )


def _convert(plan: Plan, model: ArtifactRecord) -> ArtifactRecord:
    say("convert", f"converting {plan.config.model.name}")
    if storage.is_local(plan.converted_dir):
        storage.delete_tree(plan.converted_dir)  # damaged, or it would have been used
    made = _record(plan, model)
    with manifest.published(plan.converted_dir) as output:
        engine.run(plan, workload(plan, model, output))
        record.write(made, output)
    return made


def _whole(directory: str) -> ArtifactRecord | None:
    """The record of converted weights that are there and whole; says so when they are there and damaged."""
    try:
        manifest.check(directory)
    except manifest.IncompleteError as error:
        if storage.exists(directory):
            say("convert", f"converting anew: {error}")
        return None
    return record.read(directory)


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
