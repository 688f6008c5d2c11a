"""``heap``: the heap with its index, and one frame only. What the stack adds is what ``stackheap`` has over it.

Nothing ever leaves the conversation, so chunks are notes that stand out of it by name, and no more. Source: our own, an
ablation of ``stackheap``.
"""

from __future__ import annotations

from stackmem.core.heap import index
from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.core.tools import END_RUN

from .shared.conversation import Growing, own_view
from .shared.offers import HEAP, WORKSPACE
from .shared.parameters import parameters as parse
from .stackheap import heap_news


def _show(state: State, name: str) -> View:
    frame, budgets = state.running, state.begun.budgets
    own = f"TASK\n{frame.task}\n\n{index(frame.opened, budgets)}"
    return own_view(state, name, own, heap_news("on_change", budgets))


def heap(parameters: str) -> Growing:
    parse("heap", parameters)
    return Growing("heap", (*WORKSPACE, *HEAP, END_RUN), _show, "heap")
