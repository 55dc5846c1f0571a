"""A model is fetched from the hub, a directory, a bucket or made on the spot: pinned, whole, and never twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hub_weights
import numpy as np
import pytest
from hub_server import Hub
from safetensors.numpy import save

from components import manifest, record, storage
from components.errors import UserError
from components.sources.model import fetch_model, resolve_revision

FILES = {
    "config.json": b'{"model_type": "qwen3"}',
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}',
    "model.safetensors": save({"a": np.ones((8, 8), np.float32)}),
}


@pytest.fixture
def hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_weights.WeightsHub]:
    with hub_weights.serve(hub) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


def write_model(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        storage.write_bytes(folder / name, data)
    return folder


def names(folder: str | Path) -> set[str]:
    return {name for name, _ in storage.list_files(folder)} - {"manifest.json", "provenance.json"}


# -- the hub ----------------------------------------------------------------------------------------------------------


def test_a_hub_model_is_pinned_and_complete(hub: Hub, place: str) -> None:
    commit = hub.add("model", "org/name", {**FILES, "README.md": b"#", "onnx/model.safetensors": b"x", "w.bin": b"x"})
    assert resolve_revision("hf://org/name", None) == commit
    made = fetch_model("hf://org/name", commit, storage.join(place, "model"), run_id="run-1", config_sha256="f00")
    assert (made.kind, made.format) == ("hf-model", "safetensors")
    assert (made.base_model_id, made.base_model_revision) == ("org/name", commit)
    assert made.parent_uris == [f"hf://org/name@{commit}"]
    assert (made.run_id, made.config_sha256) == ("run-1", "f00")
    assert names(made.data_uri) == FILES.keys()
    assert storage.read_bytes(storage.join(made.data_uri, "model.safetensors")) == FILES["model.safetensors"]
    assert record.read(made.data_uri) == made
    manifest.check(made.data_uri)


def test_the_revision_can_be_in_the_address_or_beside_it(hub: Hub, tmp_path: Path) -> None:
    old = hub.add("model", "org/name", FILES)
    new = hub.add("model", "org/name", {**FILES, "config.json": b'{"model_type": "other"}'})
    hub.repos["model", "org/name"].refs["v1"] = old
    assert resolve_revision("hf://org/name", None) == new
    assert resolve_revision("hf://org/name", "v1") == resolve_revision("hf://org/name@v1", None) == old
    assert fetch_model("hf://org/name@v1", None, tmp_path / "a").base_model_revision == old
    with pytest.raises(UserError, match="another revision"):
        resolve_revision("hf://org/name@v1", "main")


def test_a_pinned_model_survives_a_push_in_between(hub: Hub, tmp_path: Path) -> None:
    commit = resolve_revision("hf://org/name", hub.add("model", "org/name", FILES))
    hub.add("model", "org/name", {"config.json": b"{}"})
    assert names(fetch_model("hf://org/name", commit, tmp_path / "model").data_uri) == FILES.keys()


def test_what_is_there_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    commit = hub.add("model", "org/name", FILES)
    first = fetch_model("hf://org/name", commit, tmp_path / "model", run_id="first")
    hub.requests.clear()
    assert fetch_model("hf://org/name", commit, tmp_path / "model", run_id="second") == first
    assert hub.requests == []


def test_a_damaged_model_is_fetched_again(hub: Hub, place: str) -> None:
    commit = hub.add("model", "org/name", FILES)
    folder = storage.join(place, "model")
    fetch_model("hf://org/name", commit, folder)
    shard = storage.join(folder, "model.safetensors")
    damaged = bytearray(FILES["model.safetensors"])
    damaged[-1] ^= 1
    storage.write_bytes(shard, bytes(damaged))
    fetch_model("hf://org/name", commit, folder)
    assert storage.read_bytes(shard) == FILES["model.safetensors"]


def test_a_cached_model_needs_no_network(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = hub.add("model", "org/name", FILES)
    fetch_model("hf://org/name", commit, tmp_path / "first")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert resolve_revision("hf://org/name", commit) == commit
    fetch_model("hf://org/name", commit, tmp_path / "second")
    manifest.check(tmp_path / "second")


def test_the_token_comes_from_the_environment_and_goes_nowhere_else(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.add("model", "org/private", FILES, token="hf_secret")
    (tmp_path / "stored-login").write_text("hf_secret")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "stored-login"))
    with pytest.raises(UserError, match=r"private.*HF_TOKEN"):
        resolve_revision("hf://org/private", None)
    assert hub.tokens == {None}
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch_model("hf://org/private", commit, tmp_path / "model")
    assert not [path for path in (tmp_path / "model").iterdir() if b"hf_secret" in path.read_bytes()]


def test_what_is_wrong_with_a_hub_model_is_one_line_and_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    hub.add("model", "org/gated", FILES, token="hf_other", gated=True)
    hub.add("model", "org/name", FILES)
    without_template = {**FILES, "tokenizer_config.json": b"{}"}
    hub.add("model", "org/base", without_template)
    hub.add("model", "org/pickle", {**{n: d for n, d in FILES.items() if "safetensors" not in n}, "w.bin": b"x"})
    hub.add("model", "org/empty", {"README.md": b"#"})
    hub.add("model", "org/cut", {**FILES, "model.safetensors": FILES["model.safetensors"][:-3]})
    for source, revision, message in (
        ("hf://org/nowhere", None, "hf://org/nowhere is not on the hub"),
        ("hf://org/gated", None, r"gated: accept its terms on http://[\d.:]+/org/gated and set HF_TOKEN"),
        ("hf://org/name", "v9", "hf://org/name has no revision v9"),
        ("hf://org/name", "f" * 40, f"hf://org/name has no revision {'f' * 40}"),
        ("hf://org/base", None, "no chat template"),
        ("hf://org/pickle", None, "no weights in"),
        ("hf://org/empty", None, "no config.json"),
        ("hf://org/cut", None, "damaged"),
        ("hf://datasets/org/name", None, "not the address of a model"),
        ("hf://", None, "no address"),
        ("hf://a b/c", None, "hf://a b/c"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            fetch_model(source, revision, tmp_path / "store" / "model")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "store").exists(), source


def test_a_model_without_template_is_refused_before_its_weights_are_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.add("model", "org/base", {**FILES, "tokenizer_config.json": b"{}"})
    with pytest.raises(UserError, match="no chat template"):
        fetch_model("hf://org/base", None, tmp_path / "model")
    assert hub.served(".json")
    assert not hub.served(".safetensors")


@pytest.mark.parametrize("trouble", ["no network", "switched off", "down"])
def test_a_hub_out_of_reach_is_one_line(hub: Hub, trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("model", "org/name", FILES)
    match trouble:
        case "no network":
            monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        case "switched off":
            monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        case "down":
            hub.status = 500
    with pytest.raises(UserError, match=r"Cannot reach the hub at http://127.0.0.1:\d+ for hf://org/name") as caught:
        resolve_revision("hf://org/name", None)
    assert "\n" not in str(caught.value)


def test_a_disk_that_fills_up_during_the_download_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    weights = save({"a": np.ones((64, 1024), np.float32)})
    commit = hub.add("model", "org/name", {**FILES, "model.safetensors": weights})
    program = f"""
