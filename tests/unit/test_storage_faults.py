"""What a full disk, a lack of permission or a file in the way leave behind: one line for the user and nothing else."""

from __future__ import annotations

import errno
import http.server
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

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


class _Refusing(http.server.BaseHTTPRequestHandler):
    """Answers every request with 403, as Cloud Storage does to an account without a role."""

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_DELETE = _refuse

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def refusing_gcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
        yield "gs://secret-bucket"
        server.shutdown()


def test_no_role_on_a_bucket(refusing_gcs: str, tmp_path: Path) -> None:
    uri = f"{refusing_gcs}/model"
    for attempt in (
        lambda: storage.exists(uri),
        lambda: storage.read_bytes(uri),
        lambda: storage.write_bytes(uri, b"1"),
        lambda: storage.crc32c(uri),
        lambda: storage.list_files(uri),
        lambda: storage.delete_tree(uri),
        lambda: storage.copy_file(uri, tmp_path / "copy"),
        lambda: storage.local_copy(uri, tmp_path / "cache"),
    ):
        with pytest.raises(UserError, match=r"No permission .* bucket secret-bucket"):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    with pytest.raises(UserError, match="gcloud auth application-default login"):
        storage.read_bytes("gs://bucket/a")


def test_limits_of_this_process_are_untouched() -> None:
    """The tests above must not have limited the process that runs the others."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
