"""Derives a run's trace events from the gateway's log; a fold, so the same log always gives the same trace.

- A reply with calls is emitted once their results are known. A call that a sub-agent worked for becomes a push,
  with the sub-agent's conversation as its frame.
- A parallel strand becomes a frame when it ends: an agent that still works after the result of its call, or again
  after its end; a side request; another conversation of the session. The gateway adds the push.
- A failure is emitted before the reply that followed it.
- Anything a trace cannot represent becomes a notice, such as a history that the client changed.
- The first conversation that is not a side request is the run's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from stackmem.core.facts import FramePopped, ModelFailed, ModelReplied, RunEnded
from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.core.pricing import Answerer
from stackmem.doors.gateway.wires.wire import has_identity
from stackmem.formats.recordings.facts import Teller, TimedFact, frame_name, result, started
from stackmem.formats.recordings.session import (
    RecordedFailure,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    RecordedTurn,
)
from stackmem.models.catalog import lookup
from stackmem.providers.calls.text_calls import recorded_call
from stackmem.review.measure.foreign_tools import does

from .exchanges import AnswerPassed, Passed, RequestPassed, RunClosed, ToldMessage

_NAME_CHARS = 40
_UNKNOWN_WINDOW = 200_000
EDITED = "[the client went on from an earlier place, with another history]"
COMPACTED = "[the client began a new conversation with a summary of this one]"
ELSEWHERE = "[the client went on twice from the same place]"


class Strand(Struct):
    """One conversation being converted, including later edits and compactions."""

    session: RecordedSession
    parent: Strand | None = None
    call_id: str = ""  # the parent's call that it works for, if known
    pending_reply: RecordedReply | None = None  # the last reply, waiting for the results of its calls
    children: list[Strand] = field(default_factory=list)  # conversations that work for those calls
    failures: list[RecordedFailure] = field(default_factory=list)
    # summaries of its beginning, held until the results before them are emitted
    written: list[RecordedSummary] = field(default_factory=list)
    after: list[RecordedTurn] = field(default_factory=list)  # what follows the waiting reply
    under_way: int = 0  # requests without an answer
    words: str = ""  # text of the last reply; ``done`` says whether it made no calls, or only one that ends the work
    done: bool = False
    parallel: bool = False  # whether it becomes a frame when it ends, and not with a result of its parent

    @property
    def turns(self) -> list[RecordedTurn]:
        return self.session.turns

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left to do. A failed request is expected to be repeated."""
        return self.rests and not self.failures

    @property
    def rests(self) -> bool:
        return self.pending_reply is None and not self.under_way

    def release(self, results: Iterable[tuple[ToolResult, float]], *, at_end: bool = False) -> None:
        """Emit the waiting reply with these results and the child conversations of its calls.

        A child that still works is not part of the result, except at the end of the run.
        """
        reply, self.pending_reply = self.pending_reply, None
        if reply is None:
            return
        by_call = {
            outcome.call_id: RecordedResult(outcome.call_id, outcome.text, outcome.failed, at)
            for outcome, at in results
        }
        for child in self.children:
            free = [call.id for call in reply.calls if call.id not in by_call or by_call[call.id].child is None]
            name = child.call_id or next(iter(free), "")
            gave_up = child.rests and name in by_call and by_call[name].failed
            if name not in free or not (child.is_over or gave_up or at_end):
                child.parallel = True
                continue
            answer, session = by_call.get(name), child.finish(at_end=at_end)
            by_call[name] = answer = answer or RecordedResult(name, result(session))
            answer.child = session
        self.children = []
        reply.answers = [by_call[call.id] for call in reply.calls if call.id in by_call]
        self.turns.append(reply)
        self.turns.extend(self.after)
        self.after = []

    def finish(self, *, at_end: bool = False) -> RecordedSession:
        """Return the turns so far as one session; later turns become another, parallel one."""
        self.release((), at_end=at_end)
        self.turns.extend((*self.written, *self.failures))
        self.written, self.failures = [], []
        session, self.parallel = self.session, True
        self.session = msgspec.structs.replace(session, turns=[])
        return session


