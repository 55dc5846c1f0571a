"""What a heavy stage wants run. Pure data: building one starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Workload:
    """A command and what it needs.

    Attributes:
      stage: the stage that wants it; prefix of its log lines.
      run_id: the run it belongs to.
      command: program and arguments. Never holds a secret's value.
      env: environment on top of the engine's own; never a secret's value.
      deadline_s: seconds after which the engine ends it.
    """

    stage: str
    run_id: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float = 24 * 3600.0


@dataclass(frozen=True)
class Outcome:
    """How a workload went: it succeeded, took `seconds`, and its whole log is at `log`."""

    seconds: float
    log: str


OnLine = Callable[[str], None]
