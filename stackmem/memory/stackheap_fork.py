"""``stackheap_fork``: as ``stackheap``, but a child goes on from a copy of its parent's conversation.

Nothing is lost at a push, and every prompt of the child is as long as its parent's and its own together. Source: our
own, ``stackheap`` with the branches of Context-Folding.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from stackmem.core.budgets import Budgets
from stackmem.core.heap import index
from stackmem.core.messages import View
from stackmem.core.requests import Effect
from stackmem.core.state import Frame, State
from stackmem.core.tools import PopFrame, Tool

from .shared.conversation import rolling_breakpoints
from .shared.inherited import inherited
from .shared.offers import HEAP, PUSH_FORK, WORKSPACE
from .shared.opening import opening
from .shared.parameters import parameters as parse
from .stackheap import heap_news


class StackHeapFork(Struct, frozen=True):
    name: str = "stackheap_fork"
    tools: tuple[Tool, ...] = (*WORKSPACE, PUSH_FORK, PopFrame, *HEAP)
    prompt: str = "stackheap+inherits"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        start = state.begun
        news = heap_news("on_change", start.budgets)
        messages = inherited(state, self.name, partial(_opening, start.budgets), news).messages
        return View(start.system, start.tools, messages, rolling_breakpoints(messages, len(messages[-1].parts)))

    def upkeep(self, state: State) -> Effect | None:
        return None


def _opening(budgets: Budgets, frame: Frame) -> str:
    return opening(frame, budgets, index(frame.opened, budgets))


def stackheap_fork(parameters: str) -> StackHeapFork:
    parse("stackheap_fork", parameters)
    return StackHeapFork()
