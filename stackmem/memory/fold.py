"""``fold``: a branch goes on from the whole conversation before it, and is folded to its result when it returns.

Source: "Scaling Long-Horizon LLM Agent via Context-Folding" (2025): ``branch`` and ``return``; there the branch's
prompt is appended to the main thread's context, and the main thread keeps only what was returned.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from stackmem.core.budgets import Budgets
from stackmem.core.messages import View
from stackmem.core.requests import Effect
from stackmem.core.state import Frame, State
from stackmem.core.tools import Branch, Return, Tool

from .shared.conversation import no_news, rolling_breakpoints
from .shared.inherited import inherited
from .shared.offers import WORKSPACE
from .shared.opening import prompted
from .shared.parameters import parameters as parse


class Fold(Struct, frozen=True):
    name: str = "fold"
    tools: tuple[Tool, ...] = (*WORKSPACE, Branch, Return)
    prompt: str = "fold"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        start = state.begun
        messages = inherited(state, self.name, partial(_opening, start.budgets), no_news).messages
        return View(start.system, start.tools, messages, rolling_breakpoints(messages, len(messages[-1].parts)))

    def upkeep(self, state: State) -> Effect | None:
        return None


def _opening(budgets: Budgets, frame: Frame) -> str:
    return prompted("BRANCH", frame, budgets)


def fold(parameters: str) -> Fold:
    parse("fold", parameters)
    return Fold()
