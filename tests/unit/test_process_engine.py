"""The engine `process`: what a person relies on when a workload runs on this machine."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from components.errors import WorkloadError
from components.workloads import process
from components.workloads.workload import Workload


def workload(code: str, **kwargs) -> Workload:
    return Workload(stage="train", run_id="r", command=(sys.executable, "-c", textwrap.dedent(code)), **kwargs)


def gone(pid: int, within_s: float = 20.0) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_lines_come_as_they_are_written_and_are_kept(tmp_path):
    seen: list[str] = []
    outcome = process.run(workload("print('one'); print('two\\rthree')"), str(tmp_path / "log.txt"), seen.append)
    assert seen == ["one", "two", "three"]
    assert Path(outcome.log).read_text().split() == seen


def test_what_a_killed_workload_has_started_ends_with_it(tmp_path):
    code = """
        import os, signal, subprocess
        print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    seen: list[str] = []
    with pytest.raises(WorkloadError):
        process.run(workload(code), str(tmp_path / "log.txt"), seen.append)
    assert gone(int(seen[0]))


def test_environment_reaches_the_workload_and_standard_error_is_kept(tmp_path):
    seen: list[str] = []
    code = "import os, sys; print(os.environ['X'], file=sys.stderr)"
    process.run(workload(code, env={"X": "here"}), str(tmp_path / "log.txt"), seen.append)
    assert seen == ["here"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise OSError(28, 'No space left on device')", "disk is full"),
        ("raise MemoryError", "Out of memory"),
        ("raise SystemExit('RESOURCE_EXHAUSTED: while allocating')", "Out of memory"),
        ("import no_such_package", "package is missing"),
        ("raise SystemExit('SafetensorError: File does not contain tensor model.x')", "other tensors"),
        ("raise KeyError('left')", "KeyError: 'left'"),
        ("raise SystemExit(7)", "exit code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed (SIGKILL)"),
    ],
)
def test_a_failure_is_said_in_one_sentence(tmp_path, code, reason):
    with pytest.raises(WorkloadError) as failure:
        process.run(workload(code), str(tmp_path / "log.txt"), lambda line: None)
    assert reason in failure.value.reason
    assert "\n" not in failure.value.reason


def test_the_deadline_ends_the_workload_and_all_that_it_started(tmp_path):
    pids: list[str] = []
    code = """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.pid, flush=True)
        time.sleep(600)
    """
    with pytest.raises(WorkloadError, match="deadline of 3 s"):
        process.run(workload(code, deadline_s=3), str(tmp_path / "log.txt"), pids.append)
    assert gone(int(pids[0]))


def test_a_workload_that_ends_well_without_its_marker_is_not_whole(tmp_path):
    with pytest.raises(WorkloadError, match="never said 'all done'"):
        process.run(workload("print('one')", marker="all done"), str(tmp_path / "log.txt"), lambda line: None)
    process.run(workload("print('now all done')", marker="all done"), str(tmp_path / "log.txt"), lambda line: None)


def test_a_reason_to_stop_ends_the_workload_and_is_the_failure(tmp_path):
    pids: list[str] = []
    with pytest.raises(WorkloadError, match="enough"):
        process.run(
            workload("import os, time; print(os.getpid(), flush=True); time.sleep(600)"),
            str(tmp_path / "log.txt"),
            pids.append,
            stop=lambda: "enough" if pids else None,
        )
    assert gone(int(pids[0]))


LAUNCHER = """
    import sys
    from components.workloads import process
    from components.workloads.workload import Workload
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    work = Workload(stage="train", run_id="r", command=(sys.executable, "-c", code))
    process.run(work, sys.argv[1], lambda line: print(line, flush=True))
"""


def start_launcher(tmp_path) -> tuple[subprocess.Popen, int]:
    launcher = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(LAUNCHER), str(tmp_path / "log.txt")], stdout=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    return launcher, int(launcher.stdout.readline())


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_workload_does_not_outlive_its_launcher(tmp_path, signum):
    launcher, pid = start_launcher(tmp_path)
    os.kill(launcher.pid, signum)
    launcher.wait(30)
    assert gone(pid)


def test_a_workload_ends_when_nobody_reads_the_launcher_any_more(tmp_path):
    launcher, pid = start_launcher(tmp_path)
    launcher.stdout.close()  # what a kill -9 of the run does to the stages below it
    assert gone(pid)
    launcher.wait(30)
