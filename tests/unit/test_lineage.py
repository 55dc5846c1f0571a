"""What made a model and what was made from its data: found from records alone, here and in a bucket, whatever is lost."""

import random

import gcs_proxy
import pytest
from lineage_examples import GSM8K, QWEN, artifact, run

from components import record, storage
from components.errors import UserError
from pipelines import lineage, registry
from pipelines.lineage import records
from pipelines.lineage.lanes import rows

HASH = "0123456789abcdef" * 2


@pytest.fixture
def store(place) -> str:
    return storage.join(place, "store")


def names(uris, store) -> set[str]:
    return {uri.removeprefix(f"{store}/") for uri in uris}


def above(target, store=None) -> set[str]:
    found = lineage.trace(target, store)
    return names(found.above, found.store)


def below(target, store=None) -> set[str]:
    found = lineage.trace(target, store)
    return names(found.below, found.store)


def models(uris) -> set[str]:
    """The runs whose exported models are among these."""
    return {uri.split("/")[-3] for uri in uris if uri.endswith("/export/model")}


# -- both ways --------------------------------------------------------------------------------------------------------


def test_a_model_leads_to_the_hub_over_everything_that_it_was_made_from(store):
    made = run(store, "a")
    expected = [made[name] for name in ("trained", "checkpoint", "model", "dataset")]
    assert above("a", store) == names([*expected, QWEN, GSM8K], store)
    assert below("a", store) == set()


def test_data_leads_to_every_model_that_was_made_from_it(store):
    run(store, "a")
    run(store, "b", ended=False)
    run(store, "c", questions=f"hf://datasets/other/questions@{HASH}")
    found = below(GSM8K, store)
    assert {name for name in found if name.startswith("runs/c/")} == set()
    assert models(found) == {"a"}
    assert "runs/b/train/grpo/checkpoints/actor/40" in found


def test_a_source_without_version_is_all_its_versions(store):
    run(store, "a")
    run(store, "b", questions=f"{GSM8K.split('@')[0]}@{HASH}")
    run(store, "c", questions=f"{GSM8K.split('@')[0]}-hard@{HASH}")
    assert models(below("hf://datasets/openai/gsm8k", store)) == {"a", "b"}


def test_a_model_that_a_run_began_from_links_the_two_runs(store):
    first = run(store, "a")
    run(store, "b", source=f"{first['exported']}@{HASH}")
    run(store, "c", champion=first["trained"])
    assert {first["exported"], first["trained"], first["dataset"], QWEN} <= set(lineage.trace("b", store).above)
    assert {first["trained"], first["dataset"], QWEN} <= set(lineage.trace("c", store).above)
    assert models(below("a", store)) == {"b"}
    assert models(below(first["dataset"], store)) == {"a", "b", "c"}


def test_a_file_of_questions_is_followed_by_its_version(store, tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text("{}")
    run(store, "a", questions=f"{file}@{HASH[:16]}")
    run(store, "b", questions=f"{file}@{HASH[16:]}aa")
    assert models(below(str(file), store)) == {"a", "b"}
    assert models(below(f"{file}@{HASH[:16]}", store)) == {"a"}
    assert lineage.trace("a", store).nodes[f"{file}@{HASH[:16]}"].problem == ""
    file.unlink()
    assert lineage.trace("a", store).nodes[f"{file}@{HASH[:16]}"].problem == "gone"


# -- what a person types ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "typed", ["{run}", "{run}/", "{run}/export/model", "{run}/export/model/", "{run}/export/model/provenance.json"]
)
def test_a_model_is_found_by_its_run_its_address_and_what_lies_in_it_without_naming_the_store(store, typed):
    made = run(store, "a", run_dir=storage.join(store, "elsewhere/a"))
    found = lineage.trace(typed.format(run=f"{store}/elsewhere/a"), None)
    assert (found.root.uri, found.store, found.run.run_id) == (made["exported"], store, "a")


def test_the_items_of_a_checkpoint_are_the_checkpoint(store):
    made = run(store, "a")
    assert lineage.trace(f"{made['trained']}/model_params", None).root.uri == made["trained"]


@pytest.mark.parametrize("shared", ["model", "checkpoint"])
def test_what_runs_share_knows_its_store(store, shared):
    made = run(store, "a")
    assert models(below(made[shared])) == {"a"}


def test_a_local_run_is_found_from_where_one_is(tmp_path, monkeypatch):
    made = run(str(tmp_path / "store"), "a", run_dir=str(tmp_path / "runs/a"))
    monkeypatch.chdir(tmp_path)
    for typed in ("a", "runs/a", "./runs/a/export/model"):
        assert lineage.trace(typed, None).root.uri == made["exported"]


def test_a_run_that_is_not_listed_in_the_store_is_still_found_by_its_directory(store):
    made = run(store, "a")
    storage.delete_file(storage.join(store, "runs/a.json"))
    assert lineage.trace(f"{store}/runs/a", None).root.uri == made["exported"]


def test_a_run_that_broke_off_stands_for_the_last_that_it_made(store):
    made = run(store, "a", ended=False)
    assert lineage.trace("a", store).root.uri == made["trained"]
    for stage in ("train", "convert"):
        storage.delete_tree(storage.join(store, "runs/a", stage))
    assert lineage.trace("a", store).root.uri == made["dataset"]


