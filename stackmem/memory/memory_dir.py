"""``memory_dir:TOKENS``: a directory of notes behind one tool; nothing of it is shown until it is viewed.

The conversation is that of ``clear``, for which the directory was made: what matters is written to a file before the
results it came from are cleared. It clears earlier than ``clear`` does, at 32,000 tokens, for the same reason.

Parameters: ``tokens`` (32,000), ``keep`` (3).

Source: Anthropic's memory tool (``memory_20250818``) together with its context editing.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.calls import Call
from stackmem.core.effects import Effect
from stackmem.core.messages import View
from stackmem.core.more_calls import Memory
from stackmem.core.state import State

from .clear import Clear
from .linear import TOOLS, conversation, view
from .parameters import Count
from .parameters import parameters as parse


class MemoryDir(Struct, frozen=True):
    """Attributes:
    clearing: When results leave the conversation.
    """

    name: str = "memory_dir"
    clearing: Clear = Clear(trigger=32_000)
    tools: tuple[type[Call], ...] = (*TOOLS[:-1], Memory, TOOLS[-1])
    prompt: str = "memory_dir"
    prefix_stable: bool = False

    def render(self, state: State) -> View:
        return view(state, conversation(state, self.clearing, self.name))

    def upkeep(self, state: State) -> Effect | None:
        return None


def memory_dir(parameters: str) -> MemoryDir:
    chosen = parse("memory_dir", parameters, (Count("tokens", 32_000), Count("keep", 3)))
    return MemoryDir(chosen.name, Clear(trigger=chosen.counts["tokens"], keep=chosen.counts["keep"]))
