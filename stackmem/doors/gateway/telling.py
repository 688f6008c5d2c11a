"""Derives a run's trace events from the gateway's log; a fold, so the same log always gives the same trace.

- A reply with calls is emitted once their results are known. A call that a sub-agent worked for becomes a push,
  with the sub-agent's conversation as its frame.
- A failure is emitted before the reply that followed it.
- Anything a trace cannot represent becomes a notice: a history that the client changed, or steps of a sub-agent
  after its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from stackmem.core.facts import FramePopped, ModelFailed, ModelReplied, RunEnded
from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.core.pricing import Answerer
from stackmem.doors.gateway.wires.wire import has_identity
from stackmem.formats.recordings.facts import Teller, TimedFact, result, started
from stackmem.formats.recordings.session import (
    RecordedFailure,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    RecordedTurn,
)
from stackmem.models.calls.text_calls import recorded_call
from stackmem.models.catalog import lookup

from .exchanges import AnswerPassed, Passed, RequestPassed, RunClosed, ToldMessage

_NAME_CHARS = 40
_UNKNOWN_WINDOW = 200_000
EDITED = "[the client went on from an earlier place, with another history]"
COMPACTED = "[the client began a new conversation with a summary of this one]"
ELSEWHERE = "[the client went on twice from the same place]"
LATE = "[a sub-agent went on after its result; its later steps stand in exchanges.jsonl]"


class Strand(Struct):
    """One conversation being converted, including later edits and compactions."""

    session: RecordedSession
    held: RecordedReply | None = None  # the last reply, waiting for the results of its calls
    # conversations that work for those calls, each with its call id if known
    children: list[tuple[Strand, str]] = field(default_factory=list)
    failures: list[RecordedFailure] = field(default_factory=list)
    # summaries of its beginning, held until the results before them are emitted
    written: list[RecordedSummary] = field(default_factory=list)
    attached: bool = False  # whether this child's result was emitted
    late: bool = False

    @property
    def turns(self) -> list[RecordedTurn]:
        return self.session.turns

    def release(self, results: Iterable[tuple[ToolResult, float]]) -> None:
        """Emit the waiting reply with these results and the child conversations of its calls."""
        held, self.held = self.held, None
        if held is None:
            return
        given = {one.call_id: RecordedResult(one.call_id, one.text, one.failed, at) for one, at in results}
        for child, wanted in self.children:
            child.release(())
            child.attached = True
            free = (call.id for call in held.calls if call.id not in given or given[call.id].child is None)
            name = wanted if any(call.id == wanted for call in held.calls) else next(free, "")
            answer = given.get(name) or RecordedResult(name, result(child.session))
            if name and answer.child is None:
                answer.child = child.session
                given[name] = answer
            child.session = RecordedSession("", "", turns=[])
        self.children = []
        held.answers = [given[call.id] for call in held.calls if call.id in given]
        self.turns.append(held)


class Telling:
    """Converts one run's log to trace events, line by line."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._root: Strand | None = None
        self._teller: Teller | None = None
        self._strands: dict[int, Strand] = {}
        self._asked: dict[int, RequestPassed] = {}
        self._words, self._done = "", False

    def take(self, passed: Passed) -> Iterator[TimedFact]:
        """Return the trace events that this log event makes possible."""
        match passed:
            case RequestPassed():
                yield from self._ask(passed)
            case AnswerPassed():
                yield from self._answer(passed)
            case RunClosed():
                yield from self._close(passed.at)

    def _ask(self, asked: RequestPassed) -> Iterator[TimedFact]:
        self._asked[asked.number] = asked
        yield from self._open(asked)
        if asked.summary is UNSET:
            return
        strand, at = self._strands[asked.conversation], asked.at + asked.summary.seconds
        if isinstance(asked.summary.reply, ModelFailed):
            strand.failures.append(RecordedFailure(asked.summary.reply, at))
        else:
            reply = asked.summary.reply
            recorded = RecordedReply(reply.parts, at, reply.stop, reply.usage, asked.model, reply.reply_id)
            strand.written.append(RecordedSummary(recorded, asked.summary.kept, at))

    def _open(self, asked: RequestPassed) -> Iterator[TimedFact]:
        if asked.conversation in self._strands:
            return
        strand = Strand(self._session(asked))
        self._strands[asked.conversation] = strand
        parent = self._strands.get(asked.parent) if asked.parent is not None else None
        if parent is not None:
            parent.children.append((strand, asked.call_id))
        if self._teller is None:
            self._root, self._teller = strand, Teller(asked.at, self._by)
            row = lookup(asked.model)
            price, window = (row.price, row.window_tokens) if row else (None, _UNKNOWN_WINDOW)
            start = started(strand.session, price, window, asked.strategy or "full")
            yield self._teller.fact(None, start)

    def _session(self, asked: RequestPassed) -> RecordedSession:
        task, name = opening_of(asked)
        return RecordedSession(
            self._origin, name, task, asked.system, asked.model, name, tools=asked.tools, turns=[], began=asked.at
        )

    def _by(self, said: RecordedReply) -> Answerer | UnsetType:
        if self._root is None or said.model in ("", self._root.session.model):
            return UNSET
        row = lookup(said.model)
        return Answerer(said.model, *((row.price, row.window_tokens) if row else ()))

    def _answer(self, answered: AnswerPassed) -> Iterator[TimedFact]:
        asked = self._asked.pop(answered.number, None)
        strand = self._strands.get(asked.conversation) if asked is not None else None
        if asked is None or strand is None:
            return
        if strand.attached:
            if not strand.late and self._root is not None:
                strand.late = True
                self._root.turns.append(RecordedText(LATE, answered.at))
            return
        if isinstance(answered.reply, ModelFailed):
            strand.failures.append(RecordedFailure(answered.reply, answered.at))
            return
        reply = answered.reply
        self._say(strand, asked, elsewhere=answered.elsewhere)
        for failure in strand.failures:
            strand.turns.append(failure)
        strand.failures.clear()
        recorded = _recorded(reply, answered, asked, strand)
        if strand is self._root:
            self._words = "\n".join(part.text for part in reply.parts if isinstance(part, Text)).strip()
            self._done = not recorded.calls
        if recorded.calls:
            strand.held = recorded
        else:
            strand.turns.append(recorded)
        yield from self._ready()

    def _say(self, strand: Strand, asked: RequestPassed, *, elsewhere: bool) -> None:
        """Add a request's content: first the results of waiting calls, then texts."""
        parts = [(one.role, part) for one in asked.told for part in one.parts]
        results = [part for _, part in parts if isinstance(part, ToolResult)]
        wanted = {call.id for call in strand.held.calls} if strand.held is not None else set()
        if strand.held is not None and strand.held.repairs:
            # The client assigns its own id to a call that it parsed from text, so the first result belongs to that
            # call.
            own = {part.call_id for part in results[:1]}
            results = [msgspec.structs.replace(part, call_id=one) for one, part in zip(wanted, results, strict=False)]
            strand.release((part, asked.at) for part in results)
            wanted |= own
        else:
            strand.release((part, asked.at) for part in results if part.call_id in wanted)
        if asked.kind in ("edit", "compacted") or elsewhere:
            word = {"edit": EDITED, "compacted": COMPACTED}.get(asked.kind, ELSEWHERE)
            strand.turns.append(RecordedText(word, asked.at))
        opening = strand.session.task if not strand.turns else None
        for role, part in parts:
            text = _text(role, part, wanted)
            if opening is not None and role == "user" and isinstance(part, Text) and part.text in opening:
                opening = opening.replace(part.text, "", 1)
            elif text:
                strand.turns.append(RecordedText(text, asked.at))
        strand.turns.extend(strand.written)
        strand.written.clear()

    def _ready(self) -> Iterator[TimedFact]:
        """Emit the root's finished turns."""
        if self._root is None or self._teller is None:
            return
        turns = self._root.turns
        while turns:
            yield from self._teller.turn(turns.pop(0))

    def _close(self, at: float) -> Iterator[TimedFact]:
        root, teller = self._root, self._teller
        if root is None or teller is None:
            return
        root.release(())
        root.turns.extend((*root.written, *root.failures))
        yield from self._ready()
        if self._done:
            yield teller.fact(at, FramePopped("frame-0", self._words))
        yield teller.fact(at, RunEnded("popped" if self._done else "interrupted", self._words))


