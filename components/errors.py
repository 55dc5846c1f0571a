"""The two ways a run can end badly that a person must be able to tell apart.

`UserError` is the user's mistake: one line that says what is wrong and how to cure it, printed without a traceback,
exit code 2, raised before anything is spent. `WorkloadError` is a workload that ran and failed: exit code 1. Everything
else is a fault of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can mend. The message is one line: what is wrong, then the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class WorkloadError(RuntimeError):
    """A workload failed.

    Attributes:
      stage: the stage whose workload it was.
      reason: one sentence with the cause and the cure.
      evidence: the lines of the log that the reason was read from, oldest first.
    """

    def __init__(self, stage: str, reason: str, evidence: Iterable[str] = ()) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason
        self.evidence = tuple(evidence)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the known word nearest to `word`, or an empty string when none is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.55)
    return f" Did you mean '{near[0]}'?" if near else ""
