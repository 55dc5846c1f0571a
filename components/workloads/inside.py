"""Carries out an order inside a pod: `python3 -m components.workloads.inside`, the order in POSTTRAIN_WORKLOAD.

It fetches the inputs, runs the command, stores the outputs, the log and `outcome.json`, and exits with 0 only when all
of that is done. It ends the command when the launcher has been silent for too long: KFP and Vertex kill a launcher
without giving it time to delete anything, and the slice must not burn on. On hosts other than the first only the
command runs, which is how JAX programs span hosts; the first host speaks for all.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time

from components import storage
from components.errors import UserError, WorkloadError
from components.progress import duration
from components.workloads import process
from components.workloads.names import SLICE_VARIABLE
from components.workloads.workload import HEARTBEAT, LOG, ORDER_VARIABLE, OUTCOME, Order, PodOutcome, Tpu


def main() -> int:
    """Returns the exit code: 0, 1 for a workload that failed, 2 for a mistake of the user."""
    order = Order.model_validate_json(os.environ[ORDER_VARIABLE])
    slice_, host = (os.environ.get(name, "0") for name in (SLICE_VARIABLE, "JOB_COMPLETION_INDEX"))
    if (slice_, host) != ("0", "0"):
        return _follow(order, f"slice {slice_}, host {host}")
    started = time.monotonic()
    outcome, code = _carry_out(order, started)
    if outcome.reason:
        print(f"{order.workload.stage}: {outcome.reason}", flush=True)
    storage.write_text(storage.join(order.directory, OUTCOME), outcome.model_dump_json(indent=1))
    return code


def _carry_out(order: Order, started: float) -> tuple[PodOutcome, int]:
    def outcome(reason: str = "", evidence: tuple[str, ...] = ()) -> PodOutcome:
        seconds = round(time.monotonic() - started, 1)
        return PodOutcome(name=order.name, succeeded=not reason, seconds=seconds, reason=reason, evidence=evidence)

    silence = _Silence(order)
    try:
        process.run(order.workload, storage.join(order.directory, LOG), _say, stop=silence.reason)
    except WorkloadError as error:
        return outcome(error.reason, error.evidence), 1
    except UserError as error:  # an input that is not there, an output that may not be written
        return outcome(str(error)), 2
    except SystemExit as ended:  # SIGTERM: the pod is being deleted, preempted or evicted
        reason = "The pod was told to end: it was deleted, evicted or preempted before its work was whole."
        return outcome(reason), int(ended.code or 1)
    return outcome(), 0


def _follow(order: Order, host: str) -> int:
    """What a host other than the first does: the command, if every host runs it; the outputs are the first host's."""
    needs = order.workload.needs
    if not isinstance(needs, Tpu) or needs.one_host:
        print(f"{host}: idle, the first host works", flush=True)
        return 0
    workload = order.workload.model_copy(update={"outputs": (), "marker": None})
    with tempfile.TemporaryDirectory() as scratch:
        try:
            process.run(workload, os.path.join(scratch, LOG), _say, stop=_Silence(order).reason)  # noqa: PTH118
        except (WorkloadError, UserError) as error:
            print(f"{host}: {error}", flush=True)
            return 1
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


# of the silence bound: how often the heartbeat is looked at, and after how long without one the command is ended, so
# that command, log and pod have ended too when the bound is over
_LOOK, _ENOUGH = 0.1, 0.75


class _Silence:
    """Notices that the launcher's heartbeat has stopped, by this machine's own clock."""

    def __init__(self, order: Order) -> None:
        self._uri = storage.join(order.directory, HEARTBEAT)
        self._bound = order.silence_s
        self._last, self._since = "", time.monotonic()
        if self._bound is not None:
            threading.Thread(target=self._listen, args=(self._bound * _LOOK,), daemon=True).start()

    def reason(self) -> str | None:
        """Why the command must end, or None."""
        if self._bound is None or time.monotonic() - self._since < self._bound * _ENOUGH:
            return None
        return (
            f"Its launcher fell silent, so the workload ended itself within {duration(self._bound)} to free the slice: "
            "`posttrain run --resume` continues it."
        )

    def _listen(self, period: float) -> None:
        while True:
            try:
                beat = storage.read_text(self._uri)
            except UserError:  # a bucket out of reach cannot tell that the launcher lives
                beat = self._last
            if beat != self._last:
                self._last, self._since = beat, time.monotonic()
            time.sleep(period)


if __name__ == "__main__":
    sys.exit(main())
