"""``adaptive``: one conversation while that is cheapest, frames with the heap as soon as they pay off.

The machine is that of ``stackheap`` from the first step: pushes, pops and the heap are available, and the index is in
every prompt. Only the advice adapts. At its start a frame reads how much work makes a child pay off and which phase
length is best (``shared/break_even.py``). A conversation that has grown to two phases gets new advice, based on its own
length, and again whenever it has doubled. The model is also told when a child was too short for its price. Advice is
appended and never changed. Tools and prompt contain only what the first steps need; the instructions for pushing and
popping come when they first matter.

If the run has a clock, the advice counts requests after a pause, which write the whole conversation to the cache again.
The part that all frames share is cached for five minutes, renewed by each request, or for an hour if the pace of the
run makes that cheaper.

``read``: price of a token read from the cache, relative to an input token; ``run`` (default) uses the recorded price.
``standing``: with ``counted``, the advice counts the prompt and tools, which every additional request reads again; with
``ignored`` it does not.
``results``: with ``cleared``, a conversation clears its old results as soon as that is likely to save money, as
``clear_paying:keep=3,again=50`` does; with ``kept`` nothing that was sent ever changes.
Of both, ``run`` (default) is the first if the run recorded ``clearing``. Runs from before 29 November 2026 did not, and
have the second.

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
from stackmem.core.messages import Breakpoint, Message, Text, ToolCall, ToolResult, View
from stackmem.core.requests import Effect
from stackmem.core.state import Compaction, Frame, Reply, Result, State, Turn
from stackmem.core.text import fill
from stackmem.core.tool_schemas import prompt_slots
from stackmem.core.tools import Tool

from .shared.break_even import (
    HOUR_SECONDS,
    LIFE_SECONDS,
    Clearing,
    FrameAdvice,
    Rates,
    clearing_pays,
    clearing_risked,
    first_advice,
    frame_advice,
    hour_pays,
    rates,
    with_pauses,
    worth_the_risk,
)
from .shared.constants import run_constants
from .shared.conversation import Conversation, extend, first_conversation, rolling_breakpoints
from .shared.linear import CHARS_PER_TOKEN, one_line, size, without_thoughts
from .shared.offers import HEAP_SHORT, POP_SHORT, PUSH_SHORT, WORKSPACE
from .shared.opening import first_parts, opening, small_opening, task_opening
from .shared.parameters import Choice
from .shared.parameters import parameters as parse
from .stackheap import heap_news

PARAMETERS = (
    Choice("read", ("run", "0.5", "0.25", "0.1", "0.05", "0.025", "0.01")),
    Choice("standing", ("run", "counted", "ignored")),
    Choice("results", ("run", "cleared", "kept")),
)
PUSHING, POPPING, EACH_STEP = "adaptive_push", "adaptive_pop", "adaptive_each"
STEP_TOKENS = 700.0
"""Estimated tokens per step, before a run has any."""
SHOWN_CHARS = 4_000
"""Maximum characters of the chunks that a frame gets because its objective or context names them."""
_EMPTY = "HEAP INDEX: empty"
_INDEX_LINE_CHARS = 60
KEPT_RESULTS, _REREAD_SHARE = 3, 0.5
"""Exchanges whose results are never cleared, and the share of cleared results that is expected to be looked up. Both
were chosen on recordings that were set aside for that (decision 37); Anthropic's context editing keeps three as well.
"""
_SHORT = 0.5  # of a phase: shorter children are reported to the model


class AdvisedConversation(Struct, frozen=True):
    """A frame's messages so far, and the advice that it has read."""

    messages: Conversation
    rates: Rates | None  # None if this frame may not push
    guide: str  # how to push; empty once the frame has read it
    advice: FrameAdvice  # the last advice
    advised_at: int  # tokens of the turns at that time; 0 at the start
    growth: Log[int]  # tokens of each step but the last
    open_tokens: int = 0  # of the last step, including what followed its reply
    tokens: int = 0  # of all steps
    cost: float = 0.0  # of all steps, in input tokens: written, output, and read again at each later step
    reply_step: int = 0  # step of the last reply
    asked_at: float = 0.0  # the run's clock when that reply was requested; 0 without a clock
    pauses: int = 0  # requests after a pause in which the cache entry expired
    clears: bool = False  # whether old results are cleared once that pays
    border: int = 0  # number of messages whose results were cleared
    last_border: int = 0  # the border before its last move
    freed: int = 0  # tokens of what was cleared


