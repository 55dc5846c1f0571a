"""Doctor on the model: the hub lets us read it, machines and slices hold it, and where it is converted already."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
from doctor_api import Cluster, look, only, serve

from components import config, manifest
from components.errors import UserError
from components.prepare import prepare
from pipelines import doctor

MODEL, DATA = "google/gemma-4-26b-a4b-it", "openai/gsm8k"
FILES = {"config.json": b"{}"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with doctor_api.cluster() as played:
        yield played


@pytest.fixture
def no_hub(monkeypatch, hub):
    """A hub that cannot be reached."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")


@pytest.fixture
def sized_hub(monkeypatch, hub):
    """A hub that tells how many parameters a model has, as a function of the number."""
    with serve(
        lambda *_asked: (200, {"id": MODEL, "safetensors": {"parameters": {"BF16": told[0]}, "total": told[0]}})
    ) as url:
        told = [0]
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield lambda count: told.__setitem__(0, int(count))


# -- may it be read ---------------------------------------------------------------------------------------------------


def test_model_and_questions_may_be_read(cluster, hub):
    hub.add("model", MODEL, FILES)
    hub.add("dataset", DATA, {})
    found = look(cluster, "hub")
    assert [(f.status, f.text) for f in found] == [
        ("ok", f"hf://{MODEL} may be read, by everybody"),
        ("ok", f"hf://datasets/{DATA} may be read, by everybody"),
    ]
    assert not hub.served("config.json"), "only its head is asked for"


def test_the_token_of_the_environment_opens_a_gated_model(cluster, hub, monkeypatch):
    hub.add("model", MODEL, FILES, token="hf_right", gated=True)
    hub.add("dataset", DATA, {})
    refused = look(cluster, "hub")[0]
    assert refused.status == "failure" and "is gated" in refused.text
    assert f"accept its terms on {hub.url}/{MODEL}" in refused.cure
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert look(cluster, "hub")[0].text == f"hf://{MODEL} may be read"
    assert "hf_right" not in repr(look(cluster, "hub"))


def test_a_gated_model_in_the_cache_is_not_taken_for_permission(cluster, hub, monkeypatch):
    from components.sources import hub as client

    commit = hub.add("model", MODEL, FILES)
    client.fetch(client.parse(f"hf://{MODEL}", "model"), commit, ["config.json"])
    hub.add("model", MODEL, FILES, token="hf_right", gated=True)
    assert look(cluster, "hub")[0].status == "failure"


@pytest.mark.parametrize(
    "prepare, said",
    [
        (lambda hub: None, "is not on the hub, or is private"),
        (lambda hub: hub.add("model", MODEL, {"README.md": b""}), "no model in Hugging Face format"),
        (lambda hub: (hub.add("model", MODEL, FILES), setattr(hub, "status", 401)), "refuses the token"),
    ],
)
def test_a_model_that_cannot_be_read_is_a_failure_with_the_reason(cluster, hub, prepare, said):
    prepare(hub)
    found = look(cluster, "hub")[0]
    assert found.status == "failure" and said in found.text and found.cure


def test_a_revision_that_does_not_exist_is_a_failure(cluster, hub):
    hub.add("model", MODEL, FILES)
    found = look(cluster, "hub", "model.revision=v9")[0]
    assert found.status == "failure" and "no revision v9" in found.text


def test_a_hub_that_fails_or_is_out_of_reach_is_unknown(cluster, hub, monkeypatch):
    hub.status = 503
    assert {f.status for f in look(cluster, "hub")} == {"unknown"}
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert {f.status for f in look(cluster, "hub")} == {"unknown"}


def test_an_unreachable_hub_is_unknown(cluster, no_hub):
    found = look(cluster, "hub")[0]
    assert found.status == "unknown" and "127.0.0.1:1 cannot be reached" in found.text


def test_what_comes_from_elsewhere_asks_no_hub(cluster, no_hub):
    assert look(cluster, "hub", name="tiny-qwen3") == []


# -- is there room for it ---------------------------------------------------------------------------------------------


def test_the_machines_of_both_presets_have_room(cluster, no_hub):
    for name in ("gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"):
        found = look(cluster, "machines", name=name)
        assert [f.status for f in found if f.check == "machines"] == ["ok", "ok"], found


@pytest.mark.parametrize(
    "stage, has, status", [("convert", 51, "failure"), ("convert", 60, "warning"), ("convert", 89, "ok"),
                           ("export", 103, "failure"), ("export", 110, "warning"), ("export", 177, "ok")]
)  # fmt: skip
def test_memory_is_measured_against_the_weights(cluster, sized_hub, stage, has, status):
    sized_hub(26e9)  # 52 GB
    found = next(f for f in look(cluster, "machines", f"{stage}.memory_gb={has}") if f.text.startswith(stage))
    assert found.status == status
    peak = {"convert": 88, "export": 177}[stage]
    assert status == "ok" or found.cure == f"--set {stage}.memory_gb={peak}"


def test_weights_in_float32_take_twice_the_memory(cluster, sized_hub):
    sized_hub(26e9)
    assert look(cluster, "machines", "model.dtype=float32")[1].status == "failure"


def test_a_disk_that_is_too_small_for_the_model_is_a_failure(cluster, sized_hub):
    sized_hub(26e9)
    found = [f for f in look(cluster, "machines", "convert.disk_gb=51", "export.disk_gb=103") if "disk" in f.text]
    assert [(f.status, f.cure) for f in found] == [
        ("failure", "--set convert.disk_gb=57"),
        ("failure", "--set export.disk_gb=114"),
    ]


