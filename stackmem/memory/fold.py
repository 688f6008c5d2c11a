"""``fold``: a branch goes on from the whole conversation before it, and is folded to its result when it returns.

Source: "Scaling Long-Horizon LLM Agent via Context-Folding" (2025): ``branch`` and ``return``; there the branch's
prompt is appended to the main thread's context, and the main thread keeps only what was returned.
"""

from __future__ import annotations

from functools import partial

from stackmem.core.budgets import Budgets
from stackmem.core.messages import View
from stackmem.core.state import Frame, State
from stackmem.core.tools import Branch, Return

from .shared.conversation import Growing, no_news
from .shared.inherited import inherited_view
from .shared.offers import WORKSPACE
from .shared.opening import prompt_opening
from .shared.parameters import parameters as parse


def _show(state: State, name: str) -> View:
    return inherited_view(state, name, partial(_opening, state.begun.budgets), no_news)


def _opening(budgets: Budgets, frame: Frame) -> str:
    return prompt_opening("BRANCH", frame, budgets)


def fold(parameters: str) -> Growing:
    parse("fold", parameters)
    return Growing("fold", (*WORKSPACE, Branch, Return), _show, "fold")
