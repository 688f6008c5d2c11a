"""``notes``: an append-only scratchpad that stands at the end of every prompt; ``add_note`` writes to it.

With the whole history beside it, as published, the scratchpad repeats what the history says. ``window=N`` leaves out
all but the last N turns (ten at a time, as ``window`` does), which is where a scratchpad has something to add.

The scratchpad stands behind the last breakpoint and is paid for anew at every step: it is the one thing that changes.

Parameters: ``window`` (0, everything).

Source: the scaffold that lowered success in "Beyond pass@1" (2026); scratchpads of ReAct agents.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import ToolResult, View
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.tools import AddNote, Tool

from .shared.linear import Cut, Linear, conversation, view
from .shared.offers import ONE_FRAME
from .shared.parameters import Count
from .shared.parameters import parameters as parse
from .window import left_out

_STEP = 10


class Notes(Struct, frozen=True):
    """Attributes:
    window: Turns that are shown at least; 0 for all.
    """

    name: str = "notes"
    window: int = 0
    tools: tuple[Tool, ...] = (*ONE_FRAME[:-1], AddNote, ONE_FRAME[-1])
    prompt: str = "notes"
    prefix_stable: bool = False

    def render(self, state: State) -> View:
        return view(state, conversation(state, self, self.name), scratchpad(state))

    def upkeep(self, state: State) -> Effect | None:
        return None

    def cut(self, conversation: Linear) -> Cut:
        turns = len(conversation.past)
        if not self.window or turns - conversation.cut.dropped < self.window + _STEP:
            return conversation.cut
        return Cut(turns - self.window, turns - self.window)

    def head(self, conversation: Linear) -> str:
        return left_out(conversation)

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        return result


def scratchpad(state: State) -> str:
    if not len(state.notes):
        return "NOTES: none yet"
    return "\n".join(["NOTES", *(f"- {note}" for note in state.notes)])


def notes(parameters: str) -> Notes:
    chosen = parse("notes", parameters, (Count("window", 0, low=0),))
    return Notes(chosen.name, chosen.counts["window"])