class Telling:
    """Converts one run's log to trace events, line by line."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._root: Strand | None = None
        self._teller: Teller | None = None
        self._began: float | None = None
        self._strands: dict[int, Strand] = {}
        self._requests: dict[int, RequestPassed] = {}
        self._frames = 0

    def take(self, passed: Passed) -> Iterator[TimedFact]:
        """Return the trace events that this log event makes possible."""
        match passed:
            case RequestPassed():
                yield from self._ask(passed)
            case AnswerPassed():
                yield from self._answer(passed)
            case RunClosed():
                yield from self._close(passed.at)

    def _ask(self, request: RequestPassed) -> Iterator[TimedFact]:
        self._requests[request.number] = request
        yield from self._open(request)
        strand = self._strands[request.conversation]
        strand.under_way += 1
        if request.summary is UNSET:
            return
        at = request.at + request.summary.seconds
        if isinstance(request.summary.reply, ModelFailed):
            strand.failures.append(RecordedFailure(request.summary.reply, at))
        else:
            reply = request.summary.reply
            recorded = RecordedReply(reply.parts, at, reply.stop, reply.usage, request.model, reply.reply_id)
            strand.written.append(RecordedSummary(recorded, request.summary.kept_exchanges, at))

    def _open(self, request: RequestPassed) -> Iterator[TimedFact]:
        self._began = request.at if self._began is None else self._began
        if request.conversation in self._strands:
            return
        parent = self._strands.get(request.parent) if request.parent is not None else None
        strand = self._strands[request.conversation] = Strand(self._session(request), parent, request.call_id)
        if request.kind == "side" or (self._root is not None and (parent is None or parent.pending_reply is None)):
            strand.parallel = True
        elif parent is not None:
            parent.children.append(strand)
        if self._root is None and request.kind != "side":
            yield from self._start(strand, request.strategy)

    def _start(self, root: Strand, strategy: str) -> Iterator[TimedFact]:
        """Begin the trace with its own conversation."""
        root.parallel = False
        self._root, self._teller = root, Teller(self._began or 0.0, self._by)
        row = lookup(root.session.model)
        price, window = (row.price, row.window_tokens) if row else (None, _UNKNOWN_WINDOW)
        yield self._teller.fact(None, started(root.session, price, window, strategy or "full"))
        for strand in self._strands.values():
            self._end_parallel(strand)

    def _end_parallel(self, strand: Strand, *, at_end: bool = False) -> None:
        """Emit a parallel strand as a frame, if it is over."""
        root = self._root
        if root is None or strand is root or not strand.parallel or not (strand.is_over or at_end):
            return
        session = strand.finish(at_end=at_end)
        if not session.turns:
            return
        parent = strand.parent
        home = parent if parent is not None and not parent.parallel else root
        self._frames += 1
        call_id, at = f"strand_{self._frames}", session.turns[-1].at
        of = f"Works for the call {strand.call_id}." if strand.call_id else "Runs in parallel."
        arguments = {
            "name": frame_name(session.name) or "strand",
            "objective": session.task,
            "context": of,
            "return_spec": "",
        }
        answer = RecordedResult(call_id, result(session), at=at, child=session)
        turns = home.turns if home.pending_reply is None else home.after
        turns.append(RecordedReply((ToolCall(call_id, "push_frame", arguments),), at, answers=[answer]))

    def _session(self, request: RequestPassed) -> RecordedSession:
        task, name = opening_of(request)
        return RecordedSession(
            self._origin,
            name,
            task,
            request.system,
            request.model,
            name,
            tools=request.tools,
            turns=[],
            began=request.at,
        )

    def _by(self, reply: RecordedReply) -> Answerer | UnsetType:
        if self._root is None or reply.model in ("", self._root.session.model):
            return UNSET
        row = lookup(reply.model)
        return Answerer(reply.model, *((row.price, row.window_tokens) if row else ()))

    def _answer(self, answer: AnswerPassed) -> Iterator[TimedFact]:
        request = self._requests.pop(answer.number, None)
        strand = self._strands.get(request.conversation) if request is not None else None
        if request is None or strand is None:
            return
        strand.under_way -= 1
        if isinstance(answer.reply, ModelFailed):
            strand.failures.append(RecordedFailure(answer.reply, answer.at))
            return
        reply = answer.reply
        self._say(strand, request, elsewhere=answer.elsewhere)
        for failure in strand.failures:
            strand.turns.append(failure)
        strand.failures.clear()
        recorded = _recorded(reply, answer, request, strand)
        strand.words = "\n".join(part.text for part in reply.parts if isinstance(part, Text)).strip()
        strand.done = not recorded.calls or any(does(call) == "ends" for call in recorded.calls)
        if recorded.calls:
            strand.pending_reply = recorded
        else:
            strand.turns.append(recorded)
            self._end_parallel(strand)
        yield from self._ready()

    def _say(self, strand: Strand, request: RequestPassed, *, elsewhere: bool) -> None:
        """Add a request's content: first the results of waiting calls, then texts."""
        parts = [(message.role, part) for message in request.new_messages for part in message.parts]
        results = [part for _, part in parts if isinstance(part, ToolResult)]
        call_ids = {call.id for call in strand.pending_reply.calls} if strand.pending_reply is not None else set()
        if strand.pending_reply is not None and strand.pending_reply.repairs:
            # The client assigns its own id to a call that it parsed from text, so the first result belongs to that
            # call.
            own = {part.call_id for part in results[:1]}
            results = [
                msgspec.structs.replace(part, call_id=call_id) for call_id, part in zip(call_ids, results, strict=False)
            ]
            strand.release((part, request.at) for part in results)
            call_ids |= own
        else:
            strand.release((part, request.at) for part in results if part.call_id in call_ids)
        if request.kind in ("edit", "compacted") or elsewhere:
            word = {"edit": EDITED, "compacted": COMPACTED}.get(request.kind, ELSEWHERE)
            strand.turns.append(RecordedText(word, request.at))
        opening = strand.session.task if not strand.turns else None
        for role, part in parts:
            text = _text(role, part, call_ids)
            if opening is not None and role == "user" and isinstance(part, Text) and part.text in opening:
                opening = opening.replace(part.text, "", 1)
            elif text:
                strand.turns.append(RecordedText(text, request.at))
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
        if self._root is None and self._strands:
            yield from self._start(next(iter(self._strands.values())), "")
        root, teller = self._root, self._teller
        if root is None or teller is None:
            return
        root.release((), at_end=True)
        root.turns.extend((*root.written, *root.failures))
        for strand in self._strands.values():
            strand.parallel = strand is not root
            self._end_parallel(strand, at_end=True)
        yield from self._ready()
        if root.done:
            yield teller.fact(at, FramePopped("frame-0", root.words))
        yield teller.fact(at, RunEnded("popped" if root.done else "interrupted", root.words))


