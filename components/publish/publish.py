"""Publish: a model with the verdict PROMOTE goes to the Hugging Face hub and Vertex AI's Model Registry, where the
preset names them, and then becomes the champion. Any other model is left where it is, which is a success too.

In: the trained checkpoint, the exported model with its manifest, the evaluation, the questions. Out:
`publish/result/published.json`. The champion is written last, and names what else was published, so a stage that was
killed and starts again finishes what is missing and does nothing twice. Of two runs that are better than the same
champion one is published; the other fails with the reason before it has published anything. What a service refuses is a
UserError.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime

from components import champion, lock, manifest, record, storage
from components.champion import Architecture, Champion, Overtaken
from components.errors import WorkloadError
from components.plan import Plan
from components.progress import say
from components.publish import hub, vertex_registry
from components.record import ArtifactRecord
from components.results import Evaluation, Published, Verdict
from components.stage import StageResult

RESULT, PUBLISHED = "result", "published.json"
_say = functools.partial(say, "publish")


def publish(
    plan: Plan,
    trained: ArtifactRecord,
    exported: ArtifactRecord,
    evaluation: ArtifactRecord,
    dataset: ArtifactRecord,
) -> StageResult:
    """Returns the record `published`."""
    record.expect(trained, "rl-checkpoint")
    record.expect(exported, "hf-model")
    found = Evaluation.model_validate_json(storage.read_text(storage.join(evaluation.data_uri, "evaluation.json")))
    slot = plan.config.publish.slot
    done = Published(verdict=found.verdict, promoted=False, slot=slot)
    if found.verdict is Verdict.PROMOTE and slot:
        # held by one run at a time, so that one that is overtaken has pushed nothing
        with lock.held(storage.join(plan.store, "champions", slot), _say):
            done = _promote(plan, slot, trained, exported, dataset, found)
    elif found.verdict is Verdict.PROMOTE:
        hub_page, version = _pushed(plan, exported, found)
        done = done.model_copy(update={"hub": hub_page, "vertex": version})
    made = _write(plan, exported, evaluation, done)
    return StageResult(records={"published": made}, metrics={"promoted": float(done.promoted)}, note=_note(done, found))


def _promote(
    plan: Plan, slot: str, trained: ArtifactRecord, exported: ArtifactRecord, dataset: ArtifactRecord, found: Evaluation
) -> Published:
    current, version = champion.read(plan.store, slot)
    if current is None or current.run_id != plan.run_id:
        if version != plan.champion_version:
            raise _overtaken(plan)
        current = _champion(plan, trained, exported, dataset, found)
        try:
            champion.replace(plan.store, slot, current, version)
        except Overtaken as error:
            raise _overtaken(plan) from error
    return Published(
        verdict=found.verdict,
        promoted=True,
        slot=slot,
        replaced=plan.champion.run_id if plan.champion else None,
        hub=current.hub,
        vertex=current.vertex,
    )


def _champion(
    plan: Plan, trained: ArtifactRecord, exported: ArtifactRecord, dataset: ArtifactRecord, found: Evaluation
) -> Champion:
    """Publishes the model where the preset says, and returns it as a champion."""
    page, version = _pushed(plan, exported, found)
    before = plan.beginning.trained_on if plan.beginning else []
    return Champion(
        run_id=plan.run_id,
        checkpoint=trained,
        exported=exported.data_uri,
        hub=page,
        vertex=version,
        trained_on=list(dict.fromkeys([*before, dataset.data_uri])),
        architecture=Architecture.of(plan.config),
        accuracy=found.after.accuracy,
        accuracy_ci_low=found.after.accuracy_ci_low,
        accuracy_ci_high=found.after.accuracy_ci_high,
        n_questions=found.n_questions,
        promoted_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _pushed(plan: Plan, exported: ArtifactRecord, found: Evaluation) -> tuple[str | None, str | None]:
    """Publishes the model where the preset says; returns its page on the hub and its version in the Model Registry."""
    try:
        manifest.check(exported.data_uri)
    except manifest.IncompleteError as error:
        raise WorkloadError("publish", f"The exported model is damaged: {error}. Export it again.") from error
    to = plan.config.publish
    return (
        hub.push(to.hub, exported.data_uri, _title(plan, found), private=to.private, say=_say) if to.hub else None,
        vertex_registry.register(plan, exported.data_uri, found, _say) if to.vertex.model else None,
    )


def _overtaken(plan: Plan) -> WorkloadError:
    return WorkloadError(
        "publish",
        f"The champion of '{plan.config.publish.slot}' has changed since this run began, and this model was not compared "
        "with the new one: it is not published. Start a new run, which compares with it.",
    )


def _title(plan: Plan, found: Evaluation) -> str:
    return (
        f"{plan.run_id}: {found.verdict}, {found.before.accuracy:.1%} to {found.after.accuracy:.1%} right on "
        f"{found.n_questions} questions"
    )


def _note(done: Published, found: Evaluation) -> str:
    if found.verdict is not Verdict.PROMOTE:
        return f"not published: {done.verdict}. {found.reasons[0]}"
    champion_of = [f"champion of '{done.slot}'" + (f" in place of run {done.replaced}" if done.replaced else "")]
    places = [f"published as {place}" for place in (done.hub, done.vertex) if place]
    return ", ".join([*(champion_of if done.promoted else []), *places]) or "the preset names no place to publish to"


def _write(plan: Plan, exported: ArtifactRecord, evaluation: ArtifactRecord, done: Published) -> ArtifactRecord:
    directory = storage.join(plan.stage_dir("publish"), RESULT)
    storage.write_text(storage.join(directory, PUBLISHED), done.model_dump_json(indent=1))
    made = plan.record(
        exported,
        kind="publication",
        format="json",
        step=exported.step,
        parent_uris=[exported.data_uri, evaluation.data_uri],
        data_uri=directory,
        extra={
            "verdict": str(done.verdict),
            "slot": done.slot or "",
            "promoted": int(done.promoted),
            "hub": done.hub or "",
            "vertex": done.vertex or "",
        },
    )
    record.write(made, directory)
    manifest.write_manifest(directory)
    return made
