"""``stack``: frames with registers, and no heap. What the heap adds is what ``stackheap`` has over it.

A child knows what stands in its registers and its context, and what it finds in files; nothing else outlives a frame
but its result. Source: our own, an ablation of ``stackheap``.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import View
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.tools import Tool

from .shared.conversation import own_view
from .shared.offers import POP_CLEAN, PUSH_CLEAN, WORKSPACE
from .shared.opening import opening
from .shared.parameters import parameters as parse


class Stack(Struct, frozen=True):
    name: str = "stack"
    tools: tuple[Tool, ...] = (*WORKSPACE, PUSH_CLEAN, POP_CLEAN)
    prompt: str = "stack"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        return own_view(state, self.name, opening(state.running, state.begun.budgets))

    def upkeep(self, state: State) -> Effect | None:
        return None


def stack(parameters: str) -> Stack:
    parse("stack", parameters)
    return Stack()