def _recorded(reply: ModelReplied, answer: AnswerPassed, request: RequestPassed, strand: Strand) -> RecordedReply:
    """Convert a reply. If the model writes calls as text, the first one becomes a call."""
    recorded = RecordedReply(reply.parts, answer.at, reply.stop, reply.usage, request.model, reply.reply_id, answers=[])
    if not request.wire.startswith("openai"):
        return recorded
    offered = [tool.name for tool in strand.session.tools]
    converted = recorded_call(reply.parts, offered, f"text_{answer.number}")
    if converted is not None:
        recorded.parts, recorded.repairs = converted[0], (converted[1],)
        recorded.stop = "call" if reply.stop == "end" else reply.stop
    return recorded


def opening_of(request: RequestPassed) -> tuple[str, str]:
    """Return a conversation's task and a short name; without user text the name is the request's kind.

    Some clients begin with a message about themselves; it is skipped.
    """
    texts = [_words(message) for message in request.new_messages if message.role == "user"]
    first = next((words for words in texts if any(map(has_identity, words))), texts[0] if texts else [])
    name = " ".join(first[-1].text.split(None, _NAME_CHARS)[:_NAME_CHARS])[:_NAME_CHARS] if first else ""
    return "\n\n".join(part.text for part in first), name or request.kind


def _words(message: ToldMessage) -> list[Text]:
    return [part for part in message.parts if isinstance(part, Text)]


def _text(role: str, part: object, call_ids: set[str]) -> str:
    """Return the notice for a part; empty if it is emitted elsewhere or belongs to the system prompt."""
    before = "[assistant, before the recording] " if role == "assistant" else ""
    match part:
        case Text(text=text) if role != "system":
            return before + text
        case ToolCall():
            return f"{before}[call {part.name} {part.id}]"
        case ToolResult() if part.call_id not in call_ids:
            return f"[result of {part.call_id}]\n{part.text}"
        case _:
            return ""
