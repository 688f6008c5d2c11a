"""``stack``: frames with registers, and no heap. What the heap adds is what ``stackheap`` has over it.

A child knows what stands in its registers and its context, and what it finds in files; nothing else outlives a frame
but its result. Source: our own, an ablation of ``stackheap``.
"""

from __future__ import annotations

from stackmem.core.messages import View
from stackmem.core.state import State

from .shared.conversation import Growing, own_view
from .shared.offers import POP_CLEAN, PUSH_CLEAN, WORKSPACE
from .shared.opening import opening
from .shared.parameters import parameters as parse


def _show(state: State, name: str) -> View:
    return own_view(state, name, opening(state.running, state.begun.budgets))


def stack(parameters: str) -> Growing:
    parse("stack", parameters)
    return Growing("stack", (*WORKSPACE, PUSH_CLEAN, POP_CLEAN), _show, "stack")