def test_a_model_that_nobody_knows_is_unknown(cluster, no_hub):
    settings = ["model.name=qwen3-0.6b", "model.source=hf://Qwen/Qwen3-0.6B"]
    assert only(look(cluster, "machines", *settings)).status == "unknown"


@pytest.mark.parametrize("settings", [["convert.on=slice"], ["model.source=gs://ours/model"]])
def test_what_is_not_judged_is_not_spoken_of(cluster, no_hub, settings):
    assert look(cluster, "machines", *settings) == []


def test_the_division_of_the_slice_is_told(cluster, no_hub):
    found = only(look(cluster, "slice"))
    assert found.status == "ok" and "trainer: 16 devices" in found.text and "sampler: 16 devices" in found.text
    assert look(cluster, "slice", name="tiny-qwen3") == []


def test_a_division_that_cannot_be_is_a_failure_with_the_key(cluster, no_hub):
    found = look(cluster, "slice", "maxtext.rollout_tensor_parallelism=5")
    assert [f.status for f in found] == ["failure"] and "rollout_tensor_parallelism" in found[0].text


def test_the_memory_of_the_slice_is_estimated(cluster, sized_hub):
    sized_hub(26e9)
    assert only(look(cluster, "hbm")).status == "ok"
    sized_hub(120e9)
    found = only(look(cluster, "hbm"))
    assert found.status == "warning" and "memory of a trainer device" in found.text and "larger slice" in found.cure
    assert look(cluster, "hbm", name="tiny-qwen3") == []


def test_memory_of_a_division_that_cannot_be_is_left_to_that_finding(cluster, no_hub):
    assert look(cluster, "hbm", "maxtext.rollout_tensor_parallelism=5") == []


# -- where it is already ----------------------------------------------------------------------------------------------


def converted(cluster, *settings, store):
    return only(look(cluster, "weights", *settings, name="tiny-qwen3", store=str(store)))


def test_weights_are_found_by_their_identity(cluster, tmp_path):
    first = converted(cluster, store=tmp_path)
    assert first.status == "ok" and "will be converted, once, to" in first.text
    (place := tmp_path / "converted" / first.text.rsplit("/", 1)[-1] / "0").mkdir(parents=True)
    (place / "weights").write_text("bytes")
    manifest.write_manifest(place.parent)
    assert "no conversion" in converted(cluster, store=tmp_path).text
    other = converted(cluster, "model.scan_layers=true", store=tmp_path)
    assert "scan_layers=True" in other.text and "will be converted" in other.text


def test_damaged_weights_are_a_warning(cluster, tmp_path):
    place = tmp_path / "converted" / converted(cluster, store=tmp_path).text.rsplit("/", 1)[-1]
    place.mkdir(parents=True)
    (place / "weights").write_text("bytes")
    manifest.write_manifest(place)
    (place / "weights").write_text("byte")
    found = converted(cluster, store=tmp_path)
    assert found.status == "warning" and "weights" in found.text


def test_without_the_hub_the_identity_is_unknown(cluster, no_hub, tmp_path):
    found = only(look(cluster, "weights", store=str(tmp_path)))
    assert found.status == "unknown" and "Cannot reach the hub" in found.text


# -- the output, and runs on this machine -----------------------------------------------------------------------------


def test_an_output_with_files_in_it_is_a_failure(cluster, tmp_path):
    assert only(look(cluster, "output", store=str(tmp_path), output=str(tmp_path / "run"))).status == "ok"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "plan.json").write_text("{}")
    found = only(look(cluster, "output", store=str(tmp_path), output=str(tmp_path / "run")))
    assert found.status == "failure" and "is not empty" in found.text


def test_a_store_that_cannot_be_written_is_a_failure(cluster, tmp_path):
    (tmp_path / "file").write_text("")
    found = only(look(cluster, "output", store=str(tmp_path / "file" / "store")))
    assert found.status == "failure" and "--store" in found.text


def test_a_run_on_this_machine_asks_no_cluster(tmp_path):
    def connect(_cluster):
        raise AssertionError("a cluster was asked")

    chosen = config.load("tiny-qwen3")
    found = list(doctor.examine(chosen, store=str(tmp_path), output=None, connect=connect))
    assert [(f.check, f.status) for f in found] == [("output", "ok"), ("inputs", "ok"), ("weights", "ok")]


# -- what the run begins with -----------------------------------------------------------------------------------------

UNUSABLE = {
    "tiny-ray-finetune": ["data.source=/no/such/file.jsonl", "model.frozen=[nonsense]", "model.source=/no/such/model"],
    "tiny-ray-pretrain": ["maxtext.ici_fsdp_parallelism=3"],
    "tiny-qwen3": ["data.train=/no/such/file.parquet", "train.rewards={nope: 1.0}", "train.max_prompt_tokens=8"],
}


@pytest.mark.parametrize(("preset", "setting"), [(name, one) for name, every in UNUSABLE.items() for one in every])
def test_doctor_finds_what_plan_and_run_refuse(tmp_path, preset, setting):
    chosen = config.load(preset, [setting])
    with pytest.raises(UserError) as mistake:
        prepare.make_plan(chosen, run_id="r", run_dir=str(tmp_path / "r"), store=str(tmp_path / "store"), where="local")
    found = list(doctor.examine(chosen, store=str(tmp_path / "store"), output=None))
    assert [f.text for f in found if f.check == "inputs" and f.status == "failure"] == [str(mistake.value)]


@pytest.mark.parametrize("preset", UNUSABLE)
def test_what_is_usable_is_ok(tmp_path, preset):
    found = doctor.examine(config.load(preset), store=str(tmp_path / "store"), output=None)
    assert ("inputs", "ok") in [(f.check, f.status) for f in found]
