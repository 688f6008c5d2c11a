"""``mask:N``: the whole history, but tool outputs older than N turns are one line each.

Calls and what was said stay, so the model still knows what it did, not what it saw. Masking one more output at every
step writes the last N turns anew at every step; ``poll`` masks only every so many steps and shows between N and
N + poll - 1 outputs whole. ``poll=1`` is the published default, 10 is ours.

Parameters: ``turns`` (10), ``poll`` (10).

Source: observation masking in SWE-agent (``last_n_observations``, ``polling``); Lindenbauer et al., "The Complexity
Trap" (2025): half the cost of raw history at equal success.
"""

from __future__ import annotations

from .shared.linear import OneConversation, Rules, newest_whole, one_line
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse


def mask(parameters: str) -> OneConversation:
    chosen = parse("mask", parameters, (Count("turns", 10), Count("poll", 10)))
    keep, poll = chosen.counts.values()
    return OneConversation(
        chosen.name, Rules(Partial(newest_whole, (keep, poll)), shorten=Partial(one_line, ("masked",)))
    )
