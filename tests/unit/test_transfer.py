"""Bytes travel many files and pieces at once, arrive as they were, and a failure ends the lot at once."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import gcs_proxy
import google_crc32c
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as gcs_client

from components import manifest, record, storage, transfer
from components.errors import UserError
from components.sources.model import resolve_revision

PIECE = 1 << 20


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PIECE", PIECE)
    monkeypatch.setattr(transfer, "PIECE_UP", PIECE)


@pytest.fixture
def proxy(gcs_server: str, gcs: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs_proxy.Proxy]:
    with gcs_proxy.serve(gcs_server) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def fill(place: str, **files: bytes) -> None:
    for name, data in files.items():
        storage.write_bytes(storage.join(place, name), data)


def content(place: str | Path) -> dict[str, bytes]:
    return {name: storage.read_bytes(storage.join(place, name)) for name, _ in storage.list_files(place)}


def once(
    fate: int | str, wanted: Callable[[gcs_proxy.Request], bool]
) -> Callable[[gcs_proxy.Request], int | str | None]:
    fates = [fate]
    return lambda request: fates.pop() if fates and wanted(request) else None


def is_download(request: gcs_proxy.Request) -> bool:
    return request.method == "GET" and "alt=media" in request.path


# -- bytes ------------------------------------------------------------------------------------------------------------


def test_files_of_any_length_arrive_as_they_were(gcs: str, tmp_path: Path) -> None:
    lengths = [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 9 * PIECE + 5]  # the last goes up in pieces too
    files = {f"of-{length}": os.urandom(length) for length in lengths}
    fill(str(tmp_path / "from"), **files)
    storage.copy_tree(tmp_path / "from", storage.join(gcs, "there"))
    storage.copy_tree(storage.join(gcs, "there"), tmp_path / "back")
    assert content(tmp_path / "back") == files
    assert storage.checksums(storage.join(gcs, "there")) == storage.checksums(tmp_path / "from")
    storage.copy_file(storage.join(gcs, "there", "of-9437189"), tmp_path / "single")
    assert (tmp_path / "single").read_bytes() == files["of-9437189"]


def test_a_large_file_is_fetched_in_pieces(gcs: str, proxy: gcs_proxy.Proxy, tmp_path: Path) -> None:
    fill(gcs, large=bytes(4 * PIECE), small=b"1")
    storage.copy_tree(gcs, tmp_path / "here")
    assert len([request for request in proxy.requests if is_download(request)]) == 4 + 1


def test_checksums_of_pieces_make_that_of_the_whole() -> None:
    rng = random.Random(0)
    for _ in range(50):
        pieces = [rng.randbytes(rng.randrange(0, 300)) for _ in range(rng.randrange(0, 6))]
        parts = [int(google_crc32c.value(piece)) for piece in pieces]
        assert transfer.joined(parts, map(len, pieces)) == google_crc32c.value(b"".join(pieces))


@pytest.mark.parametrize("length", [100, 5 * PIECE])
def test_an_object_stored_compressed_is_unpacked(gcs: str, length: int, tmp_path: Path) -> None:
    data = random.Random(0).randbytes(length)
    client = gcs_client.Client(project="test", credentials=AnonymousCredentials())
    blob = client.bucket(gcs.removeprefix("gs://")).blob("folder/a.jsonl")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(data))
    storage.copy_tree(storage.join(gcs, "folder"), tmp_path / "tree")
    storage.copy_file(storage.join(gcs, "folder/a.jsonl"), tmp_path / "file")
    assert content(tmp_path) == {"tree/a.jsonl": data, "file": data}


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [100, 3 * PIECE])
def test_bytes_damaged_on_the_way_here_are_noticed(
    gcs: str, proxy: gcs_proxy.Proxy, length: int, tmp_path: Path
) -> None:
    fill(gcs, good=b"1", weights=os.urandom(length))
    for fetch in (storage.copy_tree, lambda _, to: storage.copy_file(storage.join(gcs, "weights"), to)):
        proxy.spoil = once("flip", lambda request: is_download(request) and "weights" in request.path)
        with pytest.raises(UserError, match="damaged on the way"):
            fetch(gcs, tmp_path / "to")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [100, 9 * PIECE])
def test_bytes_damaged_on_the_way_there_are_noticed(
    gcs: str, proxy: gcs_proxy.Proxy, length: int, tmp_path: Path
) -> None:
    fill(str(tmp_path), weights=b"\xaa" * length)
    proxy.spoil = once("garble", lambda request: b"\xaa" * 50 in request.body)
    with pytest.raises(UserError, match="damaged on the way"):
        storage.copy_tree(tmp_path, storage.join(gcs, "to"))
    assert storage.list_files(gcs) == []


@pytest.mark.parametrize("length", [100, 3 * PIECE])
def test_a_connection_that_breaks_is_made_again(gcs: str, proxy: gcs_proxy.Proxy, length: int, tmp_path: Path) -> None:
    data = os.urandom(length)
    fill(gcs, weights=data)
    proxy.spoil = once("cut", is_download)
    storage.copy_tree(gcs, tmp_path / "to")
    assert content(tmp_path / "to") == {"weights": data}


# -- failures ---------------------------------------------------------------------------------------------------------


def test_the_first_failure_ends_the_rest() -> None:
    stop, ended, begun = threading.Event(), [], []

    def patient() -> None:
        begun.append(1)
        assert stop.wait(60)
        ended.append(1)

    def fails() -> None:
        while len(begun) < transfer.THREADS - 1:
            pass
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transfer.run([fails, *[patient] * 50], stop)
    assert len(ended) == len(begun) <= transfer.THREADS


def test_an_upload_that_fails_ends_the_others_and_leaves_nothing(
    gcs: str, proxy: gcs_proxy.Proxy, tmp_path: Path
) -> None:
    fill(str(tmp_path), **{f"shard-{i:02}": bytes(10 * PIECE) for i in range(12)}, a=b"1")
    proxy.spoil = lambda request: 403 if "%2Fa" in request.path or b"folder/a" in request.body else None
    with pytest.raises(UserError, match=r"No permission to write .*folder/a"):
        storage.copy_tree(tmp_path, storage.join(gcs, "folder"))
    assert storage.list_files(gcs) == []
    moved = sum(len(request.body) for request in proxy.requests)
    assert moved < 12 * 10 * PIECE / 2


def test_a_file_that_vanishes_is_named(gcs: str, proxy: gcs_proxy.Proxy, tmp_path: Path) -> None:
    fill(storage.join(gcs, "model"), a=b"1", b=b"2")
    with pytest.raises(UserError, match=r"model/c does not exist"):
        storage.copy_files(storage.join(gcs, "model"), tmp_path / "to", ["a", "c"])
    proxy.spoil = lambda request: 404 if is_download(request) else None
    with pytest.raises(UserError, match=r"does not exist"):
        storage.copy_tree(storage.join(gcs, "model"), tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_that_is_being_rewritten_is_fetched_as_it_is(
    gcs: str, proxy: gcs_proxy.Proxy, tmp_path: Path
) -> None:
    fill(gcs, log=b"old")

    def rewrite(request: gcs_proxy.Request) -> None:
        if is_download(request):
            blob = gcs_client.Client(project="test", credentials=AnonymousCredentials()).bucket(gcs[5:]).blob("log")
            proxy.spoil = lambda request: None
            blob.upload_from_string(b"new content")

    proxy.spoil = rewrite
    storage.copy_tree(gcs, tmp_path / "to")
    assert content(tmp_path / "to") == {"log": b"new content"}


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/outside"])
def test_a_name_that_leads_out_of_the_folder_is_refused(
    gcs: str, proxy: gcs_proxy.Proxy, name: str, tmp_path: Path
) -> None:
    """A bucket may hold objects of any name."""
    proxy.spoil = lambda request: json.dumps({"items": [{"name": f"folder/{name}", "size": "1"}]}).encode()
    with pytest.raises(UserError, match="leads out of a folder"):
        storage.copy_tree(storage.join(gcs, "folder"), tmp_path / "deep" / "to")
    assert list(tmp_path.iterdir()) == []


# -- the manifest -----------------------------------------------------------------------------------------------------


def test_the_manifest_goes_first_and_comes_last(gcs: str, proxy: gcs_proxy.Proxy, tmp_path: Path) -> None:
    """As long as it is there, what lies beside it is whole."""
    fill(str(tmp_path), **{f"shard-{i}": b"1" for i in range(20)}, zz=b"2", **{"manifest.json": b"{}"})
    for _ in range(2):
        proxy.requests.clear()
        storage.copy_tree(tmp_path, storage.join(gcs, "model"))
        writes = [request for request in proxy.requests if request.method in ("POST", "PUT", "DELETE")]
        assert writes[0].method == "DELETE"
        assert writes[0].path.partition("?")[0].endswith("manifest.json")
        assert b"model/manifest.json" in writes[-1].body
        assert len(writes) == 1 + 22


def test_files_without_the_manifest_leave_it_alone(place: str, tmp_path: Path) -> None:
    fill(str(tmp_path / "from"), a=b"1")
    fill(storage.join(place, "to"), **{"manifest.json": b"{}"})
    storage.copy_files(tmp_path / "from", storage.join(place, "to"), ["a"])
    assert content(storage.join(place, "to")) == {"a": b"1", "manifest.json": b"{}"}


# -- how often the service is asked -----------------------------------------------------------------------------------


def test_what_stages_ask_of_a_folder_does_not_grow_with_its_files(gcs: str, proxy: gcs_proxy.Proxy) -> None:
    """A checkpoint has thousands of files; a request for each would take minutes."""

    def asked(files: int) -> list[int]:
        folder, counts = storage.join(gcs, f"of-{files}"), []
        fill(folder, **{f"model-{i}.safetensors": b"1" for i in range(files)}, **{"config.json": b"{}"})
        made = record.ArtifactRecord(kind="hf-model", format="safetensors", data_uri=folder)
        for step in (
            lambda: record.write(made, folder),
            lambda: manifest.write_manifest(folder),
            lambda: manifest.check(folder),
            lambda: record.read(folder),
            lambda: resolve_revision(folder, None),
            lambda: storage.exists(folder),
        ):
            proxy.requests.clear()
            step()
            counts.append(len(proxy.requests))
        return counts

    assert asked(30) == asked(3)
