"""``adaptive``: one conversation while that is cheapest, frames with the heap as soon as they pay.

The machine is that of ``stackheap`` from the first step: pushes, pops and the heap are offered, and the index is in
every prompt. What adapts is the advice. A frame is told at its start for how much work a child pays and how long a
phase is best (``shared/break_even.py``). A conversation that has grown to two phases is told again, by its own length,
and whenever it has doubled. A child that was too short for its price is named. Advice is appended and never changed.
Tools and prompt say only what the first steps need; how to push and to pop is told where it first matters.

What all frames share lives in the cache for five minutes, which each request begins anew, unless the pace of the run
says that an hour pays.

``read``: price of a token read from the cache, in prices of an input token; ``run`` (default) is what the run records.

Source: our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.facts import RunStarted
from stackmem.core.frames import pointers
from stackmem.core.heap import Heap, index
from stackmem.core.log import Log
from stackmem.core.messages import Text, ToolCall, View
from stackmem.core.requests import Effect
from stackmem.core.state import Compaction, Frame, Reply, Result, State, Turn
from stackmem.core.text import fill
from stackmem.core.tool_schemas import prompt_slots
from stackmem.core.tools import Tool

from .shared.break_even import FrameAdvice, Rates, first_advice, frame_advice, hour_pays, rates, worth_the_risk
from .shared.constants import run_constants
from .shared.conversation import Conversation, extend, first_conversation, rolling_breakpoints
from .shared.linear import CHARS_PER_TOKEN
from .shared.offers import HEAP_SHORT, POP_SHORT, PUSH_SHORT, WORKSPACE
from .shared.opening import first_parts, opening, small_opening, task_opening
from .shared.parameters import Choice
from .shared.parameters import parameters as parse
from .stackheap import heap_news

PARAMETERS = (Choice("read", ("run", "0.5", "0.25", "0.1", "0.05", "0.025", "0.01")),)
PUSHING, POPPING = "adaptive_push", "adaptive_pop"
STEP_TOKENS = 700.0
"""What a step brings, before a run has shown it."""
SHOWN_CHARS = 4_000
"""Of the chunks that a frame is shown since they are named in its objective or context."""
_EMPTY = "HEAP INDEX: empty"
_INDEX_LINE_CHARS = 60
_SHORT = 0.5  # of a phase: a child of fewer steps is named


class AdvisedConversation(Struct, frozen=True):
    """A frame's messages so far, with what it was told of frames."""

    messages: Conversation
    rates: Rates | None  # none where no frame may be pushed from this one
    guide: str  # how to push; empty once it was told
    advice: FrameAdvice  # the last one
    advised_at: int  # tokens of the turns at that time; 0 at the start
    growth: Log[int]  # tokens of each step but the last
    open_tokens: int = 0  # of the last, with what followed its reply
    tokens: int = 0  # of all of them
    cost: float = 0.0  # of all of them, in tokens of input: written, said, and read at each later step
    reply_step: int = 0  # of the last reply


def grow(before: AdvisedConversation, turn: Turn) -> AdvisedConversation:
    """With one more turn, and what it makes worth telling."""
    size = int(_chars(turn) / CHARS_PER_TOKEN)
    after = replace(
        before,
        messages=extend(before.messages, turn),
        growth=before.growth.append(before.open_tokens) if isinstance(turn, Reply) and before.tokens else before.growth,
        open_tokens=size if isinstance(turn, Reply) else before.open_tokens + size,
        tokens=before.tokens + size,
        cost=before.cost + _cost(before, turn, size),
        reply_step=turn.step if isinstance(turn, Reply) else before.reply_step,
    )
    if before.rates is None or not isinstance(turn, Result):
        return after
    if 0 < turn.step - before.reply_step < _SHORT * before.advice.phase:
        after = _with_text(after, _short_child(turn.step - before.reply_step, before.advice))
    listed, advice = index_tokens(turn.heap), None
    if after.tokens >= 2 * before.advised_at and worth_the_risk(before.rates, after.cost, listed):
        advice = frame_advice(before.rates, (*after.growth, after.open_tokens), listed)
    if advice is None:
        return after
    lines = (f"Each step reads these {after.tokens:,} tokens again.", advice_text(advice), before.guide)
    after = _with_text(after, "\n".join(filter(None, lines)))
    return replace(after, guide="", advice=advice, advised_at=after.tokens)


def _cost(before: AdvisedConversation, turn: Turn, size: int) -> float:
    prices = before.rates or Rates()
    if isinstance(turn, Reply):
        return prices.read * before.tokens + (prices.write + prices.output) * size
    return prices.write * size


def _with_text(conversation: AdvisedConversation, text: str) -> AdvisedConversation:
    messages = conversation.messages
    return replace(conversation, messages=replace(messages, parts=(*messages.parts, Text(text))))


def advice_text(advice: FrameAdvice) -> str:
    return f"FRAMES PAY above {advice.least} steps: push phases of {advice.phase}."


