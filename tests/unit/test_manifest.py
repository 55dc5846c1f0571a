"""A folder of weights is complete exactly when it is what its manifest says."""

from __future__ import annotations

from typing import Any

import pytest

from components import manifest, storage
from components.errors import UserError


@pytest.fixture
def weights(place: str) -> str:
    """A complete folder of three files."""
    folder = storage.join(place, "weights")
    for name in ("0/items/shard-0", "0/items/shard-1", "meta.json"):
        storage.write_text(storage.join(folder, name), f"content of {name}")
    manifest.write_manifest(folder, {"tensors": 3})
    return folder


def test_an_untouched_folder_is_complete(weights: str) -> None:
    found = manifest.check(weights)
    assert list(found.files) == ["0/items/shard-0", "0/items/shard-1", "meta.json"]
    assert found.files["meta.json"].size == len("content of meta.json")
    assert found.extra == {"tensors": 3}
    assert manifest.is_complete(weights)


def test_a_folder_without_manifest_is_not(place: str) -> None:
    storage.write_text(storage.join(place, "weights", "a"), "1")
    for folder in (storage.join(place, "weights"), storage.join(place, "nowhere")):
        with pytest.raises(manifest.IncompleteError, match=r"manifest\.json is missing"):
            manifest.check(folder)


def test_a_missing_file_is_named(weights: str) -> None:
    storage.delete_tree(storage.join(weights, "0"))
    with pytest.raises(manifest.IncompleteError, match="0/items/shard-0 is missing"):
        manifest.check(weights)
    assert not manifest.is_complete(weights)


def test_a_shorter_file_is_found_without_reading_it(weights: str) -> None:
    storage.write_text(storage.join(weights, "0/items/shard-1"), "cut")
    with pytest.raises(manifest.IncompleteError, match="0/items/shard-1 is damaged") as caught:
        manifest.check(weights, deep=False)
    assert (caught.value.file, caught.value.problem) == ("0/items/shard-1", "damaged")


def test_one_changed_byte_is_found_by_the_deep_check(weights: str) -> None:
    storage.write_text(storage.join(weights, "0/items/shard-1"), "content of 0/items/shard-X")
    manifest.check(weights, deep=False)
    with pytest.raises(manifest.IncompleteError, match="0/items/shard-1 is damaged"):
        manifest.check(weights)
    assert not manifest.is_complete(weights)


def test_a_file_too_many_is_named(weights: str) -> None:
    storage.write_text(storage.join(weights, "0/stray"), "1")
    with pytest.raises(manifest.IncompleteError, match="0/stray is extra"):
        manifest.check(weights)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": {"a": {}}}'])
def test_a_damaged_manifest_is_no_manifest(weights: str, text: str) -> None:
    storage.write_text(storage.join(weights, "manifest.json"), text)
    with pytest.raises(manifest.IncompleteError, match=r"manifest\.json is damaged"):
        manifest.check(weights)


def test_the_manifest_is_the_same_bytes_each_time(weights: str) -> None:
    first = storage.read_bytes(storage.join(weights, "manifest.json"))
    manifest.write_manifest(weights, {"tensors": 3})
    assert storage.read_bytes(storage.join(weights, "manifest.json")) == first


def test_an_empty_folder_gets_no_manifest(place: str) -> None:
    with pytest.raises(UserError, match="no files"):
        manifest.write_manifest(storage.join(place, "empty"))
    assert not storage.exists(storage.join(place, "empty"))


def test_a_copy_between_places_stays_complete(weights: str, gcs: str) -> None:
    storage.copy_tree(weights, storage.join(gcs, "copy"))
    assert manifest.check(storage.join(gcs, "copy")) == manifest.check(weights)


def test_identity_does_not_depend_on_the_order_of_flags() -> None:
    one = manifest.content_id(repo_commit="a@1", converter_version="2", flags={"x": 1, "y": [True, None]})
    two = manifest.content_id(repo_commit="a@1", converter_version="2", flags={"y": [True, None], "x": 1})
    assert one == two
    assert len(one) == 64


def test_identity_depends_on_all_that_determines_the_bytes() -> None:
    base: dict[str, Any] = {"repo_commit": "a@1", "converter_version": "2", "flags": {"x": 1}}
    variants = [base, base | {"repo_commit": "a@2"}, base | {"converter_version": "3"}, base | {"flags": {"x": 2}}]
    assert len({manifest.content_id(**variant) for variant in variants}) == 4