def test_a_run_that_has_made_nothing_says_so(store):
    run(store, "a", ended=False)
    for stage in ("train", "convert", "download"):
        storage.delete_tree(storage.join(store, "runs/a", stage))
    with pytest.raises(UserError, match="The run a has made nothing: `posttrain status a`"):
        lineage.trace("a", store)


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("qwen-first-runn", "Did you mean 'qwen-first-run'?"),
        ("hf://datasets/openai/gsm9k", ""),
        ("{store}/runs/qwen-first-run/export/modell", "Did you mean '{store}/runs/qwen-first-run/export/model'?"),
        ("{store}/models", ""),
    ],
)
def test_what_is_not_there_is_one_line_with_the_nearest_name(store, typed, near):
    run(store, "qwen-first-run")
    with pytest.raises(UserError) as said:
        lineage.trace(typed.format(store=store), store)
    assert near.format(store=store) in str(said.value)
    assert typed.format(store=store) in str(said.value)


# -- what is lost or damaged ------------------------------------------------------------------------------------------


def test_models_whose_checkpoint_was_deleted_are_still_found_from_their_data(store):
    made = run(store, "a")
    run(store, "b")
    storage.delete_tree(made["trained"])
    found = lineage.trace(made["dataset"], store)
    assert models(found.below) == {"a"}
    assert (found.nodes[made["trained"]].problem, found.nodes[made["trained"]].guessed) == ("gone", True)
    assert {made["dataset"], made["model"], QWEN} <= set(lineage.trace("a", store).above)


def test_a_deleted_conversion_leads_no_run_to_the_data_of_another(store):
    made = run(store, "a")
    run(store, "b")
    storage.delete_tree(made["checkpoint"])
    assert models(below(made["dataset"], store)) == {"a"}
    assert lineage.trace("a", store).nodes[made["checkpoint"]].problem == "gone"


def test_a_model_whose_run_was_deleted_is_still_named_by_what_was_made_from_it(store):
    first = run(store, "a")
    run(store, "b", source=f"{first['exported']}@{HASH}")
    storage.delete_tree(storage.join(store, "runs/a"))
    assert models(below(first["exported"], store)) == {"b"}
    found = lineage.trace("b", store)
    assert found.nodes[f"{first['exported']}@{HASH}"].problem == "gone"


def test_what_runs_shared_is_found_when_no_run_is_left(store):
    made = run(store, "a")
    storage.delete_tree(storage.join(store, "runs"))
    assert below(QWEN, store) == names([made["model"], made["checkpoint"]], store)


@pytest.mark.parametrize("content", ["", "{", "{}", '{"kind": "of a later version"}'])
def test_a_damaged_record_hides_nothing_else(store, content):
    made = run(store, "a")
    storage.write_text(storage.join(made["trained"], record.FILE_NAME), content)
    found = lineage.trace("a", store)
    assert found.nodes[made["trained"]].problem == "its record is damaged"
    assert {made["dataset"], made["checkpoint"], QWEN, GSM8K} <= set(found.above)


def test_data_without_its_record_says_so(store):
    made = run(store, "a")
    storage.delete_file(storage.join(made["dataset"], record.FILE_NAME))
    assert lineage.trace("a", store).nodes[made["dataset"]].problem == "its record is gone"


@pytest.mark.parametrize("name", ["exported", "trained", "checkpoint", "model", "dataset"])
@pytest.mark.parametrize(("spoilt", "said"), [("data", "data is {}"), ("manifest.json", "manifest.json is missing")])
def test_data_that_is_not_whole_says_which_file(store, name, spoilt, said):
    made = run(store, "a")
    assert {node.problem for node in lineage.trace("a", store).nodes.values()} == {""}
    storage.delete_file(storage.join(made[name], spoilt))
    assert lineage.trace("a", store).nodes[made[name]].problem == said.format("missing")
    if spoilt == "data":
        storage.write_text(storage.join(made[name], spoilt), "longer")
        assert lineage.trace("a", store).nodes[made[name]].problem == said.format("damaged")


def test_records_that_name_each_other_end(store):
    one, two, three = (storage.join(store, "models", name) for name in "abc")
    for uri, parent in ((one, three), (two, one), (three, two)):
        artifact(uri, "hf-model", [parent, uri])
    found = lineage.trace(two, store)
    assert set(found.above) == set(found.below) == {one, three}
    assert lineage.trees(found).count("(as above)") == 2 * 4
    assert len(rows(found)) == 3


def test_any_records_at_all_can_be_drawn(store):
    chance = random.Random(0)
    uris = [storage.join(store, "models", f"m{i}") for i in range(12)]
    for uri in uris:
        artifact(uri, "hf-model", [*chance.sample(uris, chance.randrange(4)), QWEN])
    for uri in (*uris, QWEN):
        found = lineage.trace(uri, store)
        text = lineage.trees(found)
        for reached in (*found.above, *found.below):
            assert reached.rpartition("/")[2].partition("@")[0] in text
        assert {row.node.uri for row in rows(found)} == found.nodes.keys()


# -- in a bucket ------------------------------------------------------------------------------------------------------


def asked(gcs_server, monkeypatch, work) -> list[gcs_proxy.Request]:
    with gcs_proxy.serve(gcs_server) as proxy, monkeypatch.context() as patched:
        patched.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        work()
        return proxy.requests


def test_a_bucket_is_asked_for_the_records_that_each_run_has_made_and_for_no_data(gcs, gcs_server, monkeypatch):
    store = f"{gcs}/store"
    counts = []
    for numbers in (range(2), range(2, 8)):
        made = [run(store, f"run-{number}", day=number) for number in numbers]
        runs = registry.entries(store)
        requests = asked(gcs_server, monkeypatch, lambda runs=runs: records.read(store, runs, QWEN))
        counts.append(len(requests))
        assert {
            request.path.partition("?")[0].rpartition("%2F")[2] for request in requests if "alt=media" in request.path
        } == {record.FILE_NAME}
    own = [uri for uri in made[0].values() if uri.startswith(f"{store}/runs/")]
    assert counts[1] - counts[0] == 6 * len(own)