def _recorded(reply: ModelReplied, answered: AnswerPassed, asked: RequestPassed, strand: Strand) -> RecordedReply:
    """Convert a reply. If the model writes calls as text, the first one becomes a call."""
    recorded = RecordedReply(reply.parts, answered.at, reply.stop, reply.usage, asked.model, reply.reply_id, answers=[])
    if not asked.wire.startswith("openai"):
        return recorded
    offered = [tool.name for tool in strand.session.tools]
    found = recorded_call(reply.parts, offered, f"text_{answered.number}")
    if found is not None:
        recorded.parts, recorded.repairs = found[0], (found[1],)
        recorded.stop = "call" if reply.stop == "end" else reply.stop
    return recorded


def opening_of(asked: RequestPassed) -> tuple[str, str]:
    """Return a conversation's task and a short name; the request's kind is the name if there is no user text.

    Some clients begin with a message about themselves; it is skipped.
    """
    texts = [_words(one) for one in asked.told if one.role == "user"]
    first = next((words for words in texts if any(map(has_identity, words))), texts[0] if texts else [])
    name = " ".join(first[-1].text.split(None, _NAME_CHARS)[:_NAME_CHARS])[:_NAME_CHARS] if first else ""
    return "\n\n".join(one.text for one in first), name or asked.kind


def _words(told: ToldMessage) -> list[Text]:
    return [part for part in told.parts if isinstance(part, Text)]


def _text(role: str, part: object, wanted: set[str]) -> str:
    """Return the notice for a part; empty if it is emitted elsewhere or belongs to the system prompt."""
    before = "[assistant, before the recording] " if role == "assistant" else ""
    match part:
        case Text(text=text) if role != "system":
            return before + text
        case ToolCall():
            return f"{before}[call {part.name} {part.id}]"
        case ToolResult() if part.call_id not in wanted:
            return f"[result of {part.call_id}]\n{part.text}"
        case _:
            return ""
