"""``stackheap_fork``: as ``stackheap``, but a child goes on from a copy of its parent's conversation.

Nothing is lost at a push, and every prompt of the child is as long as its parent's and its own together. Source: our
own, ``stackheap`` with the branches of Context-Folding.
"""

from __future__ import annotations

from functools import partial

from stackmem.core.budgets import Budgets
from stackmem.core.heap import index
from stackmem.core.messages import View
from stackmem.core.state import Frame, State
from stackmem.core.tools import PopFrame

from .shared.conversation import Growing
from .shared.inherited import inherited_view
from .shared.offers import HEAP, PUSH_FORK, WORKSPACE
from .shared.opening import opening
from .shared.parameters import parameters as parse
from .stackheap import heap_news


def _show(state: State, name: str) -> View:
    budgets = state.begun.budgets
    return inherited_view(state, name, partial(_opening, budgets), heap_news("on_change", budgets))


def _opening(budgets: Budgets, frame: Frame) -> str:
    return opening(frame, budgets, index(frame.opened, budgets))


def stackheap_fork(parameters: str) -> Growing:
    parse("stackheap_fork", parameters)
    return Growing("stackheap_fork", (*WORKSPACE, PUSH_FORK, PopFrame, *HEAP), _show, "stackheap+inherits")
