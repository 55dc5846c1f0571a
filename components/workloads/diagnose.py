"""From the log of a failed workload to one sentence with the cause and the cure.

In: the last lines of a log and how the process ended. Out: `(reason, evidence)`. A known text (signatures.py) wins; an
unknown failure gives the last line that looks like an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from components.workloads import signatures

_ERROR_LINE = re.compile(r"^\s*(\w+\.)*\w*(Error|Exception|Interrupt)\b.*")


def diagnose(lines: Sequence[str], *, exit_code: int) -> tuple[str, list[str]]:
    """Returns the reason as one sentence with the cure, and the lines that it was read from (at most 12)."""
    if known := signatures.found_in(lines):
        return known
    if exit_code in (-9, 137):
        return (
            "It was killed (SIGKILL): usually the machine ran out of memory; lower train.batch_size or close other programs.",
            list(lines[-3:]),
        )
    if exit_code < 0:
        return f"It was ended by signal {-exit_code}.", list(lines[-3:])
    return last_error(lines) or (f"It ended with exit code {exit_code}.", list(lines[-8:]))


def last_error(lines: Sequence[str]) -> tuple[str, list[str]] | None:
    """Returns the last line that looks like an error, as `diagnose` does, and the lines around it."""
    for number in range(len(lines) - 1, -1, -1):
        if _ERROR_LINE.match(lines[number]):
            return f"It failed: {lines[number].strip()[:300]}", list(lines[max(0, number - 8) : number + 2])
    return None
