"""One conversation whose old part is cut: what the strategies without frames share.

A turn pair (a reply and what answered it) is an *exchange*. Of the exchanges, oldest first, some are left out, some are
shown with their results shortened, the rest stand as they were. Both borders only move forward, and between two moves
the messages are only appended to, so the provider's cache and ``Log.fold`` have something to hold on to. Moving a
border writes the conversation anew; a strategy is cheap when it does that rarely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from msgspec import Struct, json
from msgspec.structs import replace

from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, Part, Text, Thinking, ToolCall, ToolResult, View
from stackmem.core.requests import Effect
from stackmem.core.state import Compaction, Frame, Notice, Reply, Result, State, Turn
from stackmem.core.tools import Tool

from .constants import run_constants
from .conversation import said_parts
from .offers import ONE_FRAME

CHARS_PER_TOKEN = 2.5
"""As everywhere in the rules: on the safe side for code and English."""


class Exchange(Struct, frozen=True):
    """A reply and the user message after it, both whole."""

    step: int  # the run's step of the reply
    said: Message
    told: Message
    chars: int  # characters of both


class Cut(Struct, frozen=True):
    """Numbers of exchanges, counted from the first of the conversation."""

    dropped: int = 0  # so many are not shown
    short: int = 0  # so many are not shown whole; the dropped ones are among them


class Linear(Struct, frozen=True):
    """A conversation so far."""

    rules: Rules  # the strategy's
    opening: tuple[Part, ...]  # parts that the first message begins with for as long as the conversation lives
    standing: int  # characters of the prompt outside the messages
    past: Log[Exchange]  # every answered exchange, whole
    shown: Log[Message]  # the messages of the prompt, as far as they are finished
    chars: int  # characters of ``shown``
    cut: Cut = Cut()  # the borders in force
    before: int = 0  # the border ``cut.short`` before its last move
    reply: Message | None = None  # the reply that is being answered, None right after an exchange is finished
    step: int = 0  # the step of that reply
    seconds: float = 0.0  # the run's clock when that reply was asked for, or the one before it
    answer: int = 0  # how many exchanges stand before the last that holds a result. No border moves past it
    parts: tuple[Part, ...] = ()  # its answers so far; before the first reply, what the harness has told
    summary: str | None = None  # the newest text that stands for the dropped exchanges; None before the first
    # whether such a text is shown; otherwise one that a run has from another strategy changes nothing
    summarizes: bool = False

    @property
    def tokens(self) -> int:
        """Of the whole prompt, estimated."""
        return int((self.standing + self.chars) / CHARS_PER_TOKEN)

    @property
    def history(self) -> int:
        """Characters of the exchanges as they are shown."""
        return self.chars - size(self.shown[0])

    @property
    def whole(self) -> int:
        """How many exchanges are shown as they were."""
        return len(self.past) - self.cut.short

    def close(self) -> Linear:
        """With the user message that is being written finished, and the borders where the rules want them."""
        if not self.parts:
            return self
        if self.reply is None:
            return replace(self, opening=(*self.opening, *self.parts), parts=()).redraw()
        return self.finish_exchange(self.reply, self.parts)

    def finish_exchange(self, reply: Message, parts: tuple[Part, ...]) -> Linear:
        told = Message("user", parts)
        exchange = Exchange(self.step, reply, told, size(reply) + size(told))
        grown = replace(
            self,
            past=self.past.append(exchange),
            shown=self.shown.append(reply).append(told),
            chars=self.chars + exchange.chars,
            answer=len(self.past) if any(isinstance(part, ToolResult) for part in parts) else self.answer,
            reply=None,
            parts=(),
        )
        return grown.move_borders(self.rules.cut(grown))

    def move_borders(self, cut: Cut) -> Linear:
        """With the borders there, but not past the last result; if that moves one, with everything written anew."""
        last = max(self.answer, self.cut.short)
        cut = Cut(min(cut.dropped, last), min(cut.short, last))
        if cut == self.cut:
            return self
        before = self.before if cut.short == self.cut.short else self.cut.short
        return replace(self, cut=cut, before=before).redraw()

    def redraw(self) -> Linear:
        head = self.rules.head(self)
        messages = [Message("user", self.opening)]
        for exchange in self.past[: self.first]:
            messages += (exchange.said, exchange.told)
        if head:
            messages[-1] = Message("user", (*messages[-1].parts, Text(head)))
        for number, exchange in enumerate(self.past[self.cut.dropped :], self.cut.dropped):
            messages.append(self.rules.say(exchange.said))
            messages.append(self.shorten_results(exchange) if number < self.cut.short else exchange.told)
        return replace(self, shown=Log(messages), chars=sum(map(size, messages)))

    @property
    def first(self) -> int:
        """How many of the dropped exchanges are shown all the same."""
        return min(self.rules.first, self.cut.dropped)

    def rest(self, now: float) -> Linear:
        """With the borders where the rules want them after a pause that ends at ``now``."""
        return self.move_borders(self.rules.pause(self, now - self.seconds)) if len(self.past) else self

    def shorten_results(self, exchange: Exchange) -> Message:
        parts = (
            self.rules.shorten(part, exchange.step) if isinstance(part, ToolResult) else part
            for part in exchange.told.parts
        )
        return Message("user", tuple(parts))

    def take_reply(self, reply: Reply) -> Linear:
        done = self.close()
        if done.reply is not None:  # nothing answered the last one, and messages alternate
            done = done.finish_exchange(done.reply, (Text("(no answer)"),))
        said = Message("assistant", said_parts(reply, thoughts=False))
        return replace(done.rest(reply.seconds), reply=said, step=reply.step, seconds=reply.seconds)

    def summarize(self, turn: Compaction) -> Linear:
        """With what stands up to a step replaced by a text."""
        if not self.summarizes:
            return self
        upto = sum(exchange.step <= turn.up_to_step for exchange in self.past)
        cut = Cut(max(upto, self.cut.dropped), max(upto, self.cut.short))
        answered = self.reply is not None and any(isinstance(part, ToolResult) for part in self.parts)
        known = replace(self, answer=len(self.past)) if answered else self  # the last result is yet to be finished
        return replace(known.move_borders(cut), summary=turn.text).redraw()


def unmoved(conversation: Linear) -> Cut:
    """No border moves."""
    return conversation.cut


def newest_shown(keep: int, step: int, conversation: Linear) -> Cut:
    """The last ``keep`` exchanges are shown, and up to ``step`` - 1 before them, which leave at once."""
    turns = len(conversation.past)
    moves = turns - conversation.cut.dropped >= keep + step
    return Cut(turns - keep, turns - keep) if moves else conversation.cut


def newest_whole(keep: int, step: int, conversation: Linear) -> Cut:
    """The results of the last ``keep`` exchanges are whole, and of up to ``step`` - 1 before them."""
    moves = conversation.whole >= keep + step
    return Cut(conversation.cut.dropped, len(conversation.past) - keep) if moves else conversation.cut


def not_paused(conversation: Linear, seconds: float) -> Cut:
    """A pause moves no border."""
    return conversation.cut


def as_said(message: Message) -> Message:
    """A reply is as it was."""
    return message


def nothing_said(conversation: Linear) -> str:
    """Nothing stands for the exchanges that are not shown."""
    return ""


def left_out(conversation: Linear) -> str:
    """A line stands for the exchanges that nobody sees any more."""
    if not conversation.cut.dropped:
        return ""
    last = conversation.past[conversation.cut.dropped - 1].step
    return f"[Steps up to {last:,} are no longer shown. What they changed in the workspace is still so.]"


def whole_result(result: ToolResult, step: int) -> ToolResult:
    """A result is as it was."""
    return result


def one_line(word: str, result: ToolResult, step: int) -> ToolResult:
    """One line that tells of a result; the result itself where that is shorter."""
    line = f"[{word}: {len(result.text):,} characters of output; call again if you need them]"
    return replace(result, text=line) if len(line) < len(result.text) else result


class Rules(Struct, frozen=True):
    """What tells one of these strategies from another."""

    cut: Callable[[Linear], Cut]  # where the borders stand from now on; never before where they stand
    head: Callable[[Linear], str] = nothing_said  # what is said instead of the dropped exchanges; empty for nothing
    # a result of that step, once it is on the far side of the border
    shorten: Callable[[ToolResult, int], ToolResult] = whole_result
    say: Callable[[Message], Message] = as_said  # a reply that is shown, once the conversation has been written anew
    first: int = 0  # exchanges at the beginning that are shown whole, whatever is dropped
    # where the borders stand from now on after so many seconds since the last request
    pause: Callable[[Linear, float], Cut] = not_paused


def no_tail(state: State, conversation: Linear) -> str:
    """Nothing stands at the end of a prompt that no later one keeps."""
    return ""


class OneConversation(Struct, frozen=True):
    """A strategy that is its rules."""

    name: str
    rules: Rules
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    tail: Callable[[State, Linear], str] = no_tail  # what stands at the end of each prompt, and in no later one
    prefix_stable: bool = False

    def render(self, state: State) -> View:
        shown = conversation(state, self.rules, self.name)
        return view(state, shown, self.tail(state, shown))

    def upkeep(self, state: State) -> Effect | None:
        return None


def proceed(conversation: Linear, turn: Turn) -> Linear:
    """With one more turn."""
    match turn:
        case Reply():
            return conversation.take_reply(turn)
        case Result():
            part = ToolResult(turn.call_id, turn.text, turn.failed)
            return replace(conversation, parts=(*conversation.parts, part))
        case Notice():
            return replace(conversation, parts=(*conversation.parts, Text(turn.text)))
        case Compaction():
            return conversation.summarize(turn)
        case _:
            assert_never(turn)


def conversation(state: State, rules: Rules, name: str, *, summarizes: bool = False) -> Linear:
    """The running frame's, with its last user message finished."""
    start, frame = state.begun, state.running
    opening = (Text(run_constants(start)), Text(_task(frame)))
    standing = len(start.system) + sum(len(f"{tool.name}{tool.description}{tool.schema}") for tool in start.tools)
    first = Message("user", opening)
    begun = Linear(rules, opening, standing, Log(), Log([first]), size(first), summarizes=summarizes)
    return frame.turns.fold(proceed, begun, (name, opening, standing)).close().rest(state.seconds)


