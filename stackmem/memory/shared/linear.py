"""One conversation whose old part is cut, shared by the strategies without frames.

An *exchange* is a reply and its answer. The oldest exchanges may be left out, the next ones shown with shortened
results, and the rest in full. Both borders only move forward. Between two moves, messages are only appended, so the
provider's cache and ``Log.fold`` can reuse earlier work. Moving a border rewrites the conversation; a strategy is cheap
if it does that rarely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, assert_never

from msgspec import UNSET, Struct, json
from msgspec.structs import replace

from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, Part, Text, Thinking, ToolCall, ToolResult, View, shown_chars
from stackmem.core.requests import Effect
from stackmem.core.state import Compaction, Frame, Notice, Reply, Result, State, Turn
from stackmem.core.tools import Tool

from .constants import run_constants
from .conversation import said_parts
from .offers import ONE_FRAME

CHARS_PER_TOKEN = 2.5
"""As everywhere in the rules. A cautious estimate for code and English."""


class Exchange(Struct, frozen=True):
    """A reply and the user message after it, both complete."""

    step: int  # step number of the reply in the run
    said: Message
    told: Message
    chars: int  # characters of both


class Cut(Struct, frozen=True):
    """Numbers of exchanges, counted from the first of the conversation."""

    dropped: int = 0  # number of exchanges that are not shown
    short: int = 0  # number of exchanges that are not shown in full, including the dropped ones


class Eviction(Struct, frozen=True):
    """Exchanges anywhere in a conversation that are not shown in full, by their steps. An eviction only grows."""

    short: frozenset[int] = frozenset()  # steps whose results are shortened
    dropped: frozenset[int] = frozenset()  # steps that are not shown. What the user said in them stays


class Linear(Struct, frozen=True):
    """A conversation so far."""

    rules: Rules  # the strategy's
    opening: tuple[Part, ...]  # parts at the beginning of the first message, which stay for the whole conversation
    standing: int  # characters of the prompt outside the messages
    past: Log[Exchange]  # every answered exchange in full
    shown: Log[Message]  # the finished messages of the prompt
    chars: int  # characters of ``shown``
    cut: Cut = Cut()  # the current borders
    before: int = 0  # the border ``cut.short`` before its last move
    evicted: Eviction = Eviction()  # what is not shown in full regardless of the borders
    reply: Message | None = None  # the reply that is being answered; None right after an exchange is finished
    step: int = 0  # the step of that reply
    seconds: float = 0.0  # the run's clock when that reply, or the one before it, was requested
    pauses: int = 0  # number of requests that came after a pause longer than ``rules.life_seconds``
    answer: int = 0  # number of exchanges before the last one with a result; no border moves past it
    parts: tuple[Part, ...] = ()  # its answers so far; before the first reply, messages from the harness
    summary: str | None = None  # the newest summary of the dropped exchanges; None before the first
    block: dict[str, Any] | None = None  # the same summary as the provider sends it, if the provider wrote it
    # whether summaries are shown; if not, a summary from another strategy of this run has no effect
    summarizes: bool = False
    thoughts: bool = False  # whether replies keep the model's thinking, as the run's start says

    @property
    def tokens(self) -> int:
        """Estimated tokens of the whole prompt."""
        return int((self.standing + self.chars) / CHARS_PER_TOKEN)

    @property
    def history(self) -> int:
        """Characters of the exchanges as they are shown."""
        return self.chars - size(self.shown[0])

    @property
    def whole(self) -> int:
        """Number of exchanges shown in full."""
        return len(self.past) - self.cut.short

    def close(self) -> Linear:
        """Return the conversation with the current user message finished and the borders moved by the rules."""
        if not self.parts:
            return self
        if self.reply is None:
            return replace(self, opening=(*self.opening, *self.parts), parts=()).redraw()
        return self.finish_exchange(self.reply, self.parts)

    def finish_exchange(self, reply: Message, parts: tuple[Part, ...]) -> Linear:
        answer = Message("user", parts)
        exchange = Exchange(self.step, reply, answer, size(reply) + size(answer))
        grown = replace(
            self,
            past=self.past.append(exchange),
            shown=self.shown.append(reply).append(answer),
            chars=self.chars + exchange.chars,
            answer=len(self.past) if any(isinstance(part, ToolResult) for part in parts) else self.answer,
            reply=None,
            parts=(),
        )
        moved = grown.move_borders(self.rules.cut(grown))
        evicted = self.rules.evict(moved)
        return moved if evicted == moved.evicted else replace(moved, evicted=evicted).redraw()

    def move_borders(self, cut: Cut) -> Linear:
        """Return the conversation with these borders, but not past the last result. If a border moves, redraw all
        messages.
        """
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
        gap: list[Exchange] = []
        for number, exchange in enumerate(self.past[self.cut.dropped :], self.cut.dropped):
            if exchange.step in self.evicted.dropped:
                gap.append(exchange)
                continue
            if gap:
                messages[-1] = Message("user", (*messages[-1].parts, *_gap_text(gap)))
                gap = []
            short = number < self.cut.short or exchange.step in self.evicted.short
            messages.append(self.rules.say(without_thoughts(exchange.said)))
            messages.append(self.shorten_results(exchange) if short else exchange.told)
        return replace(self, shown=Log(messages), chars=sum(map(size, messages)))

    @property
    def first(self) -> int:
        """Number of dropped exchanges that are still shown."""
        return min(self.rules.first, self.cut.dropped)

    def rest(self, now: float) -> Linear:
        """Return the conversation with the borders moved for a pause that ends at ``now``."""
        return self.move_borders(self.rules.pause(self, now - self.seconds)) if len(self.past) else self

    def shorten_results(self, exchange: Exchange) -> Message:
        parts = (
            without_images(self.rules.shorten(part, exchange.step)) if isinstance(part, ToolResult) else part
            for part in exchange.told.parts
        )
        return Message("user", tuple(parts))

    def take_reply(self, reply: Reply) -> Linear:
        done = self.close()
        if done.reply is not None:  # the last reply had no answer, and roles must alternate
            done = done.finish_exchange(done.reply, (Text("(no answer)"),))
        message = Message("assistant", said_parts(reply, thoughts=self.thoughts))
        paused = bool(done.step) and reply.seconds - done.seconds > self.rules.life_seconds
        rested = done.rest(reply.seconds)
        return replace(rested, reply=message, step=reply.step, seconds=reply.seconds, pauses=rested.pauses + paused)

    def summarize(self, turn: Compaction) -> Linear:
        """Return the conversation with everything up to a step replaced by the summary."""
        if not self.summarizes:
            return self
        upto = sum(exchange.step <= turn.up_to_step for exchange in self.past)
        cut = Cut(max(upto, self.cut.dropped), max(upto, self.cut.short))
        has_answer = self.reply is not None and any(isinstance(part, ToolResult) for part in self.parts)
        # the exchange of the last result is not finished yet
        base = replace(self, answer=len(self.past)) if has_answer else self
        return replace(base.move_borders(cut), summary=turn.text, block=turn.block).redraw()


def _gap_text(gap: Sequence[Exchange]) -> Iterator[Part]:
    """Yield what replaces dropped exchanges that follow one another: a line, and what the user said in them."""
    yield Text(f"[Steps {gap[0].step:,} to {gap[-1].step:,} are not shown. Their changes to the workspace remain.]")
    for exchange in gap:
        yield from (part for part in exchange.told.parts if isinstance(part, Text))


def without_thoughts(message: Message) -> Message:
    """Return a reply without its thinking, which a provider may refuse after the text before it has changed."""
    if not any(isinstance(part, Thinking) for part in message.parts):
        return message
    return replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Thinking)))


def unmoved(conversation: Linear) -> Cut:
    """Move no border."""
    return conversation.cut


def newest_shown(keep: int, step: int, conversation: Linear) -> Cut:
    """Show the last ``keep`` exchanges and up to ``step`` - 1 before them, which are dropped together."""
    turns = len(conversation.past)
    moves = turns - conversation.cut.dropped >= keep + step
    return Cut(turns - keep, turns - keep) if moves else conversation.cut


def newest_whole(keep: int, step: int, conversation: Linear) -> Cut:
    """Show complete results in the last ``keep`` exchanges and in up to ``step`` - 1 before them."""
    moves = conversation.whole >= keep + step
    return Cut(conversation.cut.dropped, len(conversation.past) - keep) if moves else conversation.cut


def nothing_evicted(conversation: Linear) -> Eviction:
    """Evict nothing but what is between the borders."""
    return conversation.evicted


def not_paused(conversation: Linear, seconds: float) -> Cut:
    """Move no border after a pause."""
    return conversation.cut


def as_said(message: Message) -> Message:
    """Return a reply unchanged."""
    return message


def nothing_said(conversation: Linear) -> str:
    """Return no replacement for the exchanges that are not shown."""
    return ""


def left_out(conversation: Linear) -> str:
    """Return a line that replaces the exchanges that are no longer shown."""
    if not conversation.cut.dropped:
        return ""
    last = conversation.past[conversation.cut.dropped - 1].step
    return f"[Steps up to {last:,} are no longer shown. Their changes to the workspace remain.]"


def whole_result(result: ToolResult, step: int) -> ToolResult:
    """Return a result unchanged."""
    return result


def without_images(result: ToolResult) -> ToolResult:
    """Return a shortened result without its images, and say so if its text still names them."""
    if result.images is UNSET:
        return result
    return replace(result, text=f"{result.text}\n[no longer shown; call again if you need to see it]", images=UNSET)


def one_line(word: str, result: ToolResult, step: int) -> ToolResult:
    """Return one line about a result, or the result itself if that is shorter."""
    line = f"[{word}: {len(result.text):,} characters of output; call again if you need them]"
    return replace(result, text=line) if len(line) < len(result.text) else result


class Rules(Struct, frozen=True):
    """The differences between these strategies."""

    cut: Callable[[Linear], Cut]  # returns the new borders, which never move backward
    head: Callable[[Linear], str] = nothing_said  # returns the text in place of the dropped exchanges; empty for none
    # shortens a result of that step once the border has passed it
    shorten: Callable[[ToolResult, int], ToolResult] = whole_result
    say: Callable[[Message], Message] = as_said  # changes a shown reply whenever the conversation is redrawn
    first: int = 0  # number of exchanges at the beginning that are always shown in full
    # returns what is not shown in full regardless of the borders; must contain what was evicted before
    evict: Callable[[Linear], Eviction] = nothing_evicted
    # returns the new borders, given the seconds since the last request
    pause: Callable[[Linear, float], Cut] = not_paused
    life_seconds: float = 300.0  # how long the provider's cache entries live


def no_tail(state: State, conversation: Linear) -> str:
    """Return an empty text, for strategies whose prompts do not end with text that later prompts leave out."""
    return ""


class OneConversation(Struct, frozen=True):
    """A strategy that is fully defined by its rules."""

    name: str
    rules: Rules
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    # returns the text at the end of each prompt, which later prompts do not keep
    tail: Callable[[State, Linear], str] = no_tail
    prefix_stable: bool = False

    def render(self, state: State) -> View:
        linear = conversation(state, self.rules, self.name, thoughts=self.tail is no_tail)
        return view(state, linear, self.tail(state, linear))

    def upkeep(self, state: State) -> Effect | None:
        return None


def proceed(conversation: Linear, turn: Turn) -> Linear:
    """Return the conversation with one more turn."""
    match turn:
        case Reply():
            return conversation.take_reply(turn)
        case Result():
            part = ToolResult(turn.call_id, turn.text, turn.failed, turn.images)
            return replace(conversation, parts=(*conversation.parts, part))
        case Notice():
            return replace(conversation, parts=(*conversation.parts, Text(turn.text, turn.images)))
        case Compaction():
            return conversation.summarize(turn)
        case _:
            assert_never(turn)


def conversation(state: State, rules: Rules, name: str, *, summarizes: bool = False, thoughts: bool = False) -> Linear:
    """Return the running frame's conversation with its last user message finished.

    ``thoughts`` says whether the model's thinking may be sent back until a border moves. It must not if prompts end
    with text that later prompts do not keep, because a provider may bind thinking to the whole prompt before it.
    """
    start, frame = state.begun, state.running
    thoughts = thoughts and start.thinking == "kept"
    opening = Text(run_constants(start)), Text(_task(frame))
    standing = len(start.system) + sum(len(f"{tool.name}{tool.description}{tool.schema}") for tool in start.tools)
    first = Message("user", opening)
    initial = Linear(
        rules, opening, standing, Log(), Log([first]), size(first), summarizes=summarizes, thoughts=thoughts
    )
    return frame.turns.fold(proceed, initial, (name, opening, standing, thoughts)).close().rest(state.seconds)


def _task(frame: Frame) -> str:
    """Return the task, or what a frame inherited from a fork was pushed for."""
    if not frame.depth:
        return f"TASK\n{frame.task}"
    rows = (("TASK", frame.registers.intent), ("REPORT", frame.registers.return_spec), ("CONTEXT", frame.context))
    return "\n".join(f"{word}\n{text}" for word, text in rows if text) or "TASK"


def view(state: State, linear: Linear, tail: str = "") -> View:
    """Return the prompt with ``tail`` at its end, which later prompts do not keep."""
    messages = linear.shown
    if tail:
        last = messages[-1]
        messages = messages.without_last().append(Message(last.role, (*last.parts, Text(tail))))
    return View(state.begun.system, state.begun.tools, messages, breakpoints(linear))


def breakpoints(linear: Linear) -> tuple[Breakpoint, ...]:
    """Return breakpoints: after the task for an hour, after the shortened part as it is and as it was, and at the end.

    Moving a border does not change the messages before its old position. That position is marked too, because the cache
    writes entries only at breakpoints and looks back at most 20 positions from one.
    """
    messages = linear.shown
    last = len(messages) - 1
    task = Breakpoint(0, len(linear.opening) - 1, "1h")
    hidden = linear.cut.dropped - linear.first
    borders = sorted({2 * (number - hidden) for number in (linear.before, linear.cut.short)})
    rolling = [index for index in borders if 0 < index < last]
    if not rolling and last > 2:
        rolling = [last - 2]
    points = [Breakpoint(index, len(messages[index].parts) - 1, "5m") for index in rolling]
    if last or len(messages[0].parts) > len(linear.opening):
        points.append(Breakpoint(last, len(messages[last].parts) - 1, "5m"))
    standing = [Breakpoint(-1, 0, "1h")] if len(points) < 3 else []
    return (*standing, task, *points)


def freed(linear: Linear, number: int) -> int:
    """Return how many characters the prompt loses if the results of an exchange are shortened."""
    exchange = linear.past[number]
    return size(exchange.told) - size(linear.shorten_results(exchange))


def size(message: Message) -> int:
    """Return the characters of a message that are sent."""
    return sum(map(_size, message.parts))


def _size(part: Part) -> int:
    match part:
        case Text() | ToolResult():
            return shown_chars(part)
        case ToolCall():
            return len(part.name) + len(part.malformed or json.encode(part.arguments))
        case Thinking():
            return 0
        case _:
            assert_never(part)
