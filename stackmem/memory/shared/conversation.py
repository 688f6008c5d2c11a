"""A frame's turns as messages that are only appended to.

The provider's cache reads a prompt from its start, so messages that were sent never change. New text, including the
heap index, is appended to the next user message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.heap import Heap
from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, Part, Text, Thinking, ToolResult, View
from stackmem.core.requests import Effect
from stackmem.core.state import Compaction, Notice, Reply, Result, State, Turn
from stackmem.core.tools import Tool

from .constants import run_constants
from .opening import first_parts

_UNSAID = {
    "truncated": "(the reply was cut off before it said anything)",
    "refused": "(the provider refused this reply)",
}


class Conversation(Struct, frozen=True):
    """The messages so far, and the user message that is not finished yet."""

    messages: Log[Message]
    parts: tuple[Part, ...]  # of the unfinished user message; empty right after a reply
    shown: Heap  # the heap as the messages last showed it
    heap: Heap  # the heap after the last turn
    # returns the next user message's text about the heap, given the shown heap and the current one
    news: Callable[[Heap, Heap], str]
    # Whether the model's thinking is sent back. A provider may sign it over the whole prompt before it and refuse it if
    # that has changed, so a strategy that rewrites the prompt leaves it out.
    thoughts: bool = True
    shared_parts: int = 1  # number of parts that the first message shares with other frames

    def close(self) -> Conversation:
        """Return the conversation with the user message finished, and the changes of the heap at its end."""
        text = self.news(self.shown, self.heap)
        parts = (*self.parts, Text(text)) if text else self.parts
        if not parts:
            return self
        message = Message("user", parts)
        return replace(self, messages=self.messages.append(message), parts=(), shown=self.heap if text else self.shown)


def extend(conversation: Conversation, turn: Turn) -> Conversation:
    """Return the conversation with one more turn. Finished messages are never changed."""
    match turn:
        case Reply():
            closed = conversation.close()
            return replace(
                closed,
                messages=closed.messages.append(Message("assistant", said_parts(turn, thoughts=closed.thoughts))),
            )
        case Result():
            part: Part = ToolResult(turn.call_id, turn.text, turn.failed, turn.images)
            heap = conversation.shown
            for name in turn.read:  # the result already shows the read
                heap = heap.mark_read(name, turn.step) if name in heap.chunks else heap
            return replace(conversation, parts=(*conversation.parts, part), heap=turn.heap, shown=heap)
        case Notice():
            return replace(conversation, parts=(*conversation.parts, Text(turn.text, turn.images)), heap=turn.heap)
        case Compaction():  # from another strategy earlier in this run: here everything it covers is still shown
            return conversation
        case _:
            assert_never(turn)


def said_parts(reply: Reply, *, thoughts: bool) -> tuple[Part, ...]:
    """Return the reply's parts without blank text, which providers refuse. An empty reply gets a placeholder."""
    parts = [
        part for part in reply.parts
        if not (isinstance(part, Text) and not part.text.strip()) and (thoughts or not isinstance(part, Thinking))
    ]  # fmt: skip
    if not [part for part in parts if not isinstance(part, Thinking)]:
        parts.append(Text(_UNSAID.get(reply.stop, "(an empty reply)")))
    return tuple(parts)


def own_view(
    state: State, name: str, opening: Callable[[], str], news: Callable[[Heap, Heap], str] | None = None
) -> View:
    """Return the prompt of a frame whose own conversation is only appended to.

    Args:
        name: Name of the strategy; keeps its conversations apart from those of other strategies.
        opening: Makes the frame's own block of its first message.
        news: As ``Conversation.news``. If it is None, messages do not mention the heap.
    """
    start, frame = state.begun, state.running
    constants, thoughts = run_constants(start), start.thinking == "kept"

    def begin() -> Conversation:
        return first_conversation(
            first_parts(constants, frame, opening()), frame.opened, news or no_news, thoughts=thoughts
        )

    # A fork may change the messages before the turns, so the key distinguishes the two conversations.
    conversation = frame.turns.fold_from(extend, begin, (name, constants, thoughts, start.budgets)).close()
    messages = conversation.messages
    marks = rolling_breakpoints(messages, len(messages[-1].parts), shared_parts=conversation.shared_parts)
    return View(start.system, start.tools, messages, marks)


def first_conversation(
    parts: tuple[Part, ...], opened: Heap, news: Callable[[Heap, Heap], str], *, thoughts: bool
) -> Conversation:
    """Return a frame's conversation before its first turn."""
    return Conversation(Log(), parts, opened, opened, news, thoughts, len(parts) - 1)


def no_news(before: Heap, heap: Heap) -> str:
    return ""


class Growing(Struct, frozen=True):
    """A strategy whose prompts are only appended to."""

    name: str
    tools: tuple[Tool, ...]
    show: Callable[[State, str], View]  # returns the prompt of a state for the strategy of that name
    prompt: str
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        return self.show(state, self.name)

    def upkeep(self, state: State) -> Effect | None:
        return None


def rolling_breakpoints(
    messages: Log[Message], kept_parts: int, standing_life: Literal["5m", "1h"] = "1h", *, shared_parts: int = 1
) -> tuple[Breakpoint, ...]:
    """Return breakpoints after the system prompt, the run constants and, for five minutes, the last two user
    messages.

    Args:
        kept_parts: How many parts of the last message stay in later prompts. A breakpoint follows them.
        standing_life: Lifetime of the breakpoints that other frames read too.
        shared_parts: How many parts the first message shares with other frames: the run constants and, in a user's
            request, the earlier requests. Only the first prompt has room for a breakpoint after them.
    """
    last = len(messages) - 1
    standing = [Breakpoint(-1, 0, standing_life), Breakpoint(0, 0, standing_life)]
    if shared_parts > 1 and not last:
        standing.append(Breakpoint(0, shared_parts - 1, standing_life))
    rolling = [Breakpoint(last, kept_parts - 1, "5m")] if kept_parts else []
    if last >= 2:
        rolling.insert(0, Breakpoint(last - 2, len(messages[last - 2].parts) - 1, "5m"))
    return (*standing, *rolling)
