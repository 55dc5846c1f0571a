"""Files in gs:// and on this machine come within reach of a worker."""

import tempfile
from pathlib import Path

import pytest

from components import storage
from components.ray_runtime import files


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Where a worker has copies."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def content(folder):
    return {name: storage.read_text(folder / name) for name, _ in storage.list_files(folder)}


FLAT = {"config.json": "{}", "chat_template.jinja": "t"}


@pytest.mark.parametrize("model", [FLAT, {**FLAT, "deep/er/model.safetensors": "weights"}])
def test_a_folder_of_a_bucket_is_copied_whole_and_once(gcs, model):
    for name, text in model.items():
        storage.write_text(f"{gcs}/store/model/{name}", text)
    folder = files.fetched(f"{gcs}/store/model")
    assert content(folder) == model
    storage.delete_tree(f"{gcs}/store/model")
    assert files.fetched(f"{gcs}/store/model") == folder
    assert content(folder) == model


def test_what_a_killed_worker_left_half_copied_is_copied_anew(gcs, scratch):
    storage.write_text(f"{gcs}/model/config.json", "{}")
    place = files.fetched(f"{gcs}/model")
    place.rename(place.with_suffix(".partial"))
    (place.with_suffix(".partial") / "half").write_text("")
    assert content(files.fetched(f"{gcs}/model")) == {"config.json": "{}"}


def test_a_folder_of_this_machine_is_where_it_is(tmp_path):
    assert files.fetched(str(tmp_path)) == Path(tmp_path)
