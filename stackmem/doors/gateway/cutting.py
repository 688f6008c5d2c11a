"""Applies linear strategies to another agent's conversation: decides which exchanges to drop or shorten.

- A decision depends only on the beginning of the conversation, so the same beginning is always cut the same way.
- A call and its result stay together; a cut that would separate them moves back. So does one after which a tool loop
  would not begin with its thinking, if the provider demands that.
- Clients may re-encode old messages between turns. A decision that was made is kept.
- A summary is requested once for each beginning, by the same rules. After a failure, the wait for the next attempt
  doubles in exchanges.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.heap import Heap
from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult
from stackmem.core.state import Compaction
from stackmem.doors.gateway.wires.wire import THOUGHTS, ForeignMessage, ForeignRequest
from stackmem.lab.strategies.compacting import Summarizing, cold_parts, request_text
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.memory.shared.linear import Linear, OneConversation, size
from stackmem.models.catalog import lookup
from stackmem.run.prompts import prompt_text

from .identity import PrefixChain, shared

FITTING = (
    "clear", "hierarchical", "mask", "rolling_summary", "structured_summary", "summary", "truncate", "window",
)  # fmt: skip
UNKNOWN_WINDOW = 200_000
"""Tokens assumed as the window of an unknown model."""
_MAX_REMEMBERED = 2_048
_MAX_TOLD = 64
_MAX_DOUBLED = 8


def foreign_strategy(spelled: str) -> OneConversation | Summarizing | None:
    """Open a strategy with its parameters; None for ``full``, which changes nothing.

    Raise UsageError if the strategy does not exist, or works only with our own agent.
    """
    name = spelled.partition(":")[0]
    if name in STRATEGIES and name not in ("full", *FITTING):
        raise UsageError(
            f"--strategy {spelled[:80]} works only with stackmem's own agent; "
            f"use full, {', '.join(FITTING)}, or stackheap (without parameters) together with stackmem mcp"
        )
    strategy = open_strategy(spelled)
    return strategy if isinstance(strategy, OneConversation | Summarizing) else None


class ForeignExchange(Struct, frozen=True):
    """One exchange, a reply of the model and the messages after it, as message indexes; ``end`` is exclusive."""

    reply: int
    results: int
    end: int
    blocks: int  # number of identity blocks up to the end of the exchange


class ForeignCut(Struct, frozen=True):
    """A strategy's changes to a request."""

    exchanges: tuple[ForeignExchange, ...]  # all complete exchanges
    dropped: int = 0  # number of leading exchanges to leave out
    short: int = 0  # number of leading exchanges that are dropped or shortened, including the dropped ones
    head: str = ""  # text in place of the dropped exchanges; empty for none
    # if frames decided, the indexes of hidden exchanges; ``dropped`` is then their count, and ``short`` that of
    # ``answers``
    hidden: frozenset[int] | None = None
    # if frames decided, exchange index to call ids and their new results
    answers: dict[int, dict[str, str]] = {}
    # if frames decided, exchanges whose reply the model gave to a cut conversation; its thinking may no longer
    # match
    bound: frozenset[int] = frozenset()

    def drops(self, number: int) -> bool:
        """Return whether this exchange is left out."""
        return number < self.dropped if self.hidden is None else number in self.hidden

    def shortens(self, number: int) -> bool:
        """Return whether this exchange is kept but shortened."""
        return number < self.short if self.hidden is None else number in self.answers


def exchanges(
    messages: Sequence[ForeignMessage], earlier: tuple[ForeignExchange, ...] = ()
) -> tuple[ForeignExchange, ...]:
    """Split messages into exchanges, reusing known ones; messages before the first reply belong to none."""
    result: list[ForeignExchange] = list(earlier)
    reply = results = -1
    begin, blocks = (earlier[-1].end, earlier[-1].blocks) if earlier else (0, 0)
    for number in range(begin, len(messages)):
        message = messages[number]
        if message.role == "assistant" and (reply < 0 or results >= 0):
            if reply >= 0:
                result.append(ForeignExchange(reply, results, number, blocks))
            reply, results = number, -1
        elif message.role != "assistant" and reply >= 0 and results < 0:
            results = number
        blocks += len(message.identity)
    if reply >= 0 and results >= 0:
        result.append(ForeignExchange(reply, results, len(messages), blocks))
    return tuple(result)


