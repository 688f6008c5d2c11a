"""``memory_dir:TOKENS``: a directory of notes behind one tool; nothing of it is shown until it is viewed.

The conversation is that of ``clear``, for which the directory was made: what matters is written to a file before the
results it came from are cleared. It clears earlier than ``clear`` does, at 32,000 tokens, for the same reason.

Parameters: ``tokens`` (32,000), ``keep`` (3).

Source: Anthropic's memory tool (``memory_20250818``) together with its context editing.
"""

from __future__ import annotations

from stackmem.core.tools import Memory

from .clear import cleared
from .shared.linear import OneConversation
from .shared.offers import ONE_FRAME
from .shared.parameters import Count
from .shared.parameters import parameters as parse


def memory_dir(parameters: str) -> OneConversation:
    chosen = parse("memory_dir", parameters, (Count("tokens", 32_000), Count("keep", 3)))
    tools = (*ONE_FRAME[:-1], Memory, ONE_FRAME[-1])
    return OneConversation(chosen.name, cleared(*chosen.counts.values()), tools, "memory_dir")
