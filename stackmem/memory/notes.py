"""``notes``: an append-only scratchpad that stands at the end of every prompt; ``add_note`` writes to it.

With the whole history beside it the scratchpad repeats what the history says. ``window=N`` leaves out
all but the last N turns (ten at a time, as ``window`` does), which is where a scratchpad has something to add.

The scratchpad stands behind the last breakpoint and is paid for anew at every step: it is the one thing that changes.

Parameters: ``window`` (0, everything).

Source: ours, after scratchpads of ReAct agents. The scaffold that lowered success in "Beyond pass@1" (2026) is another.
"""

from __future__ import annotations

from stackmem.core.state import State
from stackmem.core.tools import AddNote

from .shared.linear import Linear, OneConversation, Rules, left_out, newest_shown, unmoved
from .shared.offers import ONE_FRAME
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse

_STEP = 10


def scratchpad(state: State, conversation: Linear) -> str:
    if not len(state.notes):
        return "NOTES: none yet"
    return "\n".join(["NOTES", *(f"- {note}" for note in state.notes)])


def notes(parameters: str) -> OneConversation:
    chosen = parse("notes", parameters, (Count("window", 0, low=0),))
    window = chosen.counts["window"]
    rules = Rules(Partial(newest_shown, (window, _STEP)) if window else unmoved, left_out)
    tools = (*ONE_FRAME[:-1], AddNote, ONE_FRAME[-1])
    return OneConversation(chosen.name, rules, tools, "notes", scratchpad)
