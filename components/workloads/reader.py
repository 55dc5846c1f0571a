"""Whether somebody still reads what this process says: the sign of life of whoever started it."""

from __future__ import annotations

import select

_STDOUT = 1


def is_gone() -> bool:
    """Whether the other end of standard output is closed, as a killed run leaves it to the stages below it."""
    poller = select.poll()
    poller.register(_STDOUT, select.POLLERR)  # the reader of a pipe closing it shows as an error at the writer's end
    return any(event & select.POLLERR for _, event in poller.poll(0))
