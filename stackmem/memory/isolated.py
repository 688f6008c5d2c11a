"""``isolated``: sub-agents with a clean conversation, that see their prompt; only the text of their result comes back.

Source: the sub-agents of Claude Code and Codex. Their prompts are longer than a register (4,000 characters), and there
is no memory but files that both can see.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import View
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.tools import Delegate, Tool

from .shared.conversation import own_view
from .shared.offers import POP_CLEAN, WORKSPACE
from .shared.opening import prompted
from .shared.parameters import parameters as parse


class Isolated(Struct, frozen=True):
    name: str = "isolated"
    tools: tuple[Tool, ...] = (*WORKSPACE, Delegate, POP_CLEAN)
    prompt: str = "isolated"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        return own_view(state, self.name, prompted("SUB-AGENT", state.running, state.begun.budgets))

    def upkeep(self, state: State) -> Effect | None:
        return None


def isolated(parameters: str) -> Isolated:
    parse("isolated", parameters)
    return Isolated()
