"""Target `local`: the compiled YAML, run by KFP's local runner on this machine.

In: a `Run` and the YAML of its pipeline. Out: the run's home with `run.json`, `report.html`, a folder per stage (where
the data is on this machine) and `log.txt` with every line that any process wrote. The stages are processes of their
own; this process only conducts them and shows their progress. A failing run still gets `run.json` and a page.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator

from components import storage
from components.errors import UserError
from components.plan import PLAN, AnyPlan
from components.report.assemble import PAGE, RUN, assemble, write
from components.results import RunRecord, Verdict
from components.stage import Failure
from pipelines import registry
from pipelines.console import Console, Tee
from pipelines.launch import Run


def run(the_run: Run, pipeline_yaml: str, console: Console) -> RunRecord:
    """Runs the pipeline to its end and returns the run's record; `status` says whether it succeeded."""
    started = time.monotonic()
    with _claimed(the_run, pipeline_yaml):
        error = _execute(the_run, pipeline_yaml, console)
        return _finish(the_run, time.monotonic() - started, error)


def exit_code(plan: AnyPlan, record: RunRecord) -> int:
    """0 success, 1 the run failed or measured nothing, 2 the user's mistake that only a stage could see."""
    failure = storage.join(plan.run_dir, "failure.json")
    if record.status != "succeeded":
        theirs = storage.exists(failure) and Failure.model_validate_json(storage.read_text(failure)).users_mistake
        return 2 if theirs else 1
    return 1 if record.evaluation and record.evaluation.verdict is Verdict.INVALID else 0


def _execute(the_run: Run, pipeline_yaml: str, console: Console) -> str | None:
    """Returns None, or what KFP says of the failed run (the reason itself is in the stage's own last line)."""
    from kfp import components, local

    warnings.filterwarnings("ignore", module="kfp")
    plan, directory = the_run.plan, the_run.home
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(directory / "kfp"), raise_on_error=True)
    pipeline = components.load_component_from_text(pipeline_yaml)
    with (
        _scratch(),
        (directory / "log.txt").open("a", encoding="utf-8") as log,
        console,
        contextlib.redirect_stdout(Tee(log, console)),
    ):
        try:
            pipeline(config=plan.config.model_dump_json(), run_id=plan.run_id, output=plan.run_dir, store=plan.store)
        except RuntimeError as error:  # how KFP reports a failed task; the reason is in failure.json or in the log
            return f"{error} The reason is near the end of {directory / 'log.txt'}."
        finally:
            logging.getLogger().handlers.clear()
    return None


@contextlib.contextmanager
def _scratch() -> Iterator[None]:
    """While inside, temporary files of this process and of all stages are in a folder that is removed at the end: KFP's
    runner leaves two for each stage, and a stage that is killed leaves its own.
    """
    before = tempfile.gettempdir(), os.environ.get("TMPDIR")
    # short, for sockets have their place there
    with tempfile.TemporaryDirectory(prefix="pt-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            tempfile.tempdir = before[0]
            os.environ.pop("TMPDIR")
            if before[1] is not None:
                os.environ["TMPDIR"] = before[1]


def _finish(the_run: Run, seconds: float, error: str | None) -> RunRecord:
    """A run that succeeded has its page from the stage `report`; a failed one gets it here."""
    plan = the_run.plan
    record = assemble(plan, seconds=seconds, error=error)
    if error:
        write(plan, record)
    else:
        storage.write_text(storage.join(plan.run_dir, RUN), record.model_dump_json(indent=1))
    if not storage.is_local(plan.run_dir):
        for name in (PAGE, RUN):
            storage.copy_file(storage.join(plan.run_dir, name), the_run.home / name)
    return record


@contextlib.contextmanager
def _claimed(the_run: Run, pipeline_yaml: str) -> Iterator[None]:
    """Makes the run's home this run's own while it runs."""
    plan, directory = the_run.plan, the_run.home
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / "run.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go by the kernel, however this process ends
    except BlockingIOError as error:
        raise UserError(f"Another run is at work in {directory}: wait for it, or choose another --output.") from error
    plan.enlist(str(directory))
    storage.write_text(storage.join(plan.run_dir, PLAN), plan.model_dump_json(indent=1))
    (directory / "pipeline.yaml").write_text(pipeline_yaml)
    for stale in ("failure.json", RUN):  # of an earlier attempt
        storage.delete_file(storage.join(plan.run_dir, stale))
    pid = directory / registry.PID
    pid.write_text(str(os.getpid()))
    previous = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
        pid.unlink(missing_ok=True)
        lock.close()


def _stop(_signum: int, _frame: object) -> None:
    # unwinds through KFP's runner, which closes the stage's output; the stage then ends its workload
    raise KeyboardInterrupt
