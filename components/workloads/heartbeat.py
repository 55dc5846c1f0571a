"""Tells a workload that its launcher lives, by renewing a small file in the attempt's folder.

The other side is inside.py, in the pod: it ends the command when the file has not changed for `silence_s`.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

from components import storage
from components.progress import say
from components.workloads.workload import HEARTBEAT

_LONGEST_S = 60.0
_BEATS_IN_SILENCE = 5  # so many may fail before the pod takes the launcher for dead


class Heartbeat:
    """Beats while the block runs, several times in `silence_s`. A beat that cannot be stored is skipped.

    A detached workload gets it too: it does not listen, and the next launcher may take up one that does.
    """

    def __init__(self, stage: str, directory: str, silence_s: float) -> None:
        self._stage = stage
        self._file = storage.join(directory, HEARTBEAT)
        self._pause_s = min(_LONGEST_S, silence_s / _BEATS_IN_SILENCE)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._over.set()

    def _beat(self) -> None:
        stored = True
        while True:
            try:
                storage.write_text(self._file, f"{time.time()}\n")  # any text that is not the one before
                stored = True
            except Exception as error:  # whatever it is: without a next beat the workload would end itself
                if stored:
                    say(self._stage, f"the heartbeat cannot be stored, trying on: {error}")
                stored = False
            if self._over.wait(self._pause_s):
                return
