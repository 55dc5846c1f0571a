"""Keeps Tunix from writing every rollout of a step into the log; `components.rewards.recorder` has them as JSON lines.

Tunix logs prompts, completions and ids as printed numpy arrays, and MaxText's own log filter formats each message again
to look for noise, which costs more time than it tells. The filter here comes before that one and looks at the
unformatted text only.
"""

from __future__ import annotations

import logging

_ROLLOUT_TEXT = "Rollout string metric"


def drop_rollout_texts() -> None:
    """Adds the filter to the logger that Tunix uses. Call before train_rl adds its own."""
    logging.getLogger("absl").addFilter(lambda record: not str(record.msg).startswith(_ROLLOUT_TEXT))
