"""A finding: what a check saw, how bad it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Status = Literal["ok", "warning", "failure", "unknown"]


class Result(NamedTuple):
    """What a check says: `unknown` is what could not be looked at, with the reason. Text and cure are one line each."""

    status: Status
    text: str
    cure: str = ""


@dataclass(frozen=True)
class Finding:
    """A result with the short name of its check."""

    check: str
    status: Status
    text: str
    cure: str


def finding(check: str, result: Result) -> Finding:
    """The result of the check of that name, brought to one line each."""
    return Finding(check, result.status, _line(result.text), _line(result.cure))


def ok(text: str) -> Result:
    """It is as it must be."""
    return Result("ok", text)


def warning(text: str, cure: str) -> Result:
    """The run may work, but not as the user thinks, or not for sure."""
    return Result("warning", text, cure)


def failure(text: str, cure: str = "") -> Result:
    """The run would fail. A text that tells the cure itself needs no second one."""
    return Result("failure", text, cure)


def unknown(text: str, cure: str = "") -> Result:
    """It could not be looked at; `text` says why."""
    return Result("unknown", text, cure)


def _line(text: str) -> str:
    return " ".join(text.split())
