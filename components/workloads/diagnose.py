"""From the log of a failed workload to one sentence with the cause and the cure.

In: the last lines of a log and how the process ended. Out: `(reason, evidence)`. The signatures are tried in order, the
first that matches wins; an unknown failure gives the last line that looks like an error, and says where the whole log
is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """A pattern in a log and the sentence that it means."""

    pattern: re.Pattern[str]
    reason: str


def _s(pattern: str, reason: str) -> Signature:
    return Signature(re.compile(pattern), reason)


SIGNATURES = (
    _s(r"No space left on device", "The disk is full: free space or point --output at another disk."),
    _s(
        r"RESOURCE_EXHAUSTED|Out of memory|MemoryError|std::bad_alloc",
        "Out of memory: lower train.batch_size or train.num_generations.",
    ),
    _s(
        r"sampler disagrees with the MaxText model",
        "The CPU sampler's logits differ from MaxText's: the model is not one it knows.",
    ),
    _s(
        r"File does not contain tensor",
        "The source model has other tensors than model.name promises: check model.name and model.sizes.",
    ),
    _s(
        r"has no chat_template",
        "The tokenizer has no chat template: use an instruction-tuned model or add chat_template.jinja.",
    ),
    _s(
        r"Permission denied|PermissionError",
        "A file or directory may not be written: check the permissions of --output and of the store.",
    ),
    _s(r"No module named '(\S+)'", "A Python package is missing in the image: rebuild it from images/."),
    _s(
        r"ValidationError|Unrecognized|validation error",
        "MaxText refused its settings: see the evidence, then check `maxtext:` in the preset.",
    ),
)
_ERROR_LINE = re.compile(r"^\s*(\w+\.)*\w*(Error|Exception|Interrupt)\b.*")


def diagnose(lines: Sequence[str], *, exit_code: int, timed_out: bool, deadline_s: float) -> tuple[str, list[str]]:
    """Returns the reason as one sentence with the cure, and the lines that it was read from (at most 12)."""
    if timed_out:
        return (
            f"It ran longer than its deadline of {deadline_s:.0f} s: raise deadline_s of the stage or make it smaller.",
            list(lines[-3:]),
        )
    for signature in SIGNATURES:
        for number, line in enumerate(lines):
            if signature.pattern.search(line):
                return signature.reason, list(lines[max(0, number - 2) : number + 3])
    if exit_code in (-9, 137):
        return (
            "It was killed (SIGKILL): usually the machine ran out of memory; lower train.batch_size or close other programs.",
            list(lines[-3:]),
        )
    if exit_code < 0:
        return f"It was ended by signal {-exit_code}.", list(lines[-3:])
    for number in range(len(lines) - 1, -1, -1):
        if _ERROR_LINE.match(lines[number]):
            return f"It failed: {lines[number].strip()[:300]}", list(lines[max(0, number - 8) : number + 2])
    return f"It ended with exit code {exit_code}.", list(lines[-8:])
