"""What is not a usable model directory is refused in one line that names the fault, from headers alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from components.errors import UserError
from components.sources.check import INDEX, check_model_directory


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of two shards with an index, a tokenizer and a chat template."""
    folder = tmp_path / "model"
    folder.mkdir()
    write_json(folder / "config.json", {"model_type": "qwen3"})
    write_json(folder / "tokenizer.json", {})
    write_json(folder / "tokenizer_config.json", {})
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    for number, name in enumerate("ab", 1):
        save_file({name: np.ones((4, 4), np.float32)}, folder / f"model-{number:05}-of-00002.safetensors")
    write_json(
        folder / INDEX,
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}},
    )
    return folder


def test_a_whole_model_passes(model: Path) -> None:
    check_model_directory(model)
    check_model_directory(str(model))


def test_a_model_in_one_file_needs_no_index(model: Path) -> None:
    for path in (*model.glob("*.safetensors"), model / INDEX):
        path.unlink()
    save_file({"a": np.ones(1)}, model / "model.safetensors")
    check_model_directory(model)


@pytest.mark.parametrize(
    "place", ["chat_template.jinja", "chat_template.json", "tokenizer_config.json", "tokenizer_config.json with names"]
)
def test_the_template_may_lie_where_transformers_looks(model: Path, place: str) -> None:
    (model / "chat_template.jinja").unlink()
    name, _, several = place.partition(" with ")
    template: object = [{"name": "default", "template": "{{ messages }}"}] if several else "{{ messages }}"
    if name.endswith(".jinja"):
        (model / name).write_text(str(template))
    else:
        write_json(model / name, {"chat_template": template})
    check_model_directory(model)


def cut(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])


def replaced(path: Path) -> Path:
    path.unlink()
    return path


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda m: (m / "config.json").unlink(), "no config.json"),
    "damaged config": (lambda m: (m / "config.json").write_text("{"), "config.json is damaged"),
    "config of no object": (lambda m: write_json(m / "config.json", []), "config.json is damaged"),
    "no weights": (
        lambda m: [path.unlink() for path in (*m.glob("*.safetensors"), m / INDEX)],
        r"no weights in \*.safetensors",
    ),
    "cut in the data": (lambda m: cut(m / "model-00002-of-00002.safetensors", -5), "00002-of-00002.* is damaged"),
    "cut in the header": (lambda m: cut(m / "model-00001-of-00002.safetensors", 20), "00001-of-00002.* is damaged"),
    "empty shard": (lambda m: cut(m / "model-00001-of-00002.safetensors", 0), "00001-of-00002.* is damaged"),
    "a page instead": (
        lambda m: (m / "model-00001-of-00002.safetensors").write_text("<html>Please log in</html>" * 9),
        "00001-of-00002.* is damaged",
    ),
    "a pointer instead": (
        lambda m: (m / "model-00001-of-00002.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
        "00001-of-00002.* is damaged",
    ),
    "a link to nowhere instead": (
        lambda m: replaced(m / "model-00001-of-00002.safetensors").symlink_to("blobs/nowhere"),
        "00001-of-00002.* does not exist",
    ),
    "a link to itself instead": (
        lambda m: replaced(m / "model-00001-of-00002.safetensors").symlink_to("model-00001-of-00002.safetensors"),
        "00001-of-00002.* in a circle",
    ),
    "a folder instead": (
        lambda m: replaced(m / "model-00001-of-00002.safetensors").mkdir(),
        "00001-of-00002.* is a folder",
    ),
    "missing shard": (
        lambda m: (m / "model-00002-of-00002.safetensors").unlink(),
        "lacks the shard model-00002-of-00002.safetensors",
    ),
    "missing tensor": (
        lambda m: save_file({"c": np.ones(1)}, m / "model-00002-of-00002.safetensors"),
        "lacks the tensor b ",
    ),
    "shards without index": (lambda m: (m / INDEX).unlink(), f"no {INDEX}"),
    "damaged index": (lambda m: (m / INDEX).write_text("{"), f"{INDEX} is damaged"),
    "index of nothing": (lambda m: write_json(m / INDEX, {"metadata": {}}), "no weight_map"),
    "no tokenizer": (lambda m: (m / "tokenizer.json").unlink(), "no tokenizer"),
    "no template": (lambda m: (m / "chat_template.jinja").unlink(), "no chat template"),
    "empty template": (lambda m: (m / "chat_template.jinja").write_text(" \n"), "no chat template"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_one_line(model: Path, fault: str) -> None:
    harm, message = FAULTS[fault]
    harm(model)
    with pytest.raises(UserError, match=message) as caught:
        check_model_directory(model)
    assert "\n" not in str(caught.value)
    assert str(model) in str(caught.value)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        check_model_directory(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file"):
        check_model_directory(tmp_path / "file")
