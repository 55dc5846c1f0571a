"""Who is the champion, how another takes its place, and what the stages do with it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from evaluation_tables import drawn, questions
from promotion_examples import artifacts, evaluation, finish, plan

from components import champion, config, storage
from components.champion import Architecture, Champion, Overtaken
from components.convert.convert import convert
from components.errors import UserError
from components.evaluate import evaluate
from components.export.card import model_card
from components.maxtext_runtime.generate_spec import Spec
from components.plan import Plan
from components.record import ArtifactRecord
from components.results import Verdict
from components.sources.dataset import fetch_dataset

SLOT = "tiny-qwen3"
MODEL = ArtifactRecord(kind="hf-model", format="safetensors", data_uri="model")


def someone(run_id: str) -> Champion:
    return Champion(
        run_id=run_id,
        checkpoint=ArtifactRecord(kind="rl-checkpoint", format="orbax", data_uri=f"runs/{run_id}", code_version="1"),
        exported=f"runs/{run_id}/export",
        trained_on=[],
        architecture=Architecture.of(config.load(SLOT)),
        accuracy=0.9,
        accuracy_ci_low=0.85,
        accuracy_ci_high=0.95,
        n_questions=256,
        promoted_at="2026-11-30T10:00:00+00:00",
    )


# -- the pointer -------------------------------------------------------------------------------------------------------


def test_there_is_none_until_one_is_promoted(place):
    assert champion.read(place, SLOT) == (None, champion.NONE)
    champion.replace(place, SLOT, someone("first"), champion.NONE)
    found, version = champion.read(place, SLOT)
    assert found == someone("first")
    champion.replace(place, SLOT, someone("second"), version)
    assert champion.read(place, SLOT)[0] == someone("second")


def test_slots_know_nothing_of_each_other(place):
    champion.replace(place, SLOT, someone("first"), champion.NONE)
    assert champion.read(place, "other") == (None, champion.NONE)


@pytest.mark.parametrize("seen", ["none", "an earlier one", "one that was removed"])
def test_one_that_was_promoted_since_is_not_replaced(place, seen):
    version = champion.NONE
    if seen != "none":
        champion.replace(place, SLOT, someone("earlier"), version)
        version = champion.read(place, SLOT)[1]
    if seen == "one that was removed":
        storage.delete_file(champion.pointer(place, SLOT))
    else:
        champion.replace(place, SLOT, someone("since"), version)
    now = champion.read(place, SLOT)
    with pytest.raises(Overtaken):
        champion.replace(place, SLOT, someone("late"), version)
    assert champion.read(place, SLOT) == now


def test_of_many_that_are_promoted_at_once_one_takes_the_place(place):
    names = [f"run-{i}" for i in range(8)]
    begin, won = threading.Barrier(len(names)), []

    def promote(name: str) -> None:
        begin.wait()
        try:
            champion.replace(place, SLOT, someone(name), champion.NONE)
            won.append(name)
        except Overtaken:
            pass

    threads = [threading.Thread(target=promote, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert champion.read(place, SLOT)[0] == someone(won[0])


def test_writing_the_same_again_is_no_defeat_in_cloud_storage(gcs):
    """A write whose answer is lost is tried again by the client, and then meets itself."""
    champion.replace(gcs, SLOT, someone("first"), champion.NONE)
    champion.replace(gcs, SLOT, someone("first"), champion.NONE)
    assert champion.read(gcs, SLOT)[0] == someone("first")


@pytest.mark.parametrize("text", ["", "{", '{"run_id": "x"}', '"x"'])
def test_a_pointer_that_cannot_be_read_says_how_to_go_on_without(place, text):
    uri = champion.pointer(place, SLOT)
    storage.write_text(uri, text)
    tool = "gcloud storage rm" if uri.startswith("gs://") else "rm"
    with pytest.raises(UserError, match=rf"is damaged .*go on without a champion by `{tool} {uri}`"):
        champion.read(place, SLOT)


def test_nothing_is_left_beside_the_pointer(tmp_path):
    champion.replace(str(tmp_path), SLOT, someone("first"), champion.NONE)
    assert [path.name for path in (tmp_path / "champions").iterdir()] == [f"{SLOT}.json"]


# -- prepare -----------------------------------------------------------------------------------------------------------


def test_a_first_run_has_no_champion(place):
    assert (plan(place, "run-1").champion, plan(place, "run-1").champion_version) == (None, champion.NONE)


def test_a_later_run_has_the_champion_of_its_slot_in_its_plan(place):
    finish(plan(place, "run-1"), "PROMOTE")
    later = plan(place, "run-2")
    assert later.champion is not None
    assert later.champion.run_id == "run-1"
    assert (later.champion, later.champion_version) == champion.read(later.store, SLOT)
    assert Plan.model_validate_json(later.model_dump_json()) == later
    assert plan(place, "run-3", "publish.slot=other").champion is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.name=qwen3-1.7b"], r"is a qwen3-0\.6b, not a qwen3-1\.7b: set publish\.slot"),
        (["model.scan_layers=true"], r"is another qwen3-0\.6b \(sizes, layers\): set publish\.slot"),
    ],
)
def test_a_champion_of_another_architecture_is_refused(place, settings, said):
    finish(plan(place, "run-1"), "PROMOTE")
    with pytest.raises(UserError, match=said):
        plan(place, "run-2", *settings)
    assert plan(place, "run-2", *settings, "publish.slot=other").champion is None


@pytest.mark.parametrize("damage", ["gone", "a file is missing", "a file is damaged"])
def test_a_champion_without_its_checkpoint_is_refused_with_the_cure(place, damage):
    first = plan(place, "run-1")
    finish(first, "PROMOTE")
    checkpoint = storage.join(first.run_dir, "train/grpo/checkpoints/actor/60")
    if damage == "gone":
        storage.delete_tree(checkpoint)
    elif damage == "a file is missing":
        storage.delete_file(storage.join(checkpoint, "model_params/_METADATA"))
    else:
        storage.write_text(storage.join(checkpoint, "model_params/_METADATA"), "RUN-1")
    with pytest.raises(UserError, match=r"gone or damaged .*go on without a champion by `") as told:
        plan(place, "run-2")
    assert len(str(told.value).splitlines()) == 1
    storage.delete_file(champion.pointer(first.store, SLOT))
    assert plan(place, "run-2").champion is None


def test_registering_in_vertex_needs_the_model_in_a_bucket(tmp_path):
    vertex = ["publish.vertex.model=m", "publish.vertex.project=p", "publish.vertex.location=us-central1"]
    with pytest.raises(UserError, match=r"give --store gs://BUCKET/FOLDER"):
        plan(str(tmp_path), "run-1", *vertex, "publish.vertex.image=i")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("publish.vertex.model=m", r"publish\.vertex\.project is missing"),
        ("publish.vertex.env={HF_TOKEN: x}", "would stand in the registry"),
        ("publish.hub=maths", r"'publish\.hub'"),
        ("publish.slot=a/b", r"'publish\.slot'"),
        ("secrets.hf_token=hf_abc", r"'secrets\.hf_token'"),
    ],
)
def test_a_place_that_cannot_be_is_refused(setting, said):
    with pytest.raises(UserError, match=said):
        config.load(SLOT, [setting])


def test_beginning_from_the_champion_leaves_no_base_to_compare_with():
    with pytest.raises(UserError, match="measures no base to compare with"):
        config.load(SLOT, ["model.start=champion", "evaluate.gate.compare_with=base"])


# -- download ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "seen"),
    [([], False), (["evaluate.questions=10"], False), (["seed=1"], True), (["evaluate.questions=40"], True)],
)
def test_a_champion_that_was_trained_on_the_questions_to_evaluate_with_is_refused(tmp_path, settings, seen):
    """Questions are held out of one source by the seed, so that another seed holds out what was trained on before."""
    rows = [
        json.dumps({"question": f"What is {i} more than {j}?", "answer": str(i + j)})
        for i in range(10)
        for j in range(20)
    ]
    source = tmp_path / "questions.jsonl"
    source.write_text("\n".join(rows))
    data = [f"data.train={source}", "evaluate.questions=20"]
    first, second = config.load(SLOT, data), config.load(SLOT, [*data, *settings])
    folders = [
        fetch_dataset(one.data, tmp_path / name, one.seed, need_eval=one.evaluate.questions).data_uri
        for name, one in (("first", first), ("second", second))
    ]
    holder = someone("run-1").model_copy(update={"trained_on": [folders[0], str(tmp_path / "gone")]})
    if seen:
        with pytest.raises(UserError, match="questions to evaluate with: keep the seed"):
            champion.refuse_seen(holder, second, folders[1])
    else:
        champion.refuse_seen(holder, second, folders[1])


# -- convert and evaluate ----------------------------------------------------------------------------------------------


def test_training_begins_from_the_champion_when_told_so(tmp_path):
    first = plan(str(tmp_path), "run-1")
    finish(first, "PROMOTE")
    later = plan(str(tmp_path), "run-2", "model.start=champion")
    result = convert(later, MODEL)
    checkpoint = result.records["checkpoint"]
    assert checkpoint.kind == "maxtext-checkpoint"
    assert checkpoint.data_uri == storage.join(first.run_dir, "train/grpo/checkpoints/actor/60")
    assert checkpoint.extra["items"] == "model_params"
    assert "begins from the champion, run run-1" in result.note
    assert not Path(later.converted_dir).exists()


def test_the_model_card_says_which_weights_training_began_from(tmp_path):
    first = plan(str(tmp_path), "run-1")
    card = model_card(first, evaluation("PROMOTE"))
    assert "| training began from | the base model |" in card and "Before is" not in card
    finish(first, "PROMOTE")
    card = model_card(plan(str(tmp_path), "run-2", "model.start=champion"), evaluation("PROMOTE"))
    assert "| training began from | the weights that run `run-1` trained |" in card
    assert "Before is the model of run `run-1`." in card
    card = model_card(plan(str(tmp_path), "run-3"), evaluation("PROMOTE"))  # it competes with the champion only
    assert "| training began from | the base model |" in card and "run-1" not in card


def test_without_a_champion_training_begins_from_the_source_and_says_so(tmp_path):
    first = plan(str(tmp_path), "run-1", "model.start=champion")
    there = artifacts(first, "HOLD")["trained"]
    storage.copy_tree(there.data_uri, first.converted_dir)
    result = convert(first, MODEL)
    assert result.records["checkpoint"] == there
    assert "nothing was promoted to 'tiny-qwen3' yet, so training begins from the source" in result.note


def measured(the_plan: Plan, begin: ArtifactRecord) -> dict[str, str]:
    """Which weights the generation is asked to measure under which name."""
    made = artifacts(the_plan, "HOLD")
    command = evaluate.workload(the_plan, begin, made["trained"], MODEL, made["dataset"]).command
    spec = Spec.from_json(command[command.index("--spec") + 1])
    return {one.name: one.load_parameters_path for one in spec.checkpoints}


def test_the_champion_is_measured_with_the_others_in_one_process(tmp_path):
    first = plan(str(tmp_path), "run-1")
    base = ArtifactRecord(kind="maxtext-checkpoint", format="orbax", data_uri="base", extra={"items": "0/items"})
    assert measured(first, base).keys() == {"before", "after"}
    finish(first, "PROMOTE")
    found = measured(plan(str(tmp_path), "run-2"), base)
    assert list(found) == ["before", "after", "champion"]
    assert found["before"] == "base/0/items"
    assert found["champion"] == storage.join(first.run_dir, "train/grpo/checkpoints/actor/60/model_params")


def test_a_champion_that_training_began_from_is_measured_once(tmp_path):
    finish(plan(str(tmp_path), "run-1"), "PROMOTE")
    later = plan(str(tmp_path), "run-2", "model.start=champion")
    found = measured(later, convert(later, MODEL).records["checkpoint"])
    assert list(found) == ["before", "after"]
    assert "run-1" in found["before"]


BEFORE, AFTER, RIVAL = (drawn(120, accuracy, 4, seed) for seed, accuracy in enumerate((0.4, 0.7, 0.9)))


def test_a_run_from_the_source_must_beat_base_and_champion(tmp_path):
    finish(plan(str(tmp_path), "run-1"), "PROMOTE")
    found = evaluate.judge(
        plan(str(tmp_path), "run-2"), questions(120), {"before": BEFORE, "after": AFTER, "champion": RIVAL}
    )
    assert found.verdict is Verdict.REJECT
    assert found.reasons[0].startswith("Accuracy against the champion: -")
    assert found.reasons[1].startswith("Accuracy against the base: +")


def test_a_run_from_the_champion_must_beat_it_and_is_not_compared_with_a_base_that_was_not_measured(tmp_path):
    finish(plan(str(tmp_path), "run-1"), "PROMOTE")
    later = plan(str(tmp_path), "run-2", "model.start=champion")
    found = evaluate.judge(later, questions(120), {"before": BEFORE, "after": AFTER})
    assert found.verdict is Verdict.PROMOTE
    assert [reason.partition(":")[0] for reason in found.reasons] == ["Accuracy against the champion"]
    assert found.champion == found.before
    assert found.delta_vs_champion == found.delta


def test_a_first_run_must_beat_the_base(tmp_path):
    found = evaluate.judge(plan(str(tmp_path), "run-1"), questions(120), {"before": BEFORE, "after": AFTER})
    assert (found.verdict, found.champion) == (Verdict.PROMOTE, None)
    assert found.reasons[0].startswith("Accuracy against the base: +")
