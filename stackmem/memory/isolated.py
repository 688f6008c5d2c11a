"""``isolated``: sub-agents with a clean conversation, that see their prompt; only the text of their result comes back.

Source: the sub-agents of Claude Code and Codex. Their prompts are longer than a register (4,000 characters), and there
is no memory but files that both can see.
"""

from __future__ import annotations

from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.core.tools import Delegate

from .shared.conversation import Growing, own_view
from .shared.offers import POP_CLEAN, WORKSPACE
from .shared.opening import prompt_opening
from .shared.parameters import parameters as parse


def _show(state: State, name: str) -> View:
    return own_view(state, name, prompt_opening("SUB-AGENT", state.running, state.begun.budgets))


def isolated(parameters: str) -> Growing:
    parse("isolated", parameters)
    return Growing("isolated", (*WORKSPACE, Delegate, POP_CLEAN), _show, "isolated")