def grow(before: AdvisedConversation, turn: Turn) -> AdvisedConversation:
    """Return the conversation with one more turn, and with new advice if the turn makes it useful."""
    if isinstance(turn, Reply):
        before = without_old_results(before, turn.seconds)
    added = int(_chars(turn) / CHARS_PER_TOKEN)
    life = LIFE_SECONDS if before.rates is None else before.rates.life_seconds
    expired = isinstance(turn, Reply) and before.reply_step > 0 and turn.seconds - before.asked_at > life
    after = replace(
        before,
        messages=extend(before.messages, turn),
        growth=before.growth.append(before.open_tokens) if isinstance(turn, Reply) and before.tokens else before.growth,
        open_tokens=added if isinstance(turn, Reply) else before.open_tokens + added,
        tokens=before.tokens + added,
        cost=before.cost + _cost(before, turn, added, expired=expired),
        reply_step=turn.step if isinstance(turn, Reply) else before.reply_step,
        asked_at=turn.seconds if isinstance(turn, Reply) else before.asked_at,
        pauses=before.pauses + expired,
    )
    if before.rates is None or not isinstance(turn, Result):
        return after
    if 0 < turn.step - before.reply_step < _SHORT * before.advice.phase:
        after = _with_text(after, _short_child(turn.step - before.reply_step, before.advice))
    index_size, advice = index_tokens(turn.heap), None
    if after.tokens >= 2 * before.advised_at and worth_the_risk(before.rates, after.cost, index_size):
        prices = with_pauses(before.rates, after.pauses, len(after.growth) + 1)
        advice = frame_advice(prices, (*after.growth, after.open_tokens), index_size, after.freed)
    if advice is None:
        return after
    lines = (f"Each step rereads these {after.tokens:,} tokens.", advice_text(advice), before.guide)
    after = _with_text(after, "\n".join(filter(None, lines)))
    return replace(after, guide="", advice=advice, advised_at=after.tokens)


def without_old_results(before: AdvisedConversation, now: float) -> AdvisedConversation:
    """Return the conversation before a request at ``now``, without its old results if clearing them pays."""
    if not before.clears or before.rates is None:
        return before
    closed, prices = before.messages.close(), before.rates
    messages, end = closed.messages, len(closed.messages) - 2 * KEPT_RESULTS
    if end <= before.border:
        return before
    shorter = [_cleared(message) for message in messages[before.border : end]]
    saved = [size(old) - size(new) for old, new in zip(messages[before.border : end], shorter, strict=True)]
    first = next((number for number, chars in enumerate(saved, before.border) if chars), end)
    freed = int(sum(saved) / CHARS_PER_TOKEN)
    follows = int((sum(map(size, messages[first:])) - sum(saved)) / CHARS_PER_TOKEN)
    clearing = Clearing(sum(chars > 0 for chars in saved), freed, follows, int(prices.standing) + before.tokens)
    cold = before.reply_step > 0 and now - before.asked_at > prices.life_seconds
    if not cold and not clearing_risked(prices, clearing, before.cost):
        return before
    if not clearing_pays(prices, clearing, len(before.growth) + 1, before.pauses, _REREAD_SHARE, cold=cold):
        return before
    log = Log([*map(without_thoughts, messages[: before.border]), *shorter, *map(without_thoughts, messages[end:])])
    return replace(
        before, messages=replace(closed, messages=log), border=end, last_border=before.border,
        freed=before.freed + freed, tokens=max(0, before.tokens - freed),
    )  # fmt: skip


def _cleared(message: Message) -> Message:
    parts = (one_line("cleared", part, 0) if isinstance(part, ToolResult) else part for part in message.parts)
    return without_thoughts(replace(message, parts=tuple(parts)))


def _cost(before: AdvisedConversation, turn: Turn, size: int, *, expired: bool) -> float:
    prices = before.rates or Rates()
    if isinstance(turn, Reply):
        reread = prices.write if expired else prices.read
        return reread * (before.tokens + prices.standing) + (prices.write + prices.output) * size
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
    """Estimate the tokens of the heap's index."""
    lines = (_INDEX_LINE_CHARS + len(chunk.name) + len(chunk.description) for chunk in heap.chunks.values())
    return sum(lines) / CHARS_PER_TOKEN