class ToldConversation(Struct, frozen=True):
    """A conversation split into exchanges."""

    messages: tuple[ForeignMessage, ...] = ()
    exchanges: tuple[ForeignExchange, ...] = ()
    waiting: tuple[frozenset[str], ...] = (frozenset(),)  # after each exchange, the calls that still have no result
    # after each exchange, the last earlier position at which the conversation may be cut
    borders: tuple[int, ...] = (0,)
    needs_thinking: bool = False

    def grown(self, messages: tuple[ForeignMessage, ...], *, needs_thinking: bool = False) -> ToldConversation:
        """Return the conversation for new messages, reusing the work on the common beginning."""
        if needs_thinking != self.needs_thinking:
            return ToldConversation(needs_thinking=needs_thinking).grown(messages, needs_thinking=needs_thinking)
        alike = shared(self.messages, messages)
        reused = max(0, len(self.exchanges) - 1)  # the last exchange may still grow
        while reused and self.exchanges[reused - 1].end >= alike:
            reused -= 1
        split = exchanges(messages, self.exchanges[:reused])
        waiting, borders = list(self.waiting[: reused + 1]), list(self.borders[: reused + 1])
        for number in range(reused, len(split)):
            calls = set(waiting[-1])
            for message in messages[split[number].reply : split[number].end]:
                for part in message.parts if message.role != "system" else ():
                    if isinstance(part, ToolCall):
                        calls.add(part.id)
                    elif isinstance(part, ToolResult):
                        calls.discard(part.call_id)
            waiting.append(frozenset(calls))
            cuts = not calls and (not needs_thinking or begins_loop(messages, split, number + 1))
            borders.append(number + 1 if cuts else borders[-1])
        return ToldConversation(messages, split, tuple(waiting), tuple(borders), needs_thinking)


def begins_turn(messages: Sequence[ForeignMessage], split: Sequence[ForeignExchange], number: int) -> bool:
    """Return whether an exchange is the first one, or follows words of the user and not the result of a call."""
    before = split[number - 1] if 0 < number < len(split) else None
    answers = (part for message in messages[before.results : before.end] for part in message.parts) if before else ()
    return not any(isinstance(part, ToolResult) for part in answers)


def begins_loop(messages: Sequence[ForeignMessage], split: Sequence[ForeignExchange], number: int) -> bool:
    """Return whether a tool loop may begin with this exchange: it has thinking first, or it begins a turn."""
    parts = messages[split[number].reply].parts if number < len(split) else ()
    thinks = bool(parts) and isinstance(parts[0], Thinking) and parts[0].raw.get("type") in THOUGHTS
    return thinks or begins_turn(messages, split, number)


class SummaryWanted(Struct, frozen=True):
    """A summary that a strategy wants in place of the beginning of a conversation."""

    turns: int  # exchanges to summarize; ``kept_exchanges`` is the number after them
    kept_exchanges: int
    request_text: str
    # if it is requested outside the conversation, the whole prompt; else empty
    cold: tuple[Text, ...] = ()
    # whether the conversation's thinking may be bound to a prompt that an earlier gateway cut
    joined_late: bool = False


class Followed(Struct, frozen=True):
    """A strategy's view of a conversation up to some point."""

    view: Linear
    joined_late: bool = False  # whether the conversation already had replies when it was first seen
    failed: int = 0  # failed summary attempts in a row
    waits: int = 0  # number of exchanges required before the next attempt


