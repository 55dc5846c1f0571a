"""Files and folders behave the same on this machine and in Cloud Storage."""

from __future__ import annotations

import base64
import os
import struct
import threading
from itertools import product
from pathlib import Path

import google_crc32c
import pytest

from components import storage
from components.errors import UserError


def fill(place: str, **files: bytes) -> None:
    for name, data in files.items():
        storage.write_bytes(storage.join(place, name.replace("__", "/")), data)


def content(place: str) -> dict[str, bytes]:
    return {name: storage.read_bytes(storage.join(place, name)) for name, _ in storage.list_files(place)}


def test_what_is_written_is_read_back_and_replaced(place: str) -> None:
    uri = storage.join(place, "deep", "er", "file.txt")
    assert not storage.exists(uri)
    storage.write_text(uri, "grün")
    assert storage.read_text(uri) == "grün"
    storage.write_bytes(uri, b"\x00\xff")
    assert storage.read_bytes(uri) == b"\x00\xff"
    assert storage.exists(uri)
    assert storage.exists(storage.join(place, "deep"))


def test_listing_gives_relative_names_and_sizes_of_that_folder_alone(place: str) -> None:
    fill(place, model__b=b"12345", model__sub__a=b"1", model2__c=b"not of model")
    assert storage.list_files(storage.join(place, "model")) == [("b", 5), ("sub/a", 1)]
    assert storage.list_files(storage.join(place, "nowhere")) == []
    assert storage.list_files(storage.join(place, "model", "b")) == []


def test_checksum_is_that_of_the_bytes_as_cloud_storage_writes_it(place: str) -> None:
    fill(place, model__a=b"some bytes", model__b=b"")
    expected = base64.b64encode(struct.pack(">I", google_crc32c.value(b"some bytes"))).decode()
    assert storage.crc32c(storage.join(place, "model/a")) == expected
    assert storage.checksums(storage.join(place, "model")) == {"a": expected, "b": "AAAAAA=="}


def test_deleting_a_folder_leaves_its_neighbours(place: str) -> None:
    fill(place, model__a=b"1", model__sub__b=b"2", model2__c=b"3")
    storage.delete_tree(storage.join(place, "model"))
    storage.delete_tree(storage.join(place, "never there"))
    assert content(place) == {"model2/c": b"3"}


@pytest.mark.parametrize("root", ["/", "gs://bucket", "gs://bucket/"])
def test_a_whole_disk_or_bucket_is_never_deleted(root: str) -> None:
    with pytest.raises(UserError, match="Refusing to delete"):
        storage.delete_tree(root)


@pytest.mark.parametrize("ends", list(product(["local", "gcs"], repeat=2)), ids="-to-".join)
def test_a_tree_is_copied_between_any_two_places(ends: tuple[str, str], tmp_path: Path, gcs: str) -> None:
    source, target = (
        storage.join(str(tmp_path) if end == "local" else gcs, name)
        for end, name in zip(ends, ["from", "to"], strict=True)
    )
    fill(source, a=b"1", sub__dir__b=b"22")
    storage.copy_tree(source, target)
    assert content(target) == {"a": b"1", "sub/dir/b": b"22"}
    assert content(source) == content(target)


def test_the_manifest_is_copied_after_everything_else(tmp_path: Path) -> None:
    fill(str(tmp_path / "from"), **{"manifest.json": b"{}"})
    os.mkfifo(tmp_path / "from" / "z")  # whoever copies it waits for the writer
    copying = threading.Thread(target=storage.copy_tree, args=(tmp_path / "from", tmp_path / "to"))
    copying.start()
    with (tmp_path / "from" / "z").open("wb") as writer:  # open as soon as the copy has come to z
        assert not (tmp_path / "to" / "manifest.json").exists()
        writer.write(b"data")
    copying.join()
    assert content(str(tmp_path / "to")) == {"manifest.json": b"{}", "z": b"data"}


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    fill(str(tmp_path / "from"), a=b"1", sub__b=b"2", z=b"3")
    (tmp_path / "to" / "z").mkdir(parents=True)
    with pytest.raises(UserError, match="folder"):
        storage.copy_tree(tmp_path / "from", tmp_path / "to")
    assert [path.name for path in (tmp_path / "to").rglob("*")] in (["z"], [])


