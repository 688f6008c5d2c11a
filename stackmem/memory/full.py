"""``full``: the whole history in one conversation; no frames, no heap. The baseline every strategy is held against.

Source: the linear history of mini-swe-agent and most coding agents.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import View
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.tools import Tool

from .shared.conversation import own_view
from .shared.offers import ONE_FRAME
from .shared.parameters import parameters as parse


class Full(Struct, frozen=True):
    name: str = "full"
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        return own_view(state, self.name, f"TASK\n{state.running.task}")

    def upkeep(self, state: State) -> Effect | None:
        return None


def full(parameters: str) -> Full:
    parse("full", parameters)
    return Full()
