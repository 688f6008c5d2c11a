"""``heap``: the heap with its index, and one frame only. What the stack adds is what ``stackheap`` has over it.

Nothing ever leaves the conversation, so chunks are notes that stand out of it by name, and no more. Source: our own, an
ablation of ``stackheap``.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.heap import index
from stackmem.core.messages import View
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.tools import END_RUN, Tool

from .shared.conversation import own_view
from .shared.offers import HEAP, WORKSPACE
from .shared.parameters import parameters as parse
from .stackheap import heap_news


class OneFrame(Struct, frozen=True):
    name: str = "heap"
    tools: tuple[Tool, ...] = (*WORKSPACE, *HEAP, END_RUN)
    prompt: str = "heap"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        frame, budgets = state.running, state.begun.budgets
        own = f"TASK\n{frame.task}\n\n{index(frame.opened, budgets)}"
        return own_view(state, self.name, own, heap_news("on_change", budgets))

    def upkeep(self, state: State) -> Effect | None:
        return None


def heap(parameters: str) -> OneFrame:
    parse("heap", parameters)
    return OneFrame()
