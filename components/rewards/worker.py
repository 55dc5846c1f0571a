"""The process that runs math-verify: JSON lines in, JSON lines out.

Started as a file by `pool.py`, not as a module of the package: a fresh interpreter that imports math-verify and nothing
of ours, so it costs one second, holds no accelerator and cannot run the parent's main module again.

First line out: `"ready"`. Then for every line `[[gold, ...], answer]` in, one line out: true, false, or the name of an
error. The parent bounds the time of each; this process bounds its own memory. An error of an unforeseen kind ends the
process, which the parent counts too.
"""

from __future__ import annotations

import functools
import json
import logging
import resource
import sys
from typing import Any

import math_verify  # type: ignore[import-untyped]
from sympy.polys.polyerrors import BasePolynomialError  # type: ignore[import-untyped]

MEMORY_BYTES = 2 << 30
PARSE_CACHE = 4096

# What sympy raises on expressions that it cannot compare.
FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    BasePolynomialError,
)


def limit_memory(limit: int = MEMORY_BYTES) -> None:
    """Turns a runaway expression into a MemoryError here instead of an out-of-memory kill of the trainer beside us."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


@functools.lru_cache(maxsize=PARSE_CACHE)
def parse(answer: str) -> tuple[Any, ...]:
    """What math-verify reads in an answer. Cached: a gold answer comes back with every completion of its question."""
    return tuple(math_verify.parse("\\boxed{" + answer + "}", parsing_timeout=None))


def verify(golds: list[str], answer: str) -> bool:
    """Whether math-verify finds the answer equal to any of the golds.

    Raises:
      one of FAILURES: what a comparison raised, when no other comparison found them equal.
    """
    failed: Exception | None = None
    for gold in golds:
        for ours in parse(gold):
            for theirs in parse(answer):
                try:
                    if math_verify.verify(ours, theirs, timeout_seconds=None, raise_on_error=True):
                        return True
                except FAILURES as error:
                    failed = error
    if failed is not None:
        raise failed
    return False


def main() -> None:
    """Serves until standard input closes."""
    out = sys.stdout
    sys.stdout = sys.stderr  # nothing that a library prints may get between the answers
    logging.disable(logging.WARNING)
    verify(["\\frac{1}{2}"], "0.5")  # builds the grammar's tables before the first clock starts
    limit_memory()
    print(json.dumps("ready"), file=out, flush=True)
    for line in sys.stdin:
        golds, answer = json.loads(line)
        try:
            result: bool | str = verify(golds, answer)
        except FAILURES as error:
            result = type(error).__name__
        print(json.dumps(result), file=out, flush=True)


if __name__ == "__main__":
    main()