class Adaptive(Struct, frozen=True):
    """read: Price of a token read from the cache, relative to an input token; None uses the recorded price."""

    name: str = "adaptive"
    read: float | None = None
    standing: str = "run"  # whether the advice counts the prompt and the tools: counted, ignored, or as recorded
    results: str = "run"  # whether old results are cleared once that pays: cleared, kept, or as recorded
    life: Literal["5m", "1h"] = "5m"  # how long cache entries live
    tools: tuple[Tool, ...] = (*WORKSPACE, PUSH_SHORT, POP_SHORT, *HEAP_SHORT)
    prompt: str = "adaptive"
    texts: tuple[str, ...] = (PUSHING, POPPING, EACH_STEP)

    @property
    def prefix_stable(self) -> bool:
        return self.results == "kept"

    @property
    def clearing(self) -> Literal["paying"]:
        """What new runs record. See ``ClearsResults``."""
        return "paying"

    def render(self, state: State) -> View:
        start = state.begun
        prices = self._rates(start)
        step_tokens, conversation = STEP_TOKENS, None
        for frame in state.stack:
            conversation = self._conversation(start, frame, prices, step_tokens)
            step_tokens = conversation.advice.step_tokens
        if conversation is None:
            raise IndexError("no frame is running")
        conversation = without_old_results(conversation, state.seconds)
        messages = conversation.messages.close().messages
        # A user takes some time between two requests, so five minutes are often over.
        paused = state.session is not None or hour_pays(prices, state.seconds, state.step)
        life: Literal["5m", "1h"] = "1h" if paused else "5m"
        shared = conversation.messages.shared_parts
        breakpoints = rolling_breakpoints(messages, len(messages[-1].parts), life, shared_parts=shared)
        borders = sorted({conversation.last_border - 1, conversation.border - 1} - {-1, 0, len(messages) - 1})
        if borders:
            marks = (Breakpoint(border, len(messages[border].parts) - 1, "5m") for border in borders)
            breakpoints = (breakpoints[1], *marks, breakpoints[-1])
        return View(start.system, start.tools, messages, breakpoints)

    def told(self, state: State) -> FrameAdvice | None:
        """Return the advice that the root has read since its start, or None while the first advice applies."""
        conversation = self._conversation(state.begun, state.stack[0], self._rates(state.begun), STEP_TOKENS)
        return None if conversation.guide else conversation.advice

    def _rates(self, start: RunStarted) -> Rates:
        prices = rates(start.price, self.read)
        if _applies(self.standing, "counted", start):
            tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in start.tools)
            prices = replace(prices, standing=(len(start.system) + tools) / CHARS_PER_TOKEN)
        return prices if self.life == "5m" else replace(prices, write=prices.hour, life_seconds=HOUR_SECONDS)

    def _conversation(self, start: RunStarted, frame: Frame, prices: Rates, step_tokens: float) -> AdvisedConversation:
        constants, thoughts = run_constants(start), start.thinking == "kept"

        def begin() -> AdvisedConversation:
            return self._first_conversation(start, frame, prices, step_tokens)

        key = (self.name, constants, thoughts, start.budgets, start.texts, prices, step_tokens)
        return frame.turns.fold_from(grow, begin, key)

    def _first_conversation(
        self, start: RunStarted, frame: Frame, prices: Rates, step_tokens: float
    ) -> AdvisedConversation:
        budgets = start.budgets
        small = start.small is not UNSET  # a small model reads about frames in a notice, and gets no advice
        may_push = frame.depth - frame.pushed_at < budgets.depth and not small
        advice = first_advice(prices, step_tokens, index_tokens(frame.opened))
        index_text = index(frame.opened, budgets) if frame.opened.chunks else _EMPTY
        if frame.depth:
            begins = opening(frame, budgets, index_text, registers=not frame.task)
        else:
            begins = small_opening(frame, index_text) if small else task_opening(frame, index_text)
        each_step = _recorded(start, EACH_STEP)  # empty in older runs
        child = [_recorded(start, POPPING), *([each_step] if each_step else [])] if frame.depth else []
        blocks = [*([advice_text(advice)] if may_push else []), *child]
        blocks = [*blocks, begins] if frame.request else [begins, *blocks]  # a user's request comes last
        own = "\n".join([*blocks, *_named_chunks(frame)] if frame.depth else blocks)
        parts, news = first_parts(run_constants(start), frame, own), heap_news("on_change", budgets)
        messages = first_conversation(parts, frame.opened, news, thoughts=start.thinking == "kept")
        texts = (_recorded(start, PUSHING), "" if frame.depth else each_step)  # a child has read the latter
        guide, pushing = "\n".join(filter(None, texts)), prices if may_push else None
        return AdvisedConversation(
            messages, pushing, guide, advice, 0, Log(), clears=_applies(self.results, "cleared", start)
        )

    def upkeep(self, state: State) -> Effect | None:
        return None


def _named_chunks(frame: Frame) -> Iterator[str]:
    """Yield the chunks that the push named, in full, because reading each of them would take a step."""
    heap, remaining = frame.opened, SHOWN_CHARS
    for name in () if frame.request else pointers(frame.registers.intent, frame.context):
        chunk = heap.chunks.get(name)
        if chunk is not None and not heap.stale(chunk) and len(chunk.content) <= remaining:
            remaining -= len(chunk.content)
            yield f"\n{chunk.heading}\n{chunk.content}"


def _applies(word: str, value: str, start: RunStarted) -> bool:
    """Return whether a parameter has this value, or leaves it to a run that clears results."""
    return word == value or (word == "run" and start.clearing is not UNSET)


def _recorded(start: RunStarted, name: str) -> str:
    """Return the recorded text. Empty in a run forked from another strategy."""
    text = next((text.text for text in start.texts or () if text.name == name), "")
    return fill(text, prompt_slots(start.budgets, start.command_seconds))


def adaptive(parameters: str) -> Adaptive:
    options = parse("adaptive", parameters, PARAMETERS)
    read = options.words["read"]
    price = None if read == "run" else float(read)
    return Adaptive(options.name, price, options.words["standing"], options.words["results"])