def _task(frame: Frame) -> str:
    """The task; in a frame that a fork brought along, what it was pushed for."""
    if not frame.depth:
        return f"TASK\n{frame.task}"
    rows = (("TASK", frame.registers.intent), ("REPORT", frame.registers.return_spec), ("CONTEXT", frame.context))
    return "\n".join(f"{word}\n{text}" for word, text in rows if text) or "TASK"


def view(state: State, shown: Linear, tail: str = "") -> View:
    """The prompt, with ``tail`` at its end, which no later prompt keeps."""
    messages = shown.shown
    if tail:
        last = messages[-1]
        messages = messages.without_last().append(Message(last.role, (*last.parts, Text(tail))))
    return View(state.begun.system, state.begun.tools, messages, breakpoints(shown))


def breakpoints(shown: Linear) -> tuple[Breakpoint, ...]:
    """After the task for an hour; after the shortened part as it is and as it was; after the last message.

    A border that moves leaves what stood before it as it was. Its old place is marked as well, since the cache writes
    entries at marks alone and looks back no more than 20 places from one.
    """
    messages = shown.shown
    last = len(messages) - 1
    task = Breakpoint(0, len(shown.opening) - 1, "1h")
    hidden = shown.cut.dropped - shown.first
    borders = sorted({2 * (number - hidden) for number in (shown.before, shown.cut.short)})
    rolling = [place for place in borders if 0 < place < last]
    if not rolling and last > 2:
        rolling = [last - 2]
    points = [Breakpoint(place, len(messages[place].parts) - 1, "5m") for place in rolling]
    if last or len(messages[0].parts) > len(shown.opening):
        points.append(Breakpoint(last, len(messages[last].parts) - 1, "5m"))
    standing = [Breakpoint(-1, 0, "1h")] if len(points) < 3 else []
    return (*standing, task, *points)


def freed(shown: Linear, number: int) -> int:
    """Characters that the prompt loses when the results of an exchange are shortened."""
    exchange = shown.past[number]
    return size(exchange.told) - size(shown.shorten_results(exchange))


def size(message: Message) -> int:
    """Characters of a message, as far as they are sent."""
    return sum(map(_size, message.parts))


def _size(part: Part) -> int:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return len(text)
        case ToolCall():
            return len(part.name) + len(part.malformed or json.encode(part.arguments))
        case Thinking():
            return 0
        case _:
            assert_never(part)
