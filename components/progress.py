"""What a person sees of a running stage: one line of progress at a time, on standard output.

A line begins with the marker `posttrain[<stage>]`; whoever runs the pipeline (the local target, a KFP log viewer) can
pick these lines out of the log of the engines.
"""

from __future__ import annotations

import time

MARK = "posttrain["
FAILURE = "posttrain-failure: "


def say(stage: str, text: str) -> None:
    """Prints one line of progress."""
    print(f"{MARK}{stage}] {text}", flush=True)


class Countdown:
    """Time left of a loop whose length is known, from the pace since its first report (what comes before it is
    start-up).
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._marks: list[tuple[int, float]] = []

    def left(self, done: int) -> str:
        """Takes how much is done; returns the time left as `1 min 20 s`, or an empty string while there is no
        pace yet.
        """
        if not self._marks or done > self._marks[-1][0]:
            self._marks = [*self._marks[-20:], (done, time.monotonic())]
        (first, start), (last, end) = self._marks[0], self._marks[-1]
        if last == first:
            return ""
        return duration((self._total - done) * (end - start) / (last - first))


def duration(seconds: float) -> str:
    """`45 s`, `1 min 20 s` or `3 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
