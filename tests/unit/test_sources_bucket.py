"""A model goes straight into a bucket: no copy on this machine, no wrong byte, nothing twice, and on from where it was."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import gcs_proxy
import hub_weights
import numpy as np
import pytest
from hub_server import Hub
from safetensors.numpy import save

from components import manifest, record, storage, transfer
from components.errors import UserError
from components.sources.model import fetch_model

SHARDS = 3
NAMES = [f"model-{i:05}-of-{SHARDS:05}.safetensors" for i in range(1, SHARDS + 1)]
WEIGHTS = {name: save({f"layer.{i}": np.full((2 << 20,), i, np.float32)}) for i, name in enumerate(NAMES)}  # 8 MiB each
INDEX = {"weight_map": {f"layer.{i}": name for i, name in enumerate(NAMES)}}
FILES = {
    "config.json": b'{"model_type": "qwen3"}',
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}',
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    **WEIGHTS,
}


@pytest.fixture
def hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_weights.WeightsHub]:
    monkeypatch.setattr(transfer, "PIECE", 1 << 20)
    with hub_weights.serve(hub) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        served.add("model", "org/name", FILES)
        yield served


@pytest.fixture
def proxy(gcs_server: str, gcs: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs_proxy.Proxy]:
    with gcs_proxy.serve(gcs_server) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def stored(folder: str) -> dict[str, bytes]:
    found = {name: storage.read_bytes(storage.join(folder, name)) for name, _ in storage.list_files(folder)}
    return {name: data for name, data in found.items() if name not in (manifest.FILE_NAME, record.FILE_NAME)}


def test_nothing_of_the_weights_touches_this_machine(
    hub: hub_weights.WeightsHub, gcs: str, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    taken = []

    def look(name: str, start: int) -> None:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]  # the hub's cache lies here too
        taken.append(sum(path.stat().st_blocks * 512 for path in files))

    hub.spoil = look
    made = fetch_model("hf://org/name", None, storage.join(gcs, "model"))
    assert stored(made.data_uri) == FILES
    manifest.check(made.data_uri)
    assert max(taken) < 1 << 20


def test_a_connection_that_breaks_goes_on_where_it_was(hub: hub_weights.WeightsHub, gcs: str) -> None:
    starts = []

    def spoil(name: str, start: int) -> str | None:
        if name != NAMES[1]:
            return None
        starts.append(start)
        return "cut" if len(starts) in (2, 3) else None  # the first is for the header

    hub.spoil = spoil
    assert stored(fetch_model("hf://org/name", None, storage.join(gcs, "model")).data_uri) == FILES
    half = len(WEIGHTS[NAMES[1]]) // 2
    assert starts[:2] == [0, 0]
    assert half - (1 << 20) <= starts[2] <= half < starts[3]


def test_a_hub_that_forgets_where_we_were_is_noticed(hub: hub_weights.WeightsHub, gcs: str) -> None:
    hub.spoil = lambda name, start: "whole" if start else "cut" if name == NAMES[1] else None
    with pytest.raises(UserError, match=rf"hf://org/name/{NAMES[1]} was damaged on the way"):
        fetch_model("hf://org/name", None, storage.join(gcs, "model"))
    assert NAMES[1] not in stored(storage.join(gcs, "model"))


@pytest.mark.parametrize("name", [NAMES[0], "tokenizer.json"])
def test_a_file_with_another_hash_never_appears(hub: hub_weights.WeightsHub, gcs: str, name: str) -> None:
    folder = storage.join(gcs, "model")
    hub.spoil = lambda served, start: "flip" if served == name else None
    with pytest.raises(UserError, match=f"hf://org/name/{name} was damaged on the way"):
        fetch_model("hf://org/name", None, folder)
    assert name not in stored(folder)
    assert not manifest.is_complete(folder)


def test_a_download_that_broke_off_is_finished_not_repeated(hub: hub_weights.WeightsHub, gcs: str) -> None:
    folder = storage.join(gcs, "model")
    wrong_until = threading.Event()

    def spoil(name: str, start: int) -> str | None:
        if name == NAMES[2] and not wrong_until.is_set():
            while len(stored(folder)) < len(FILES) - 1:  # all others are there when this one fails
                pass
            return "flip"
        return None

    # the headers come first, and must be right
    seen: list[str] = []
    hub.spoil = lambda name, start: spoil(name, start) if name in seen else seen.append(name)
    with pytest.raises(UserError, match="damaged"):
        fetch_model("hf://org/name", None, folder)
    wrong_until.set()
    hub.requests.clear()
    fetch_model("hf://org/name", None, folder)
    assert stored(folder) == FILES
    manifest.check(folder)
    fetched = [request.rsplit("/", 1)[-1] for request in hub.served(".safetensors")]
    assert sorted(fetched) == sorted([*NAMES, NAMES[2]])  # each header, and one shard


def test_what_lies_there_of_another_kind_is_replaced(hub: hub_weights.WeightsHub, gcs: str) -> None:
    """An object of the right name and size, but without the mark of a compared one, is not trusted."""
    folder = storage.join(gcs, "model")
    storage.write_bytes(storage.join(folder, NAMES[0]), bytes(len(WEIGHTS[NAMES[0]])))
    storage.write_bytes(storage.join(folder, "model-00004-of-00009.safetensors"), b"of another try")
    fetch_model("hf://org/name", None, folder)
    assert stored(folder) == FILES
    manifest.check(folder)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({NAMES[1]: WEIGHTS[NAMES[1]][:-3]}, rf"hf://org/name/{NAMES[1]} is damaged"),
        ({NAMES[1]: b"no"}, rf"hf://org/name/{NAMES[1]} is damaged"),
        ({NAMES[1]: b"\xff" * 100}, rf"hf://org/name/{NAMES[1]} is damaged"),
        ({NAMES[1]: None}, f"hf://org/name lacks the shard {NAMES[1]}"),
        ({NAMES[1]: WEIGHTS[NAMES[0]]}, r"lacks the tensor layer\.1"),
        ({"config.json": None}, r"hf://org/name has no config\.json"),
        ({"tokenizer_config.json": b"{}"}, r"tokenizer in hf://org/name has no chat template"),
    ],
)
def test_an_unusable_model_is_refused_before_its_weights_move(
    hub: hub_weights.WeightsHub, gcs: str, files: dict[str, bytes | None], message: str
) -> None:
    hub.add("model", "org/name", {name: data for name, data in {**FILES, **files}.items() if data is not None})
    with pytest.raises(UserError, match=message) as caught:
        fetch_model("hf://org/name", None, storage.join(gcs, "model"))
    assert "\n" not in str(caught.value)
    assert storage.list_files(gcs) == []


def test_a_bucket_that_may_not_be_written(hub: hub_weights.WeightsHub, gcs: str, proxy: gcs_proxy.Proxy) -> None:
    shard = f"model/{NAMES[0]}"  # the index, which names it too, may be written
    proxy.spoil = lambda request: 403 if shard.encode() in request.body or NAMES[0] in request.path else None
    with pytest.raises(UserError, match=rf"No permission to write .*{NAMES[0]}"):
        fetch_model("hf://org/name", None, storage.join(gcs, "model"))
    assert not manifest.is_complete(storage.join(gcs, "model"))


def test_runs_that_want_the_same_model_fetch_it_once(hub: hub_weights.WeightsHub, place: str, capfd) -> None:
    folder, made = storage.join(place, "model"), []
    threads = [
        threading.Thread(target=lambda i=i: made.append(fetch_model("hf://org/name", None, folder, run_id=f"run-{i}")))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    assert made[0] == made[1] == made[2] == record.read(folder)
    manifest.check(folder)
    reads_of_a_shard = 2 if place.startswith("gs://") else 1  # the header first
    assert len(hub.served(".safetensors")) == SHARDS * reads_of_a_shard
    assert "posttrain[download] waiting for " in capfd.readouterr().out


@pytest.mark.parametrize("source", ["local", "gcs"])
def test_a_directory_goes_into_a_bucket_without_a_copy_here(
    gcs: str, proxy: gcs_proxy.Proxy, source: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    mine = storage.join(gcs if source == "gcs" else str(tmp_path), "mine")
    for name, data in {**FILES, "optimizer.pt": b"x"}.items():
        storage.write_bytes(storage.join(mine, name), data)
    proxy.requests.clear()
    made = fetch_model(mine, None, storage.join(gcs, "model"))
    assert stored(made.data_uri) == FILES
    manifest.check(made.data_uri)
    sent = sum(len(request.body) for request in proxy.requests)
    assert sent < 1 << 20 if source == "gcs" else sent > sum(map(len, WEIGHTS.values()))


def test_an_unusable_directory_in_a_bucket_is_refused_before_its_weights_move(gcs: str) -> None:
    for name, data in {**FILES, NAMES[1]: WEIGHTS[NAMES[1]][:-3]}.items():
        storage.write_bytes(storage.join(gcs, "mine", name), data)
    with pytest.raises(UserError, match=f"{gcs}/mine/{NAMES[1]} is damaged"):
        fetch_model(storage.join(gcs, "mine"), None, storage.join(gcs, "model"))
    assert storage.list_files(storage.join(gcs, "model")) == []
