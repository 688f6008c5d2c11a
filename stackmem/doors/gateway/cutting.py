"""Linear strategies on a conversation that is not ours: what of it is left out or shortened, decided from it alone.

Rule 1: a decision is a function of the conversation's beginning: the same beginning is always cut the same way.
Rule 2: a call and its result stay or go together; a border that would part them moves back.
Rule 3: what a client spells anew from turn to turn decides nothing a second time: a decision that was made is kept.
Rule 4: a text that stands for exchanges is asked for once, by the same rules; it stays with the beginning that it was
    written for. Where none could be had, the next try waits for twice as many exchanges as the one before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.heap import Heap
from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Text, ToolCall, ToolResult
from stackmem.core.state import Compaction
from stackmem.doors.gateway.wires.wire import ForeignMessage, ForeignRequest
from stackmem.errors import UsageError
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.memory.shared.compacting import Summarizing, cold_parts, request_text
from stackmem.memory.shared.linear import Linear, OneConversation, size
from stackmem.models.catalog import lookup
from stackmem.prompts import prompt_text

from .identity import PrefixChain, shared

FITTING = (
    "clear", "hierarchical", "mask", "rolling_summary", "structured_summary", "summary", "truncate", "window",
)  # fmt: skip
UNKNOWN_WINDOW = 200_000
"""Tokens of the window of a model that is not known."""
_MOST_REMEMBERED = 2_048
_MOST_TOLD = 64
_MOST_DOUBLED = 8


def foreign_strategy(spelled: str) -> OneConversation | Summarizing | None:
    """The strategy, with its parameters after a colon; None for ``full``, which changes nothing."""
    name = spelled.partition(":")[0]
    if name in STRATEGIES and name not in ("full", *FITTING):
        raise UsageError(
            f"--strategy {name} needs tools or frames of its own, which an agent that is not ours does not "
            f"have; take full, {', '.join(FITTING)}, or stackheap beside stackmem mcp"
        )
    strategy = open_strategy(spelled)
    return strategy if isinstance(strategy, OneConversation | Summarizing) else None


class ForeignExchange(Struct, frozen=True):
    """What the model said, and what it was told then: places of messages, the last one not included."""

    said: int
    told: int
    end: int
    blocks: int  # so many blocks of the conversation's identity end with it


class ForeignCut(Struct, frozen=True):
    """What a strategy makes of a request."""

    exchanges: tuple[ForeignExchange, ...]  # all of them that are whole
    dropped: int = 0  # so many of the first are left out
    short: int = 0  # so many of the first are not shown whole; the dropped ones are among them
    head: str = ""  # what is said in place of the dropped ones; empty for nothing
    # of a cut by frames, the places of those that are left out; ``dropped`` is then their number, and ``short`` that of
    # ``answers``
    hidden: frozenset[int] | None = None
    # of a cut by frames, the place of an exchange to call ids and what they are answered with
    answers: dict[int, dict[str, str]] = {}
    # of a cut by frames, exchanges whose reply was given to a conversation that was cut, and may not be now
    bound: frozenset[int] = frozenset()

    def drops(self, number: int) -> bool:
        """Whether the exchange at that place is left out."""
        return number < self.dropped if self.hidden is None else number in self.hidden

    def shortens(self, number: int) -> bool:
        """Whether the exchange at that place is shown, and not whole."""
        return number < self.short if self.hidden is None else number in self.answers


def exchanges(
    messages: Sequence[ForeignMessage], known: tuple[ForeignExchange, ...] = ()
) -> tuple[ForeignExchange, ...]:
    """The exchanges of a conversation, the first of which may be known; what stands before a reply is in none."""
    found: list[ForeignExchange] = list(known)
    said = told = -1
    begin, blocks = (known[-1].end, known[-1].blocks) if known else (0, 0)
    for number in range(begin, len(messages)):
        one = messages[number]
        if one.role == "assistant" and (said < 0 or told >= 0):
            if said >= 0:
                found.append(ForeignExchange(said, told, number, blocks))
            said, told = number, -1
        elif one.role != "assistant" and said >= 0 and told < 0:
            told = number
        blocks += len(one.identity)
    if said >= 0 and told >= 0:
        found.append(ForeignExchange(said, told, len(messages), blocks))
    return tuple(found)


class ToldConversation(Struct, frozen=True):
    """A conversation in exchanges."""

    messages: tuple[ForeignMessage, ...] = ()
    exchanges: tuple[ForeignExchange, ...] = ()
    waiting: tuple[frozenset[str], ...] = (frozenset(),)  # after each exchange, the calls that have no result yet
    # after each exchange, the last border up to there that parts no call from its result
    borders: tuple[int, ...] = (0,)

    def grown(self, messages: tuple[ForeignMessage, ...]) -> ToldConversation:
        """The conversation with other messages; what both begin with is not looked at again."""
        alike = shared(self.messages, messages)
        kept = max(0, len(self.exchanges) - 1)  # the last one may go on
        while kept and self.exchanges[kept - 1].end >= alike:
            kept -= 1
        told = exchanges(messages, self.exchanges[:kept])
        waiting, borders = list(self.waiting[: kept + 1]), list(self.borders[: kept + 1])
        for number in range(kept, len(told)):
            calls = set(waiting[-1])
            for message in messages[told[number].said : told[number].end]:
                for part in message.parts if message.role != "system" else ():
                    if isinstance(part, ToolCall):
                        calls.add(part.id)
                    elif isinstance(part, ToolResult):
                        calls.discard(part.call_id)
            waiting.append(frozenset(calls))
            borders.append(borders[-1] if calls else number + 1)
        return ToldConversation(messages, told, tuple(waiting), tuple(borders))


class SummaryWanted(Struct, frozen=True):
    """A text that a strategy wants to stand for the beginning of a conversation."""

    turns: int  # exchanges that it is to stand for; ``kept`` stay behind it
    kept: int
    asked: str  # what asks for it
    # where it is asked for outside of the conversation, all that the request says; else empty
    cold: tuple[Text, ...] = ()


class Followed(Struct, frozen=True):
    """A beginning as the strategy shows it."""

    shown: Linear
    failed: int = 0  # texts in a row that could not be had
    waits: int = 0  # so many exchanges must be there before the next is asked for


class Cutter:
    """Decides for one strategy; what it has decided of a beginning it remembers."""

    def __init__(self, strategy: OneConversation | Summarizing) -> None:
        self.strategy = strategy
        self._known: OrderedDict[bytes, Followed] = OrderedDict()
        self._told: OrderedDict[bytes, ToldConversation] = OrderedDict()
        self._lock = Lock()  # for looking up and keeping only: decisions take time

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        """A result of the exchange of that number, from 1, as the strategy shows it."""
        return self.strategy.rules.shorten(result, step)

    def cut(self, request: ForeignRequest, found: PrefixChain) -> ForeignCut:
        """What is left out or shortened of a request whose chain this is."""
        told, known = self._follow(request, found)
        if known is None:
            return ForeignCut(told.exchanges)
        shown = known.shown
        dropped = told.borders[shown.cut.dropped]
        head = self.strategy.rules.head(shown) if dropped == shown.cut.dropped else ""
        return ForeignCut(told.exchanges, dropped, max(dropped, shown.cut.short), head)

    def wanted(self, request: ForeignRequest, found: PrefixChain) -> SummaryWanted | None:
        """The text to ask for before the request goes on; None where none is due."""
        strategy = self.strategy
        if not isinstance(strategy, Summarizing) or request.wants_json:
            return None
        conversation, known = self._follow(request, found)
        told = conversation.exchanges
        if known is None or told[-1].end != len(request.messages) or len(told) < known.waits:
            return None
        shown, row, most = known.shown, lookup(request.model), strategy.request
        window = row.window_tokens if row is not None else UNKNOWN_WINDOW
        turns = strategy.due(window, shown)
        if turns is None or (turns := conversation.borders[min(turns, shown.answer)]) <= shown.cut.dropped:
            return None
        kept = len(told) - turns
        asked = request_text(prompt_text(most.text), most, turns, kept)
        cold = cold_parts(shown.opening, shown, turns, window, asked) if most.prefix == "cold" else ()
        return SummaryWanted(turns, kept, asked, tuple(one for one in cold if isinstance(one, Text)))

    def summarize(self, request: ForeignRequest, found: PrefixChain, wanted: SummaryWanted, text: str) -> None:
        """Take the text that was wanted; empty where none could be had."""
        conversation, known = self._follow(request, found)
        told = conversation.exchanges
        if known is None:
            return
        if text:
            turn = Compaction(text, wanted.turns, len(told), Heap())
            grown = Followed(known.shown.summarize(turn))
        else:
            waits = len(told) + 2 ** min(known.failed, _MOST_DOUBLED)
            grown = replace(known, failed=known.failed + 1, waits=waits)
        self._keep(found.digests[told[-1].blocks], grown, instead=True)

    def _follow(self, request: ForeignRequest, found: PrefixChain) -> tuple[ToldConversation, Followed | None]:
        """A request's conversation, and what the strategy makes of it; None where it has nothing to decide."""
        opening = found.digests[min(1, len(found))]
        with self._lock:
            before = self._told.pop(opening, ToldConversation())
        conversation = before.grown(request.messages)
        with self._lock:
            self._told[opening] = conversation
            if len(self._told) > _MOST_TOLD:
                self._told.popitem(last=False)
        told = conversation.exchanges
        if not told or request.continues:
            return conversation, None
        first, known = self._begun(request, found, told)
        for number in range(first, len(told)):
            one = told[number]
            reply = Message("assistant", _parts(request.messages[one.said : one.told]))
            # As if each exchange held a result: the last one stays whole, whether it is one of calls or of talk.
            shown = replace(known.shown, step=number + 1, answer=number).finish_exchange(
                reply, _parts(request.messages[one.told : one.end]) or (Text(""),)
            )
            known = self._keep(found.digests[one.blocks], replace(known, shown=shown))
        return conversation, known

    def _begun(
        self, request: ForeignRequest, found: PrefixChain, told: tuple[ForeignExchange, ...]
    ) -> tuple[int, Followed]:
        """The longest beginning that is known, in exchanges, and what was made of it."""
        for number in range(len(told), 0, -1):
            known = self._known.get(found.digests[told[number - 1].blocks])
            if known is not None:
                return number, known
        opening = _parts(request.messages[: told[0].said])
        tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in request.tools)
        first = Message("user", opening)
        begun = Linear(
            self.strategy.rules, opening, len(request.system) + tools, Log(), Log([first]), size(first),
            summarizes=isinstance(self.strategy, Summarizing),
        )  # fmt: skip
        return 0, Followed(begun)

    def _keep(self, digest: bytes, made: Followed, *, instead: bool = False) -> Followed:
        """Keep what was made of a beginning; what another thread kept of it stays, unless this is to stand instead."""
        with self._lock:
            known = made if instead else self._known.get(digest, made)
            self._known[digest] = known
            self._known.move_to_end(digest)
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
            return known


def _parts(messages: Sequence[ForeignMessage]) -> tuple[Part, ...]:
    """What is decided on: without the blanks around texts, which a client may drop as it sends a reply back."""
    parts = (part for one in messages if one.role != "system" for part in one.parts)
    return tuple(Text(part.text.strip()) if isinstance(part, Text) else part for part in parts)
