"""Carries out an order inside a pod: `python3 -m components.workloads.inside`, the order in POSTTRAIN_WORKLOAD.

It fetches the inputs, runs the command, stores the outputs, the log and `outcome.json`, and exits with 0 only when all
of that is done. It ends the command when the launcher has been silent for too long: KFP and Vertex kill a launcher
without giving it time to delete anything, and the slice must not burn on. On hosts other than the first only the
command runs, which is how JAX programs span hosts; the first host speaks for all, but each for its own failure.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from typing import Self

from components import storage
from components.errors import UserError, WorkloadError
from components.progress import duration
from components.workloads import process
from components.workloads.names import SLICE_VARIABLE
from components.workloads.workload import (
    HEARTBEAT,
    LOG,
    ORDER_VARIABLE,
    OUTCOME,
    OUTCOME_OF_HOST,
    Order,
    Output,
    PodOutcome,
    Tpu,
    Workload,
)


def main() -> int:
    """Returns the exit code: 0, 1 for a workload that failed, 2 for a mistake of the user."""
    order = Order.model_validate_json(os.environ[ORDER_VARIABLE])
    place = os.environ.get(SLICE_VARIABLE, "0"), os.environ.get("JOB_COMPLETION_INDEX", "0")
    if place == ("0", "0"):
        return _lead(order)
    host = "slice {}, host {}".format(*place)
    if not isinstance(order.workload.needs, Tpu) or order.workload.needs.one_host:
        print(f"{host}: idle, the first host works", flush=True)
        return 0
    return _follow(order, host, storage.join(order.directory, OUTCOME_OF_HOST.format(*place)))


def _lead(order: Order) -> int:
    """What the first host does: everything, and it accounts for it."""
    account = storage.join(order.directory, OUTCOME)
    storage.delete_file(account)  # of a pod that this one takes the place of
    outcome, code = _carry_out(order, order.workload, storage.join(order.directory, LOG))
    if outcome.reason:
        print(f"{order.workload.stage}: {outcome.reason}", flush=True)
    storage.write_text(account, outcome.model_dump_json(indent=1))
    return code


def _follow(order: Order, host: str, account: str) -> int:
    """What another host does: the command, whose outputs only the first host stores. It accounts for a failure."""
    storage.delete_file(account)
    with tempfile.TemporaryDirectory() as scratch:
        thrown_away = tuple(Output(name=out.name, uri=f"{scratch}/{out.name}") for out in order.workload.outputs)
        workload = order.workload.model_copy(update={"outputs": thrown_away, "marker": None})
        outcome, code = _carry_out(order, workload, f"{scratch}/{LOG}")
    if outcome.reason:
        said = outcome.model_copy(update={"reason": f"On {host}: {outcome.reason}"})
        print(f"{order.workload.stage}: {said.reason}", flush=True)
        storage.write_text(account, said.model_dump_json(indent=1))
    return code


def _carry_out(order: Order, workload: Workload, log: str) -> tuple[PodOutcome, int]:
    """Runs the workload; returns how it went, and the exit code."""
    started = time.monotonic()

    def failed(reason: str, evidence: tuple[str, ...] = (), **how: bool) -> PodOutcome:
        seconds = round(time.monotonic() - started, 1)
        return PodOutcome(name=order.name, succeeded=False, seconds=seconds, reason=reason, evidence=evidence, **how)

    try:
        with _Silence(order) as silence:
            process.run(workload, log, _say, stop=silence.reason)
    except WorkloadError as error:
        return failed(error.reason, error.evidence, abandoned=silence.noticed), 1
    except UserError as error:  # an input that is not there, an output that may not be written
        return failed(str(error)), 2
    except SystemExit as ended:  # SIGTERM: the pod is being deleted, preempted or evicted
        reason = "The pod was told to end: it was deleted, evicted or preempted before its work was whole."
        return failed(reason, interrupted=True), int(ended.code or 1)
    return PodOutcome(name=order.name, succeeded=True, seconds=round(time.monotonic() - started, 1)), 0


def _say(line: str) -> None:
    print(line, flush=True)


# of the silence bound: how often the heartbeat is looked at, and after how long without one the command is ended, so
# that command, log and pod have ended too when the bound is over
_LOOK, _ENOUGH = 0.1, 0.75


class _Silence:
    """While entered, notices that the launcher's heartbeat has stopped, by this machine's own clock; `noticed` says that
    it has.
    """

    def __init__(self, order: Order) -> None:
        self._uri = storage.join(order.directory, HEARTBEAT)
        self._bound = order.silence_s
        self.noticed = False
        self._last, self._since = "", time.monotonic()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if self._bound is not None:
            threading.Thread(target=self._listen, args=(self._bound * _LOOK,), name="silence", daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()

    def reason(self) -> str | None:
        """Why the command must end, or None."""
        if self._bound is None or time.monotonic() - self._since < self._bound * _ENOUGH:
            return None
        self.noticed = True
        return (
            f"Its launcher fell silent, so the workload ended itself within {duration(self._bound)} to free the slice: "
            "`posttrain run --resume` continues it."
        )

    def _listen(self, period: float) -> None:
        while not self._over.wait(period):
            try:
                beat = storage.read_text(self._uri)
            except UserError:  # a bucket out of reach cannot tell that the launcher lives
                beat = self._last
            if beat != self._last:
                self._last, self._since = beat, time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