class Cutter:
    """Applies one strategy, and remembers its decisions for each beginning."""

    def __init__(self, strategy: OneConversation | Summarizing) -> None:
        self.strategy = strategy
        self._views: OrderedDict[bytes, Followed] = OrderedDict()
        self._conversations: OrderedDict[bytes, ToldConversation] = OrderedDict()
        self._opened: OrderedDict[bytes, None] = OrderedDict()  # digests of openings that were seen without a reply
        self._lock = Lock()  # only for lookups and updates, because decisions are slow

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        """Return the result of exchange ``step`` (from 1) as the strategy shows it."""
        return self.strategy.rules.shorten(result, step)

    def cut(self, request: ForeignRequest, chain: PrefixChain) -> ForeignCut:
        """Return the cut for a request with this chain."""
        conversation, followed = self._follow(request, chain)
        if followed is None:
            return ForeignCut(conversation.exchanges)
        view = followed.view
        dropped = conversation.borders[view.cut.dropped]
        head = self.strategy.rules.head(view) if dropped == view.cut.dropped else ""
        return ForeignCut(conversation.exchanges, dropped, max(dropped, view.cut.short), head)

    def due_summary(self, request: ForeignRequest, chain: PrefixChain) -> SummaryWanted | None:
        """Return the summary to request before this request continues; None if none is due."""
        strategy = self.strategy
        if not isinstance(strategy, Summarizing) or request.wants_json:
            return None
        conversation, followed = self._follow(request, chain)
        past = conversation.exchanges
        if followed is None or past[-1].end != len(request.messages) or len(past) < followed.waits:
            return None
        view, row, most = followed.view, lookup(request.model), strategy.request
        window = row.window_tokens if row is not None else UNKNOWN_WINDOW
        turns = strategy.due(window, view)
        if turns is None or (turns := conversation.borders[min(turns, view.answer)]) <= view.cut.dropped:
            return None
        remaining = len(past) - turns
        prompt = request_text(prompt_text(most.text), most, turns, remaining)
        cold = cold_parts(view.opening, view, turns, window, prompt) if most.prefix == "cold" else ()
        return SummaryWanted(
            turns, remaining, prompt, tuple(part for part in cold if isinstance(part, Text)), followed.joined_late
        )

    def summarize(self, request: ForeignRequest, chain: PrefixChain, summary: SummaryWanted, text: str) -> None:
        """Record the requested summary; an empty text records a failed attempt."""
        conversation, followed = self._follow(request, chain)
        past = conversation.exchanges
        if followed is None:
            return
        if text:
            turn = Compaction(text, summary.turns, len(past), Heap())
            grown = Followed(followed.view.summarize(turn))
        else:
            waits = len(past) + 2 ** min(followed.failed, _MAX_DOUBLED)
            grown = replace(followed, failed=followed.failed + 1, waits=waits)
        self._keep(chain.digests[past[-1].blocks], grown, replaces=True)

    def _follow(self, request: ForeignRequest, chain: PrefixChain) -> tuple[ToldConversation, Followed | None]:
        """Return the conversation and the strategy's view of it; None as the view if there is nothing to decide."""
        opening = chain.digests[min(1, len(chain))]
        with self._lock:
            before = self._conversations.pop(opening, ToldConversation())
        conversation = before.grown(request.messages, needs_thinking=request.needs_thinking)
        with self._lock:
            self._conversations[opening] = conversation
            if len(self._conversations) > _MAX_TOLD:
                self._conversations.popitem(last=False)
        past = conversation.exchanges
        if not past:
            self._open(chain.tip)
        if not past or request.continues:
            return conversation, None
        first, followed = self._beginning(request, chain, past)
        for number in range(first, len(past)):
            exchange = past[number]
            reply = Message("assistant", _parts(request.messages[exchange.reply : exchange.results]))
            # Treat every exchange as if it had a result, so that the last one stays whole even if it is only text.
            view = replace(followed.view, step=number + 1, answer=number).finish_exchange(
                reply, _parts(request.messages[exchange.results : exchange.end]) or (Text(""),)
            )
            followed = self._keep(chain.digests[exchange.blocks], replace(followed, view=view))
        return conversation, followed

    def _beginning(
        self, request: ForeignRequest, chain: PrefixChain, past: tuple[ForeignExchange, ...]
    ) -> tuple[int, Followed]:
        """Return the longest known beginning, in exchanges, and the strategy's view of it."""
        for number in range(len(past), 0, -1):
            followed = self._views.get(chain.digests[past[number - 1].blocks])
            if followed is not None:
                return number, followed
        opening = _parts(request.messages[: past[0].reply])
        tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in request.tools)
        first = Message("user", opening)
        view = Linear(
            self.strategy.rules, opening, len(request.system) + tools, Log(), Log([first]), size(first),
            summarizes=isinstance(self.strategy, Summarizing),
        )  # fmt: skip
        before = sum(len(message.identity) for message in request.messages[: past[0].reply])
        return 0, Followed(view, joined_late=not self._is_opened(chain.digests[before]))

    def _open(self, digest: bytes) -> None:
        with self._lock:
            self._opened[digest] = None
            if len(self._opened) > _MAX_REMEMBERED:
                self._opened.popitem(last=False)

    def _is_opened(self, digest: bytes) -> bool:
        with self._lock:
            return digest in self._opened

    def _keep(self, digest: bytes, followed: Followed, *, replaces: bool = False) -> Followed:
        """Store a view. A view stored by another thread wins, unless ``replaces`` is set."""
        with self._lock:
            stored = followed if replaces else self._views.get(digest, followed)
            self._views[digest] = stored
            self._views.move_to_end(digest)
            if len(self._views) > _MAX_REMEMBERED:
                self._views.popitem(last=False)
            return stored


def _parts(messages: Sequence[ForeignMessage]) -> tuple[Part, ...]:
    """Return the parts that decisions use, without outer blanks: clients may drop those when they resend a reply."""
    parts = (part for message in messages if message.role != "system" for part in message.parts)
    return tuple(Text(part.text.strip()) if isinstance(part, Text) else part for part in parts)