def test_copying_nothing_is_the_users_mistake(place: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist or is empty"):
        storage.copy_tree(storage.join(place, "nowhere"), tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_staged_tree_appears_when_it_is_whole(place: str) -> None:
    target = storage.join(place, "new", "model")
    with storage.staged(target) as stage:
        fill(str(stage), a=b"1", sub__b=b"2")
        assert storage.list_files(place) == []
    assert content(target) == {"a": b"1", "sub/b": b"2"}


def test_a_stage_that_fails_leaves_nothing(place: str) -> None:
    with pytest.raises(ZeroDivisionError), storage.staged(storage.join(place, "new", "model")) as stage:
        fill(str(stage), a=b"1")
        _ = 1 / 0
    assert storage.list_files(place) == []
    assert not storage.exists(storage.join(place, "new"))


def test_an_occupied_place_is_not_overwritten(tmp_path: Path) -> None:
    fill(str(tmp_path / "model"), mine=b"1")
    with pytest.raises(UserError, match="occupied"), storage.staged(tmp_path / "model"):
        pytest.fail("must be refused before any work")
    assert content(str(tmp_path)) == {"model/mine": b"1"}


def test_a_local_copy_follows_the_original(place: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fill(place, model__a=b"1")
    for data in (b"1", b"2"):
        fill(place, model__a=data, model__sub__b=data)
        assert content(str(storage.local_copy(storage.join(place, "model"), cache))) == {"a": data, "sub/b": data}
        assert storage.local_copy(storage.join(place, "model/a"), cache).read_bytes() == data


def test_a_damaged_local_copy_is_fetched_again(gcs: str, tmp_path: Path) -> None:
    fill(gcs, model__a=b"right")
    copy = storage.local_copy(storage.join(gcs, "model"), tmp_path)
    (copy / "a").write_bytes(b"wrong")
    assert content(str(storage.local_copy(storage.join(gcs, "model"), tmp_path))) == {"a": b"right"}


def test_local_files_need_no_cache(tmp_path: Path) -> None:
    fill(str(tmp_path), a=b"1")
    assert storage.local_copy(tmp_path / "a", tmp_path / "cache") == tmp_path / "a"
    assert not (tmp_path / "cache").exists()


def test_missing_things_are_the_users_mistake(place: str, tmp_path: Path) -> None:
    missing = storage.join(place, "nowhere")
    for read in (storage.read_bytes, storage.read_text, storage.crc32c):
        with pytest.raises(UserError, match="nowhere"):
            read(missing)
    with pytest.raises(UserError, match="nowhere"):
        storage.copy_file(missing, tmp_path / "copy")
    with pytest.raises(UserError, match="nowhere"):
        storage.local_copy(missing, tmp_path / "cache")
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "cache").exists()


def test_a_deleted_file_is_gone_and_may_have_been_so_before(place: str) -> None:
    fill(place, a=b"1", b=b"2")
    for _ in range(2):
        storage.delete_file(storage.join(place, "a"))
    assert content(place) == {"b": b"2"}


def test_checksums_of_some_files_read_no_others(place: str) -> None:
    fill(place, a=b"some bytes", b=b"")
    everything = storage.checksums(place)
    assert storage.checksums(place, ["b"]) == {"b": everything["b"]}


def test_a_bucket_says_where_it_lies(gcs: str) -> None:
    assert storage.location(gcs) == storage.location(storage.join(gcs, "any", "folder")) == "us-central1"
    with pytest.raises(UserError, match="bucket no-such-bucket"):
        storage.location("gs://no-such-bucket")


def test_a_missing_bucket_is_named(gcs: str) -> None:
    with pytest.raises(UserError, match="bucket no-such-bucket"):
        storage.write_text("gs://no-such-bucket/a", "1")


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(UserError, match="gs://"):
        storage.exists("s3://bucket/a")


def test_an_unreachable_service_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr("google.cloud.storage.retry.DEFAULT_RETRY._timeout", 0.1)
    with pytest.raises(UserError, match="Cannot reach Cloud Storage") as caught:
        storage.read_bytes("gs://bucket/a")
    assert "\n" not in str(caught.value)


def test_a_listing_that_is_not_deep_leaves_out_what_lies_in_folders(place: str) -> None:
    for name in ("a", "b/c", "b.d/e", "z"):
        storage.write_text(storage.join(place, name), name)
    assert [name for name, _ in storage.list_files(place, deep=False)] == ["a", "z"]


def test_files_being_written_are_not_listed(tmp_path: Path) -> None:
    fill(str(tmp_path), a=b"1")
    (tmp_path / f"{storage.PARTIAL}x").write_bytes(b"half")
    (tmp_path / f"{storage.PARTIAL}tree").mkdir()
    (tmp_path / f"{storage.PARTIAL}tree" / "b").write_bytes(b"half")
    assert storage.list_files(tmp_path) == [("a", 1)]


def test_links_to_files_and_folders_are_followed(tmp_path: Path) -> None:
    fill(str(tmp_path / "blobs"), one=b"1", more__two=b"22")
    (tmp_path / "model").mkdir()
    os.symlink(tmp_path / "blobs" / "one", tmp_path / "model" / "a")
    os.symlink(tmp_path / "blobs" / "more", tmp_path / "model" / "sub")
    assert storage.list_files(tmp_path / "model") == [("a", 1), ("sub/two", 2)]