import resource
from components.sources.model import fetch_model
from components.errors import UserError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    fetch_model("hf://org/name", "{commit}", "store/model")
except UserError as error:
    print(error)
"""
    environment = {
        "PYTHONPATH": str(Path(storage.__file__).parents[1]),
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "home"),
    }
    (tmp_path / "here").mkdir()
    command = [sys.executable, "-B", "-c", program]  # a file size limit cuts bytecode files short too
    done = subprocess.run(command, cwd=tmp_path / "here", env=environment, capture_output=True, text=True, check=True)
    assert "the file is larger than" in done.stdout
    assert list((tmp_path / "here").iterdir()) == []


# -- directories ------------------------------------------------------------------------------------------------------


def test_a_directory_is_copied_with_what_belongs_to_a_model(tmp_path: Path, place: str) -> None:
    source = write_model(tmp_path / "mine", {**FILES, "optimizer.pt": b"x", "checkpoint-1/model.safetensors": b"x"})
    revision = resolve_revision(str(source), None)
    made = fetch_model(str(source), revision, storage.join(place, "model"))
    assert names(made.data_uri) == FILES.keys()
    assert (made.base_model_id, made.base_model_revision) == (str(source), revision)
    manifest.check(made.data_uri)


def test_a_directory_in_a_bucket_is_a_source_too(gcs: str, tmp_path: Path) -> None:
    for name, data in FILES.items():
        storage.write_bytes(storage.join(gcs, "mine", name), data)
    source = storage.join(gcs, "mine")
    assert resolve_revision(source, None) == resolve_revision(str(write_model(tmp_path / "mine", FILES)), None)
    made = fetch_model(source, None, tmp_path / "model")
    assert names(made.data_uri) == FILES.keys()
    with pytest.raises(UserError, match=r"no config\.json"):
        resolve_revision(storage.join(gcs, "nowhere"), None)


def test_the_revision_of_a_directory_follows_its_content(tmp_path: Path) -> None:
    revision = resolve_revision(str(write_model(tmp_path / "a", FILES)), None)
    assert resolve_revision(str(write_model(tmp_path / "b", {**FILES, "notes.md": b"x"})), None) == revision
    for name in FILES:
        data = FILES[name]
        if name == "model.safetensors":
            changed = data[:-1] + bytes([data[-1] ^ 1])
        else:
            changed = json.dumps({**json.loads(data), "more": 1}).encode()
        assert resolve_revision(str(write_model(tmp_path / name, {**FILES, name: changed})), None) != revision


def test_a_directory_that_changed_after_it_was_pinned_is_refused(tmp_path: Path) -> None:
    source = write_model(tmp_path / "mine", FILES)
    revision = resolve_revision(str(source), None)
    (source / "tokenizer.json").write_bytes(b'{"new": 1}')
    with pytest.raises(UserError, match="has changed"):
        fetch_model(str(source), revision, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_unusable_directory_leaves_nothing(tmp_path: Path) -> None:
    source = write_model(tmp_path / "mine", {**FILES, "model.safetensors": b"cut"})
    for attempt in (
        lambda: resolve_revision(str(source), None),
        lambda: fetch_model(str(source), None, tmp_path / "store" / "model"),
        lambda: fetch_model(str(tmp_path / "nowhere"), None, tmp_path / "store" / "model"),
    ):
        with pytest.raises(UserError):
            attempt()
    assert not (tmp_path / "store").exists()


# -- tiny models and the place ----------------------------------------------------------------------------------------


def test_a_tiny_model_is_made_and_pinned_by_its_generator(tmp_path: Path) -> None:
    revision = resolve_revision("tiny://qwen3", None)
    made = fetch_model("tiny://qwen3", revision, tmp_path / "model")
    assert (made.base_model_id, made.base_model_revision) == ("tiny://qwen3", revision)
    manifest.check(made.data_uri)
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= names(made.data_uri)


@pytest.mark.parametrize("source", ["tiny://qwen", "tiny://", "s3://bucket/model"])
def test_an_unknown_source_is_refused(source: str, tmp_path: Path) -> None:
    for attempt in (lambda: resolve_revision(source, None), lambda: fetch_model(source, None, tmp_path / "model")):
        with pytest.raises(UserError, match=source):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_a_place_with_something_else_is_left_alone(tmp_path: Path) -> None:
    mine = write_model(tmp_path / "mine", {"thesis.txt": b"years of work"})
    other = write_model(tmp_path / "other", FILES)
    fetch_model(str(other), None, tmp_path / "model")
    for destination in (mine, tmp_path / "model"):
        before = storage.checksums(destination)
        with pytest.raises(UserError, match="Something else lies at"):
            fetch_model("tiny://qwen3", None, destination)
        assert storage.checksums(destination) == before


def test_an_upload_that_broke_off_is_replaced(gcs: str) -> None:
    folder = storage.join(gcs, "model")
    storage.write_bytes(storage.join(folder, "model-00001-of-00009.safetensors"), b"half")
    fetch_model("tiny://qwen3", None, folder)
    manifest.check(folder)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    for destination in ("/proc/here/model", tmp_path / "file" / "model"):
        with pytest.raises(UserError, match="Cannot write"):
            fetch_model("tiny://qwen3", None, destination)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
