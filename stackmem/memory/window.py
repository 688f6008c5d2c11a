"""``window:N``: the task and the last N turns; what is older is left out.

A window that moves at every step writes the whole prompt anew at every step. So it moves ``step`` turns at a time and
shows between N and N + step - 1 of them; ``step=1`` is the textbook window.

Parameters: ``turns`` (20), ``step`` (10).

Source: the sliding window of most chat applications; Anthropic's cost guide for what moving it costs.
"""

from __future__ import annotations

from .shared.linear import OneConversation, Rules, left_out, newest_shown
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse


def window(parameters: str) -> OneConversation:
    chosen = parse("window", parameters, (Count("turns", 20), Count("step", 10)))
    keep, step = chosen.counts.values()
    return OneConversation(chosen.name, Rules(Partial(newest_shown, (keep, step)), left_out))
