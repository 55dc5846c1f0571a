"""What becomes of a model after its verdict."""

from __future__ import annotations

import pytest
from promotion_examples import artifacts, finish, plan

from components import champion, manifest, record, storage
from components.errors import WorkloadError
from components.publish.publish import publish
from components.results import Published

SLOT = "tiny-qwen3"


def everything(place: str) -> dict[str, str]:
    """The checksum of each file of the store, but for those of run-2."""
    return {name: crc for name, crc in storage.checksums(f"{place}/store").items() if "runs/run-2/" not in name}


def published(the_plan) -> Published:
    return Published.model_validate_json(storage.read_text(f"{the_plan.run_dir}/publish/result/published.json"))


def test_a_better_model_becomes_the_champion(place):
    first = plan(place, "run-1")
    result = finish(first, "PROMOTE")
    found, _ = champion.read(first.store, SLOT)
    assert found is not None
    assert (found.run_id, found.exported) == ("run-1", f"{first.run_dir}/export/model")
    assert found.checkpoint.data_uri == f"{first.run_dir}/train/grpo/checkpoints/actor/60"
    assert found.trained_on == [f"{first.run_dir}/download/dataset"]
    assert found.accuracy_ci_low < found.accuracy < found.accuracy_ci_high
    assert result.note == "champion of 'tiny-qwen3'"
    assert result.metrics == {"promoted": 1.0}


@pytest.mark.parametrize("verdict", ["HOLD", "REJECT", "INVALID"])
@pytest.mark.parametrize("start", ["source", "champion"])
def test_any_other_verdict_changes_nothing_and_is_no_failure(place, verdict, start):
    finish(plan(place, "run-1"), "PROMOTE")
    before = everything(place)
    second = plan(place, "run-2", f"model.start={start}")
    result = finish(second, verdict)
    assert everything(place) == before
    assert result.note.startswith(f"not published: {verdict}. ")
    assert result.metrics == {"promoted": 0.0}
    assert not published(second).promoted


def test_a_still_better_one_takes_its_place_and_says_whose(place):
    finish(plan(place, "run-1"), "PROMOTE")
    second = plan(place, "run-2", "model.start=champion")
    result = finish(second, "PROMOTE")
    found, _ = champion.read(second.store, SLOT)
    assert found is not None
    assert found.run_id == "run-2"
    assert found.trained_on == [f"{place}/store/runs/{run}/download/dataset" for run in ("run-1", "run-2")]
    assert "in place of run run-1" in result.note
    assert published(second).replaced == "run-1"


def test_what_was_published_is_an_artifact_that_knows_its_parents(place):
    first = plan(place, "run-1")
    made = finish(first, "PROMOTE").records["published"]
    assert made.kind == "publication"
    assert made.parent_uris == [f"{first.run_dir}/export/model", f"{first.run_dir}/evaluate/result"]
    assert record.read(made.data_uri) == made
    manifest.check(made.data_uri)


def test_a_stage_that_was_killed_after_the_promotion_succeeds_when_it_starts_again(place):
    first = plan(place, "run-1")
    made = artifacts(first, "PROMOTE")
    publish(first, **made)
    pointer = champion.read(first.store, SLOT)
    storage.delete_tree(f"{first.run_dir}/publish")
    assert publish(first, **made).metrics == {"promoted": 1.0}
    assert champion.read(first.store, SLOT) == pointer
    assert published(first).promoted


def test_of_two_runs_that_beat_the_same_champion_the_later_is_told_to_run_anew(place):
    one, other = plan(place, "run-1"), plan(place, "run-2")
    finish(one, "PROMOTE")
    now = champion.read(one.store, SLOT)
    with pytest.raises(
        WorkloadError, match=r"was not compared with the new one: it is not published\. Start a new run"
    ):
        finish(other, "PROMOTE")
    assert champion.read(one.store, SLOT) == now


def test_a_run_that_was_overtaken_publishes_nothing_elsewhere_either(place, monkeypatch):
    """The hub is an address where nobody listens: asking it would be another error."""
    other = plan(place, "run-2")
    finish(plan(place, "run-1"), "PROMOTE")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    to = other.config.publish.model_copy(update={"hub": "acme/maths"})
    pushing = other.model_copy(update={"config": other.config.model_copy(update={"publish": to})})
    with pytest.raises(WorkloadError, match="it is not published"):
        finish(pushing, "PROMOTE")


def test_a_model_that_is_damaged_is_not_published(place):
    first = plan(place, "run-1")
    made = artifacts(first, "PROMOTE")
    storage.write_text(f"{first.run_dir}/export/model/model.safetensors", "RUN-1")
    with pytest.raises(WorkloadError, match="The exported model is damaged"):
        publish(first, **made)
    assert champion.read(first.store, SLOT) == (None, champion.NONE)


def test_no_lock_is_left_behind(tmp_path):
    first = plan(str(tmp_path), "run-1")
    finish(first, "PROMOTE")
    assert [path.name for path in (tmp_path / "store/champions").iterdir()] == [f"{SLOT}.json"]
