"""Of runs that want the same thing one works and the others wait, and none waits for the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gcs_proxy
import pytest

from components import lock, storage
from components.errors import UserError

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
from components import lock, storage
place, expiry, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
lock.EXPIRY_S = expiry
with lock.held(place, say=lambda text: print(text, flush=True)):
    print("held", flush=True)
    time.sleep(seconds)
    storage.write_text(place, "made by the other")
"""


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts another process that holds the lock of a place, then writes it; returns once it holds."""
    monkeypatch.setattr(lock, "EXPIRY_S", 2.0)
    started = []

    def start(place: str, seconds: float) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", PROGRAM, place, str(lock.EXPIRY_S), str(seconds)]
        environment = {**os.environ, "PYTHONPATH": str(Path(storage.__file__).parents[1])}
        process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout and process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_only_one_works_at_a_time(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "EXPIRY_S", 2.0)
    inside, most, turns = 0, 0, []

    def work(number: int) -> None:
        nonlocal inside, most
        with lock.held(storage.join(place, "model"), say=lambda text: None):
            inside += 1
            most = max(most, inside)
            time.sleep(0.05)
            inside -= 1
            turns.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turns) == [0, 1, 2, 3]
    assert most == 1


def test_who_waits_says_for_whom_and_finds_the_work_done(place: str, start: Callable[..., subprocess.Popen]) -> None:
    """The holder works for longer than the expiry: as long as it renews the lock, nobody takes it over."""
    model, said = storage.join(place, "model"), []
    holder = start(model, 5.0)
    with lock.held(model, said.append):
        assert storage.read_text(model) == "made by the other"
    assert holder.wait() == 0
    assert len(said) == 1
    assert f"waiting for process {holder.pid} on " in said[0]
    assert model in said[0]


def test_nobody_waits_for_the_dead(place: str, start: Callable[..., subprocess.Popen]) -> None:
    model = storage.join(place, "model")
    holder = start(model, 600.0)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with lock.held(model, say=lambda text: None):
        assert not storage.exists(model)


def test_places_are_locked_apart(place: str, start: Callable[..., subprocess.Popen]) -> None:
    start(storage.join(place, "model"), 600.0)
    said: list[str] = []
    with lock.held(storage.join(place, "model2"), said.append), lock.held(place, said.append):
        pass
    assert said == []


def test_a_lock_leaves_nothing_behind(place: str) -> None:
    with pytest.raises(ZeroDivisionError), lock.held(storage.join(place, "new", "model"), say=lambda text: None):
        assert storage.exists(storage.join(place, "new"))
        _ = 1 / 0
    assert storage.list_files(place) == []
    assert not storage.exists(storage.join(place, "new"))


def test_what_the_holder_has_made_stays(place: str) -> None:
    with lock.held(storage.join(place, "new", "model"), say=lambda text: None):
        storage.write_text(storage.join(place, "new", "model", "a"), "1")
    assert storage.list_files(place) == [("new/model/a", 1)]


def test_a_holder_that_stood_still_says_so_and_leaves_its_successor_alone(
    gcs: str, start: Callable[..., subprocess.Popen]
) -> None:
    model, said = storage.join(gcs, "model"), []
    first = start(model, 600.0)
    first.send_signal(signal.SIGSTOP)
    with lock.held(model, said.append):
        first.send_signal(signal.SIGCONT)
        assert first.stdout
        assert "took" in first.stdout.readline()
        first.send_signal(signal.SIGINT)
        first.wait()
        assert storage.exists(f"{model}.lock")
    assert not storage.exists(f"{model}.lock")
    assert [f"process {first.pid} on " in text for text in said] == [True, True]
    assert "taking its work over" in said[1]


@pytest.mark.parametrize("place", ["/proc/here/model", "/dev/null/model"])
def test_a_place_without_room_for_a_lock(place: str) -> None:
    with pytest.raises(UserError, match="Cannot write"), lock.held(place, say=lambda text: None):
        pytest.fail("must be refused")


# -- a bad network ----------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(gcs_server: str, gcs: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs_proxy.Proxy]:
    with gcs_proxy.serve(gcs_server) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def once(fate: int | str, method: str) -> Callable[[gcs_proxy.Request], int | str | None]:
    fates = [fate]
    return lambda request: fates.pop() if request.method == method and fates else None


def test_a_lock_whose_creation_got_no_answer_is_ours(gcs: str, proxy: gcs_proxy.Proxy) -> None:
    """The client asks again, and the service answers that the object, our own, exists."""
    proxy.spoil = once("lost", "POST")
    said: list[str] = []
    with lock.held(storage.join(gcs, "model"), said.append):
        assert len([request for request in proxy.requests if request.method == "POST"]) == 2
    assert said == []
    assert storage.list_files(gcs) == []


def test_a_renewal_that_got_no_answer_does_not_lose_the_lock(
    gcs: str, proxy: gcs_proxy.Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "EXPIRY_S", 1.0)
    said: list[str] = []
    with lock.held(storage.join(gcs, "model"), said.append):
        proxy.spoil = once("lost", "POST")
        done = len(proxy.requests)
        while len([request for request in proxy.requests[done:] if request.method == "POST"]) < 3:
            time.sleep(0.05)
    assert said == []
    assert storage.list_files(gcs) == []


def test_a_service_out_of_order_for_a_while_does_not_lose_the_lock(
    gcs: str, proxy: gcs_proxy.Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "EXPIRY_S", 1.0)
    said: list[str] = []
    with lock.held(storage.join(gcs, "model"), said.append):
        proxy.spoil = once(503, "POST")
        while len([request for request in proxy.requests if request.method == "POST"]) < 4:
            time.sleep(0.05)
    assert said == []
    assert storage.list_files(gcs) == []


def test_no_role_on_the_bucket(gcs: str, proxy: gcs_proxy.Proxy) -> None:
    proxy.spoil = lambda request: 403
    with pytest.raises(UserError, match=r"No permission to write .*model\.lock"):
        lock.held(storage.join(gcs, "model"), say=lambda text: None).__enter__()