def _short_child(steps: int, advice: FrameAdvice) -> str:
    return f"That frame took {steps} steps and cost more than it saved; phases of about {advice.phase} pay."


def _chars(turn: Turn) -> int:
    if isinstance(turn, Reply):
        calls = (part for part in turn.parts if isinstance(part, ToolCall))
        texts = (part.text for part in turn.parts if isinstance(part, Text))
        return sum(len(call.name) + len(str(call.arguments)) for call in calls) + sum(map(len, texts))
    return 0 if isinstance(turn, Compaction) else len(turn.text)


def index_tokens(heap: Heap) -> float:
    """Of the heap's index, near enough."""
    lines = (_INDEX_LINE_CHARS + len(chunk.name) + len(chunk.description) for chunk in heap.chunks.values())
    return sum(lines) / CHARS_PER_TOKEN


class Adaptive(Struct, frozen=True):
    """read: Price of a token read from the cache, in prices of an input token; None is what the run records."""

    name: str = "adaptive"
    read: float | None = None
    tools: tuple[Tool, ...] = (*WORKSPACE, PUSH_SHORT, POP_SHORT, *HEAP_SHORT)
    prompt: str = "adaptive"
    texts: tuple[str, ...] = (PUSHING, POPPING)
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        start = state.begun
        prices = rates(start.price, self.read)
        step_tokens, conversation = STEP_TOKENS, None
        for frame in state.stack:
            conversation = self._conversation(start, frame, prices, step_tokens)
            step_tokens = conversation.advice.step_tokens
        if conversation is None:
            raise IndexError("no frame is running")
        messages = conversation.messages.close().messages
        # A person takes her time between two requests.
        paused = state.session is not None or hour_pays(prices, state.seconds, state.step)
        life: Literal["5m", "1h"] = "1h" if paused else "5m"
        shared = conversation.messages.shared_parts
        breakpoints = rolling_breakpoints(messages, len(messages[-1].parts), life, shared_parts=shared)
        return View(start.system, start.tools, messages, breakpoints)

    def told(self, state: State) -> FrameAdvice | None:
        """What the root was told since it began; None while its first advice stands."""
        conversation = self._conversation(state.begun, state.stack[0], rates(state.begun.price, self.read), STEP_TOKENS)
        return None if conversation.guide else conversation.advice

    def _conversation(self, start: RunStarted, frame: Frame, prices: Rates, step_tokens: float) -> AdvisedConversation:
        constants, thoughts = run_constants(start), start.thinking == "kept"

        def begin() -> AdvisedConversation:
            return self._begun(start, frame, prices, step_tokens)

        key = (self.name, constants, thoughts, start.budgets, start.texts, prices, step_tokens)
        return frame.turns.fold_from(grow, begin, key)

    def _begun(self, start: RunStarted, frame: Frame, prices: Rates, step_tokens: float) -> AdvisedConversation:
        budgets = start.budgets
        small = start.small is not UNSET  # such a model is told of frames by a notice, and not advised
        may_push = frame.depth - frame.pushed_at < budgets.depth and not small
        advice = first_advice(prices, step_tokens, index_tokens(frame.opened))
        listed = index(frame.opened, budgets) if frame.opened.chunks else _EMPTY
        if frame.depth:
            begins = opening(frame, budgets, listed, registers=not frame.task)
        else:
            begins = small_opening(frame, listed) if small else task_opening(frame, listed)
        told = [*([advice_text(advice)] if may_push else []), *([_recorded(start, POPPING)] if frame.depth else [])]
        told = [*told, begins] if frame.request else [begins, *told]  # what a person asks for stands last
        own = "\n".join([*told, *_named_chunks(frame)] if frame.depth else told)
        parts, news = first_parts(run_constants(start), frame, own), heap_news("on_change", budgets)
        messages = first_conversation(parts, frame.opened, news, thoughts=start.thinking == "kept")
        return AdvisedConversation(messages, prices if may_push else None, _recorded(start, PUSHING), advice, 0, Log())

    def upkeep(self, state: State) -> Effect | None:
        return None


def _named_chunks(frame: Frame) -> Iterator[str]:
    """The chunks that a frame was pushed with the names of, whole: to read each would be a step."""
    heap, left = frame.opened, SHOWN_CHARS
    for name in () if frame.request else pointers(frame.registers.intent, frame.context):
        chunk = heap.chunks.get(name)
        if chunk is not None and not heap.stale(chunk) and len(chunk.content) <= left:
            left -= len(chunk.content)
            yield f"\n{chunk.heading}\n{chunk.content}"


def _recorded(start: RunStarted, name: str) -> str:
    """The text as the run recorded it; a run that was forked from another strategy has none."""
    text = next((text.text for text in start.texts or () if text.name == name), "")
    return fill(text, prompt_slots(start.budgets, start.command_seconds))


def adaptive(parameters: str) -> Adaptive:
    chosen = parse("adaptive", parameters, PARAMETERS)
    read = chosen.words["read"]
    return Adaptive(chosen.name, None if read == "run" else float(read))
