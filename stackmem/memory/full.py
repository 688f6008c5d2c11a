"""Strategies with one conversation, in full or cut to its newest turns: ``full``, ``window``, ``truncate``,
``notes``, ``mem1``.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import View
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.tools import AddNote, Tool

from .shared.conversation import own_view
from .shared.linear import CHARS_PER_TOKEN, Cut, Linear, OneConversation, Rules, left_out, newest_shown, unmoved
from .shared.offers import ONE_FRAME
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse


class Full(Struct, frozen=True):
    name: str = "full"
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        return own_view(state, self.name, lambda: f"TASK\n{state.running.task}")

    def upkeep(self, state: State) -> Effect | None:
        return None


def full(parameters: str) -> Full:
    """``full``: the whole history in one conversation, without frames or a heap. The baseline for all other strategies.

    Source: the linear history of mini-swe-agent and most coding agents.
    """
    parse("full", parameters)
    return Full()


def window(parameters: str) -> OneConversation:
    """``window:N``: the task and the last N turns; older turns are left out.

    A window that moves at every step writes the whole prompt to the cache again at every step. So it moves ``step``
    turns at a time and shows between N and N + step - 1 turns. ``step=1`` is the textbook window.

    Parameters: ``turns`` (20), ``step`` (10).

    Source: the sliding window of most chat applications; Anthropic's cost guide for the cost of moving it.
    """
    options = parse("window", parameters, (Count("turns", 20), Count("step", 10)))
    keep, step = options.counts.values()
    return OneConversation(options.name, Rules(Partial(newest_shown, (keep, step)), left_out))


def truncate(parameters: str) -> OneConversation:
    """``truncate:TOKENS``: the task and as much of the newest history as fits; the oldest turns are cut.

    Once the history is longer than TOKENS it is cut to ``to`` tokens, by default half as many. Cutting only as much as
    necessary would write the prompt again at nearly every step. Take s tokens per step and a history cut from T to aT:
    each step pays about 1.25 s a / (1 - a) for the rewrite and 0.05 (1 + a) T for reads.

    The last turn is always complete, however long it is. Tokens are estimated: characters / 2.5.

    Parameters: ``tokens`` (8,000), ``to`` (half of them).

    Source: the truncation of the oldest messages in chat frameworks.
    """
    options = parse("truncate", parameters, (Count("tokens", 8_000), Count("to", 0, low=0)))
    most, to = options.counts.values()
    return OneConversation(options.name, Rules(Partial(_cut, (most, min(to or most // 2, most))), left_out))


def _cut(most: int, to: int, conversation: Linear) -> Cut:
    """Cut to the newest ``to`` tokens once the history exceeds ``most``. The text before the history comes on top."""
    past, dropped = conversation.past, conversation.cut.dropped
    if conversation.history <= most * CHARS_PER_TOKEN:
        return conversation.cut
    room, first = to * CHARS_PER_TOKEN, len(past) - 1
    room -= past[first].chars
    while first > dropped and past[first - 1].chars <= room:
        first -= 1
        room -= past[first].chars
    return Cut(first, first)


_NOTES_STEP = 10


def notes(parameters: str) -> OneConversation:
    """``notes``: an append-only scratchpad at the end of every prompt; ``add_note`` writes to it.

    With the whole history in the prompt, the scratchpad only repeats it. ``window=N`` leaves out all but the last N
    turns (ten at a time, like ``window``), so that the scratchpad has something to add.

    The scratchpad comes after the last breakpoint and is paid in full at every step, because it is the only part that
    changes.

    Parameters: ``window`` (0, everything).

    Source: ours, after scratchpads of ReAct agents. The scaffold that lowered success in "Beyond pass@1" (2026) is a
    different one.
    """
    options = parse("notes", parameters, (Count("window", 0, low=0),))
    turns = options.counts["window"]
    rules = Rules(Partial(newest_shown, (turns, _NOTES_STEP)) if turns else unmoved, left_out)
    tools = (*ONE_FRAME[:-1], AddNote, ONE_FRAME[-1])
    return OneConversation(options.name, rules, tools, "notes", _scratchpad)


def _scratchpad(state: State, conversation: Linear) -> str:
    if not len(state.notes):
        return "NOTES: none yet"
    return "\n".join(["NOTES", *(f"- {note}" for note in state.notes)])


def mem1(parameters: str) -> OneConversation:
    """``mem1``: only the task, the last reply and its answer; each reply begins with a state of the work.

    The model carries over what later steps need in the text before its call, under the heading STATE. A reply without
    it forgets everything but its own call. So a prompt is never longer than one state and one output, however long the
    run is.

    Parameters: ``chars`` (4,000): the requested maximum length of a state.

    Source: MEM1 (2025), whose model is trained to rewrite its internal state at each turn; here it is only instructed
    to.
    """
    options = parse("mem1", parameters, (Count("chars", 4_000, low=200),))
    rules = Rules(Partial(newest_shown, (1, 1)))
    return OneConversation(
        options.name, rules, prompt="full+state", tail=Partial(_state_due, (options.counts["chars"],))
    )


def _state_due(chars: int, state: State, linear: Linear) -> str:
    return (
        f"STATE DUE: with the call, write under the heading STATE what later steps need; at most {chars:,} characters. "
        "You will see only that reply of this conversation and its answer."
    )
