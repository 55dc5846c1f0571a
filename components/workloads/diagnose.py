"""From the log of a failed workload to one sentence with the cause and the cure.

In: the last lines of a log and how the process ended. Out: `(reason, evidence)`. A known text (signatures.py) wins; an
unknown failure gives the last line that looks like an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from components.workloads import signatures

# a worker of Ray's stands before what it said
_ERROR_LINE = re.compile(r"^\s*(?:\(\w+ pid=[^)]*\)\s*)?(?P<said>(\w+\.)*\w*(Error|Exception|Interrupt)\b.*)")
# it only says that workers failed, not why
_NO_CAUSE = re.compile(r"\bWorkerGroupError\b")


def diagnose(lines: Sequence[str], *, exit_code: int) -> tuple[str, list[str]]:
    """Returns the reason as one sentence with the cure, and the lines that it was read from (at most 12)."""
    if known := signatures.found_in(lines):
        return known
    if exit_code in (-9, 137):
        return (
            "It was killed (SIGKILL): usually the machine ran out of memory; lower the batch size or close other programs.",
            list(lines[-3:]),
        )
    if exit_code < 0:
        return f"It was ended by signal {-exit_code}.", list(lines[-3:])
    return last_error(lines) or (f"It ended with exit code {exit_code}.", list(lines[-8:]))


def last_error(lines: Sequence[str]) -> tuple[str, list[str]] | None:
    """Returns the last line that looks like an error, as `diagnose` does, and the lines around it."""
    errors = [(number, match["said"]) for number, line in enumerate(lines) if (match := _ERROR_LINE.match(line))]
    if not errors:
        return None
    causes = [error for error in errors if not _NO_CAUSE.search(error[1])]
    number, said = (causes or errors)[-1]
    return f"It failed: {said.strip()[:300]}", list(lines[max(0, number - 8) : number + 2])
