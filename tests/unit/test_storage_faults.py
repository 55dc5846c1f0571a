"""What a full disk, a lack of permission or a file in the way leave behind: one line for the user and nothing else."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gcs_proxy
import pytest

from components import storage
from components.errors import UserError


def test_a_file_larger_than_the_limit_leaves_nothing(tmp_path: Path) -> None:
    """RLIMIT_FSIZE plays a disk that ends in the middle of a file."""
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a").write_bytes(b"1")
    (tmp_path / "from" / "big").write_bytes(b"x" * 100_000)
    program = """
import resource, sys
from components import storage
from components.errors import UserError
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
def stage():
    with storage.staged("new/model") as folder:
        (folder / "first").write_bytes(b"1")
        (folder / "big").write_bytes(b"x" * 100_000)
for attempt in (
    lambda: storage.write_bytes("new/file", b"x" * 100_000),
    lambda: storage.copy_file("from/big", "new/copy"),
    lambda: storage.copy_tree("from", "new/tree"),
    stage,
):
    try:
        attempt()
    except UserError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(storage.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stdout + done.stderr
    assert all("larger than" in line for line in lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_as_such(code: int) -> None:
    with pytest.raises(UserError, match="Disk full: cannot write there"), storage.user_errors("write", "there"):
        raise OSError(code, "no space")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_lack_of_permission_is_named_as_such(code: int) -> None:
    with pytest.raises(UserError, match="No permission to write there"), storage.user_errors("write", "there"):
        raise OSError(code, "no")


def test_an_error_that_the_user_cannot_mend_keeps_its_traceback() -> None:
    with pytest.raises(OSError, match="input/output"), storage.user_errors("write", "there"):
        raise OSError(errno.EIO, "input/output")
    with pytest.raises(FileNotFoundError), storage.user_errors("write", "there", only_full=True):
        raise FileNotFoundError(errno.ENOENT, "ours")


@pytest.mark.parametrize("folder", ["/proc/here", "/proc/self/here", "/dev/null/here"])
def test_a_place_that_cannot_be_written(folder: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    for attempt in (
        lambda: storage.write_bytes(f"{folder}/a", b"1"),
        lambda: storage.copy_file(tmp_path / "a", f"{folder}/a"),
        lambda: storage.copy_tree(tmp_path, f"{folder}/sub"),
        lambda: storage.staged(f"{folder}/model").__enter__(),
    ):
        with pytest.raises(UserError) as caught:
            attempt()
        assert folder in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(UserError, match="is a file, not a folder"):
        storage.write_bytes(tmp_path / "file" / "sub" / "a", b"1")
    with pytest.raises(UserError, match="occupied"), storage.staged(tmp_path / "file"):
        pytest.fail("must be refused")
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_folder_where_a_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        storage.write_bytes(tmp_path / "folder", b"1")
    with pytest.raises(UserError, match="is a folder"):
        storage.read_bytes(tmp_path / "folder")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


@pytest.mark.parametrize(
    ("target", "said"), [("nowhere", "does not exist"), ("link", "its symbolic links lead in a circle")]
)
def test_a_link_that_leads_nowhere_is_named_wherever_it_lies(target: str, said: str, tmp_path: Path) -> None:
    folder, copied = tmp_path / "folder", tmp_path / "copied"
    folder.mkdir()
    (folder / "link").symlink_to(target)
    for attempt in (
        lambda: storage.read_bytes(folder / "link"),
        lambda: storage.copy_file(folder / "link", copied),
        lambda: storage.local_copy(folder / "link", tmp_path / "cache"),
        lambda: storage.list_files(folder),
        lambda: storage.copy_tree(folder, copied),
        lambda: storage.checksums(folder),
    ):
        with pytest.raises(UserError, match=said) as caught:
            attempt()
        assert str(folder / "link") in str(caught.value)
    assert not copied.exists()


@pytest.fixture
def answering(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, str], None]]:
    """Makes Cloud Storage answer everything with a status and a message; the client does not try for long."""
    with gcs_proxy.serve(gcs_server) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        monkeypatch.setattr("google.cloud.storage.retry.DEFAULT_RETRY._timeout", 0.1)

        def answer(status: int, message: str = "") -> None:
            proxy.message = message
            proxy.spoil = lambda request: status

        yield answer


def attempts(uri: str, tmp_path: Path) -> list[Callable[[], object]]:
    """Everything that asks Cloud Storage something."""
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a").write_bytes(b"1")
    return [
        lambda: storage.exists(uri),
        lambda: storage.read_bytes(uri),
        lambda: storage.write_bytes(uri, b"1"),
        lambda: storage.crc32c(uri),
        lambda: storage.checksums(uri),
        lambda: storage.list_files(uri),
        lambda: storage.location(uri),
        lambda: storage.delete_file(uri),
        lambda: storage.delete_tree(uri),
        lambda: storage.copy_file(uri, tmp_path / "copy"),
        lambda: storage.copy_file(tmp_path / "from" / "a", uri),
        lambda: storage.copy_file(uri, f"{uri}-2"),
        lambda: storage.copy_tree(uri, tmp_path / "copy"),
        lambda: storage.copy_tree(tmp_path / "from", uri),
        lambda: storage.local_copy(uri, tmp_path / "cache"),
    ]


@pytest.mark.parametrize(
    ("status", "said", "line"),
    [
        (
            403,
            "",
            r"No permission to \w+ gs://secret/model.*: grant this account the role Storage \w+ \w+ on .* secret",
        ),
        (401, "", r"No Google credentials to \w+ gs://secret/model"),
        (400, "Invalid bucket name: secret", r"gs://secret/model.*: secret is no name for a bucket"),
        (429, "", r"Cloud Storage could not \w+ gs://secret/model.* \(429\): try again later"),
        (503, "", r"Cloud Storage could not \w+ gs://secret/model.* \(503\): try again later"),
    ],
)
def test_what_the_service_refuses_is_one_line_with_the_cure(
    answering: Callable[[int, str], None], status: int, said: str, line: str, tmp_path: Path
) -> None:
    answering(status, said)
    for attempt in attempts("gs://secret/model", tmp_path):
        with pytest.raises(UserError, match=line) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["from"]


def test_the_role_that_is_lacking_is_that_of_the_deed(answering: Callable[[int, str], None]) -> None:
    answering(403, "")
    for deed, role in (
        (lambda: storage.read_bytes("gs://secret/a"), "Storage Object Viewer"),
        (lambda: storage.list_files("gs://secret/a"), "Storage Object Viewer"),
        (lambda: storage.write_bytes("gs://secret/a", b"1"), "Storage Object User"),
        (lambda: storage.location("gs://secret/a"), "Storage Bucket Viewer"),
    ):
        with pytest.raises(UserError, match=role):
            deed()


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    with pytest.raises(UserError, match="gcloud auth application-default login"):
        storage.read_bytes("gs://bucket/a")


def test_limits_of_this_process_are_untouched() -> None:
    """The tests above must not have limited the process that runs the others."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
