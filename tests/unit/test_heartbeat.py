"""A living launcher is heard, whatever its storage does for a while."""

import threading
import time

from components.workloads.heartbeat import Heartbeat


def beats(file, count) -> None:
    """Waits for so many different beats."""
    heard: set[str] = set()
    until = time.monotonic() + 30
    while len(heard) < count:
        assert time.monotonic() < until
        if file.is_file() and (text := file.read_text()):
            heard.add(text)
        time.sleep(0.01)


def test_it_beats_at_once_and_again_and_again_with_another_text_each_time(tmp_path):
    with Heartbeat("train", str(tmp_path), silence_s=0.5):
        beats(tmp_path / "heartbeat", 3)


def test_a_launcher_that_follows_another_is_heard_with_its_first_beat(tmp_path):
    with Heartbeat("train", str(tmp_path), silence_s=900):
        beats(tmp_path / "heartbeat", 1)
    last = (tmp_path / "heartbeat").read_text()
    with Heartbeat("train", str(tmp_path), silence_s=900):
        until = time.monotonic() + 30
        while (tmp_path / "heartbeat").read_text() == last:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_it_is_silent_after_its_end(tmp_path):
    with Heartbeat("train", str(tmp_path), silence_s=0.05):
        beats(tmp_path / "heartbeat", 2)
    until = time.monotonic() + 30
    while any(thread.name == "heartbeat" for thread in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_storage_that_fails_for_a_while_is_said_once_and_survived(tmp_path, capsys):
    folder = tmp_path / "attempt"
    folder.write_text("in the way")
    with Heartbeat("train", str(folder), silence_s=0.1):
        said = ""
        while "the heartbeat cannot be stored" not in said:
            said += capsys.readouterr().out
            time.sleep(0.01)
        time.sleep(0.1)  # some more beats that fail
        folder.unlink()
        beats(folder / "heartbeat", 2)
    assert (said + capsys.readouterr().out).count("the heartbeat cannot be stored") == 1


def test_no_error_of_the_storage_ends_it(tmp_path, capsys):
    with Heartbeat("train", str(tmp_path / "with \0 in it"), silence_s=0.1):
        said = ""
        while "the heartbeat cannot be stored" not in said:
            said += capsys.readouterr().out
            time.sleep(0.01)
        time.sleep(0.1)
        assert any(thread.name == "heartbeat" for thread in threading.enumerate())
