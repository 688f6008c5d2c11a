"""One conversation, whole or by its newest turns: ``full``, ``window``, ``truncate``, ``notes``, ``mem1``."""

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
    """``full``: the whole history in one conversation; no frames, no heap. The baseline every strategy is held against.

    Source: the linear history of mini-swe-agent and most coding agents.
    """
    parse("full", parameters)
    return Full()


def window(parameters: str) -> OneConversation:
    """``window:N``: the task and the last N turns; what is older is left out.

    A window that moves at every step writes the whole prompt anew at every step. So it moves ``step`` turns at a time
    and shows between N and N + step - 1 of them; ``step=1`` is the textbook window.

    Parameters: ``turns`` (20), ``step`` (10).

    Source: the sliding window of most chat applications; Anthropic's cost guide for what moving it costs.
    """
    chosen = parse("window", parameters, (Count("turns", 20), Count("step", 10)))
    keep, step = chosen.counts.values()
    return OneConversation(chosen.name, Rules(Partial(newest_shown, (keep, step)), left_out))


def truncate(parameters: str) -> OneConversation:
    """``truncate:TOKENS``: the task and as much of the newest history as fits; the oldest turns are cut.

    Once the history is longer than TOKENS it is cut to ``to`` of them, half as many where nothing is said. Cutting to
    the brim would write the prompt anew at nearly every step: with s tokens a step and a history cut from T to aT, each
    step pays about 1.25 s a / (1 - a) for what the cut writes again, and 0.05 (1 + a) T for what it reads.

    The last turn always stays whole, however long it is. Tokens are estimated: characters / 2.5.

    Parameters: ``tokens`` (8,000), ``to`` (half of them).

    Source: the truncation of the oldest messages in chat frameworks.
    """
    chosen = parse("truncate", parameters, (Count("tokens", 8_000), Count("to", 0, low=0)))
    most, to = chosen.counts.values()
    return OneConversation(chosen.name, Rules(Partial(_cut, (most, min(to or most // 2, most))), left_out))


def _cut(most: int, to: int, conversation: Linear) -> Cut:
    """Once the history has more than ``most`` tokens, its newest ``to``; what stands above it comes on top."""
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
    """``notes``: an append-only scratchpad that stands at the end of every prompt; ``add_note`` writes to it.

    With the whole history beside it the scratchpad repeats what the history says. ``window=N`` leaves out all but the
    last N turns (ten at a time, as ``window`` does), which is where a scratchpad has something to add.

    The scratchpad stands behind the last breakpoint and is paid for anew at every step: it is the one thing that
    changes.

    Parameters: ``window`` (0, everything).

    Source: ours, after scratchpads of ReAct agents. The scaffold that lowered success in "Beyond pass@1" (2026) is
    another.
    """
    chosen = parse("notes", parameters, (Count("window", 0, low=0),))
    kept = chosen.counts["window"]
    rules = Rules(Partial(newest_shown, (kept, _NOTES_STEP)) if kept else unmoved, left_out)
    tools = (*ONE_FRAME[:-1], AddNote, ONE_FRAME[-1])
    return OneConversation(chosen.name, rules, tools, "notes", _scratchpad)


def _scratchpad(state: State, conversation: Linear) -> str:
    if not len(state.notes):
        return "NOTES: none yet"
    return "\n".join(["NOTES", *(f"- {note}" for note in state.notes)])


def mem1(parameters: str) -> OneConversation:
    """``mem1``: the task, the last reply and its answer, and nothing else; each reply begins with a state of the work.

    What a later step needs, the model carries over in the text beside its call, under the heading STATE. A reply that
    says none forgets everything but its own call. So the prompt stays as long as a state and an output, however long
    the run.

    Parameters: ``chars`` (4,000): of a state, as it is asked for.

    Source: MEM1 (2025), whose model is trained to write its internal state anew at each turn; here it is only told to.
    """
    chosen = parse("mem1", parameters, (Count("chars", 4_000, low=200),))
    rules = Rules(Partial(newest_shown, (1, 1)))
    return OneConversation(chosen.name, rules, prompt="full+state", tail=Partial(_state_due, (chosen.counts["chars"],)))


def _state_due(chars: int, state: State, shown: Linear) -> str:
    return (
        f"STATE DUE: beside the call, under the heading STATE, what later steps need; at most {chars:,} characters. Of "
        "this conversation only that reply and its answer will be shown."
    )
