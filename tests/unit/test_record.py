"""The record of an artifact survives the ways it travels, and names the code that made it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from components import record, storage
from components.errors import UserError
from components.record import ArtifactRecord


@pytest.fixture
def checkpoint() -> ArtifactRecord:
    return ArtifactRecord(
        kind="rl-checkpoint",
        format="orbax",
        data_uri="gs://bucket/run/checkpoints",
        base_model_id="Qwen/Qwen3-30B-A3B",
        base_model_revision="abc",
        step=50,
        run_id="run-1",
        parent_uris=["gs://bucket/mt", "gs://bucket/data"],
        code_version="c0ffee",
        image="image@sha256:1",
        config_sha256="f00",
        extra={"mean_reward": 0.5, "rollout_engine": "vllm", "devices": 64},
    )


def test_metadata_is_flat_and_comes_back(checkpoint: ArtifactRecord) -> None:
    flat = checkpoint.flat()
    assert all(isinstance(value, str | int | float) for value in flat.values())
    assert flat["mean_reward"] == 0.5
    assert json.loads(str(flat["parent_uris"])) == ["gs://bucket/mt", "gs://bucket/data"]
    assert ArtifactRecord.from_flat(flat) == checkpoint


def test_metadata_comes_back_from_a_backend(checkpoint: ArtifactRecord) -> None:
    """Backends keep every number as a float and add keys of their own."""
    stored = {key: float(value) if isinstance(value, int) else value for key, value in checkpoint.flat().items()}
    stored |= {"display_name": "rl", "store_session_info": '{"provider": "gs"}'}
    back = ArtifactRecord.from_flat({**stored, "nested": {"of": "somebody"}})
    assert back == checkpoint
    assert isinstance(back.step, int)


def test_what_is_not_known_is_left_out() -> None:
    base = ArtifactRecord(kind="hf-model", format="safetensors", data_uri="here", code_version="1")
    assert "step" not in base.flat()
    assert ArtifactRecord.from_flat(base.flat()) == base


def test_reading_does_not_claim_the_readers_code(checkpoint: ArtifactRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = {key: value for key, value in checkpoint.flat().items() if key not in ("code_version", "image")}
    monkeypatch.setenv("POSTTRAIN_CODE_VERSION", "reader")
    monkeypatch.setenv("POSTTRAIN_IMAGE", "reader")
    back = ArtifactRecord.from_flat(flat)
    assert (back.code_version, back.image) == ("", "")


@pytest.mark.parametrize(
    "metadata",
    [{}, {"display_name": "model"}, {"kind": "cake", "format": "x", "data_uri": "y"}, {"kind": "dataset"}],
)
def test_metadata_of_something_else_is_refused_in_one_line(metadata: dict[str, str]) -> None:
    with pytest.raises(UserError, match="Not a record of this project") as caught:
        ArtifactRecord.from_flat(metadata)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("parents", ["not json", '{"a": 1}', "[1]"])
def test_damaged_parents_are_refused(checkpoint: ArtifactRecord, parents: str) -> None:
    with pytest.raises(UserError, match="parent_uris"):
        ArtifactRecord.from_flat({**checkpoint.flat(), "parent_uris": parents})


def test_it_lies_beside_the_data(checkpoint: ArtifactRecord, place: str) -> None:
    folder = storage.join(place, "model")
    assert record.write(checkpoint, folder) == storage.join(folder, "provenance.json")
    assert record.read(folder) == checkpoint


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "dataset"}', "\x00"])
def test_a_damaged_record_is_refused(place: str, text: str) -> None:
    storage.write_text(storage.join(place, "provenance.json"), text)
    with pytest.raises(UserError, match=r"provenance\.json"):
        record.read(place)


def test_the_kind_is_checked(checkpoint: ArtifactRecord) -> None:
    assert record.expect(checkpoint, "rl-checkpoint") is checkpoint
    with pytest.raises(UserError, match=r"'hf-model' artifact, got 'rl-checkpoint' .*run/checkpoints"):
        record.expect(checkpoint, "hf-model")


@pytest.mark.parametrize("extra", [{"step": 1}, {"display_name": "x"}, {"x": float("nan")}, {"x": [1]}])
def test_extra_holds_only_what_has_no_other_place(extra: Any) -> None:
    with pytest.raises(ValidationError):
        ArtifactRecord(kind="dataset", format="parquet", data_uri="here", extra=extra)


def test_equal_values_have_equal_hashes() -> None:
    class Settings(BaseModel):
        b: int = 1
        a: str = "x"

    assert record.sha256_of({"b": 1, "a": "x"}) == record.sha256_of({"a": "x", "b": 1}) == record.sha256_of(Settings())
    assert record.sha256_of([1, 2]) != record.sha256_of([2, 1])
    assert record.sha256_of(Path("a/b")) == record.sha256_of("a/b")
    for bad in (float("nan"), object()):
        with pytest.raises((TypeError, ValueError)):
            record.sha256_of(bad)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with this module in it, committed."""
    root = tmp_path / "checkout"
    for module in ("__init__", "errors", "gcs", "record", "storage", "transfer"):
        storage.copy_file(Path(record.__file__).with_name(f"{module}.py"), root / "components" / f"{module}.py")
    storage.write_text(root / "pyproject.toml", '[project]\nname = "p"\nversion = "7.8.9"\n')
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    return root


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def version_of(root: Path, **environment: str) -> str:
    program = "from components.record import code_version; print(code_version(), end='')"
    command = [sys.executable, "-B", "-c", program]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), **environment}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout


def test_code_version_is_the_commit_and_says_when_it_is_not_quite(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert version_of(checkout) == commit
    git(checkout, "tag", "v1")
    assert version_of(checkout) == commit
    storage.write_text(checkout / "pyproject.toml", "changed")
    assert version_of(checkout) == f"{commit}-dirty"


def test_code_version_of_an_image_is_what_its_build_says(checkout: Path) -> None:
    assert version_of(checkout, POSTTRAIN_CODE_VERSION="build-5") == "build-5"


def test_code_version_without_git_is_that_of_the_package(checkout: Path) -> None:
    assert version_of(checkout, PATH="/nowhere") == "7.8.9"
    storage.delete_tree(checkout / ".git")
    assert version_of(checkout) == "7.8.9"
