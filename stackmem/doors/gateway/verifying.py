"""Verifies a gateway run: derives the trace from the log again, and repeats every cut decision.

Decisions that cannot be repeated are counted and reported. A conversation is not followed further once a secret in its
texts was replaced, or once the client went back to a history that the log does not contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from stackmem.core.errors import RulesDiffer, TraceError
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import ToolCall, ToolSpec
from stackmem.doors.gateway.wires.wire import ForeignMessage, ForeignRequest, message
from stackmem.doors.mcp.frame_marks import FrameMark
from stackmem.foreign.files import read_regular
from stackmem.run.run_folder import EXCHANGES, TRACE

from .conversations import reply_message
from .cutting import Cutter
from .exchanges import AnswerPassed, RequestPassed, read_exchanges
from .framing import FrameCutter, cutter_of
from .identity import Chains, PrefixChain, beginning, beginning_digest
from .recording import told_lines

_SECRET = b"[secret "
_MAX_HISTORIES = 64


class GatewayVerified(Struct, frozen=True):
    """The result of a verification."""

    run: str
    facts: int  # trace records; all follow from the log
    cuts: int  # requests whose cut follows from their conversation; always 0 without a strategy
    not_followed: int  # requests whose cut could not be verified


class FollowedConversation(Struct):
    """A conversation rebuilt from the log."""

    system: str
    tools: tuple[ToolSpec, ...]
    # its newest history; ``histories`` are all of them, which an edit may go back to
    messages: tuple[ForeignMessage, ...] = ()
    requests: dict[int, tuple[ForeignMessage, ...]] = field(default_factory=dict)
    histories: list[tuple[ForeignMessage, ...]] = field(default_factory=list)
    # calls as the client sent them back, with other arguments than the reply had, by their ids
    changed: dict[str, ToolCall] = field(default_factory=dict)
    lost: bool = False  # whether the log does not contain all of it

    def before(self, passed: RequestPassed) -> tuple[ForeignMessage, ...]:
        """Return the history that a request continues, with calls as the client sends them back.

        The newest history stays, because the request may fail. If the log does not contain the history, the
        conversation is lost.
        """
        changed = {} if passed.changed_calls is UNSET else {call.id: call for call in passed.changed_calls}
        self.changed.update(changed)
        # Kept even if the request fails, because each call is compared, and recorded, only once.
        self.messages = _with_calls(self.messages, changed)
        if passed.kind == "compacted":
            self.system, self.tools = passed.system, passed.tools
            return ()
        return self._earlier(passed.earlier_blocks, passed.beginning) if passed.kind == "edit" else self.messages

    def _earlier(self, blocks: int, digest: str) -> tuple[ForeignMessage, ...]:
        for history in reversed(self.histories):
            if beginning_digest(history, blocks) == digest:
                return _with_calls(beginning(history, blocks), self.changed)
        self.lost = True
        return self.messages


def verify_gateway_run(folder: Path) -> GatewayVerified:
    """Derive the trace again, and repeat every cut decision.

    Raise TraceError if the files cannot be read, or a line is not an exchange. Raise RulesDiffer if the trace does not
    follow from the lines, or a cut does not follow from its conversation.
    """
    try:
        trace = read_regular(folder / TRACE)
    except OSError as error:
        raise TraceError(f"{folder / TRACE} cannot be read ({error.strerror})") from error
    derived = told_lines(read_exchanges(folder / EXCHANGES)).splitlines(keepends=True)
    recorded = trace.splitlines(keepends=True)
    for number, (line, follows) in enumerate(zip(recorded, derived, strict=False), 1):
        if line != follows:
            raise RulesDiffer(f"record {number:,} of {folder.name} does not follow from its {EXCHANGES}")
    if len(recorded) > len(derived):
        raise RulesDiffer(f"record {len(derived) + 1:,} of {folder.name} does not follow from its {EXCHANGES}")
    cuts, not_followed = _cuts(folder)
    return GatewayVerified(folder.name, len(recorded), cuts, not_followed)


class RecordedMarks(Struct):
    """The frame marks that the gateway accepted, as its log says; it has no key, so that others can verify a run."""

    accepted: set[str] = field(default_factory=set)
    accepts_all: bool = False  # in logs from before marks had a seal

    def __call__(self, mark: FrameMark) -> bool:
        return self.accepts_all or mark.text in self.accepted

    def read(self, passed: RequestPassed) -> None:
        if passed.marks is UNSET:
            self.accepts_all = True
        else:
            self.accepted.update(passed.marks)


def _cuts(folder: Path) -> tuple[int, int]:
    conversations: dict[int, FollowedConversation] = {}
    home: dict[int, FollowedConversation] = {}
    cutters: dict[str, Cutter | FrameCutter | None] = {}
    chains, marks, followed, lost = Chains(), RecordedMarks(), 0, 0
    for passed in read_exchanges(folder / EXCHANGES):
        if isinstance(passed, AnswerPassed):
            _answer(home.pop(passed.number, None), passed)
        if not isinstance(passed, RequestPassed):
            continue
        marks.read(passed)
        conversation = conversations.setdefault(passed.conversation, FollowedConversation(passed.system, passed.tools))
        written = None if passed.summary is UNSET else passed.summary
        hidden = _SECRET in msgspec.json.encode((passed.new_messages, written, passed.changed_calls or ()))
        conversation.lost = conversation.lost or hidden
        added = tuple(message(each.role, each.parts) for each in passed.new_messages)
        conversation.requests[passed.number], home[passed.number] = (*conversation.before(passed), *added), conversation
        if passed.strategy not in cutters:
            cutters[passed.strategy] = cutter_of(passed.strategy or "full", marks)
        cutter = cutters[passed.strategy]
        if cutter is None:
            continue
        if conversation.lost:
            lost += 1
            continue
        request = ForeignRequest(
            passed.model, conversation.system, conversation.tools, conversation.requests[passed.number], (),
            continues=passed.continues, needs_thinking=passed.needs_thinking,
        )  # fmt: skip
        chain = chains.chain(b"%d" % passed.conversation, request.messages)
        if passed.summary is not UNSET:
            _summary(folder, cutter, request, chain, passed)
        cut = cutter.cut(request, chain)
        if (cut.dropped, cut.short) != (passed.dropped, passed.short):
            raise RulesDiffer(
                f"request {passed.number:,} of {folder.name} left out {passed.dropped:,} exchanges and shortened "
                f"{passed.short:,}; {passed.strategy} gives {cut.dropped:,} and {cut.short:,}"
            )
        followed += 1
    return followed, lost


def _with_calls(messages: tuple[ForeignMessage, ...], calls: Mapping[str, ToolCall]) -> tuple[ForeignMessage, ...]:
    """Return the messages with these calls, by their ids, in place of the newest ones with the same ids."""
    if not calls:
        return messages
    remaining, replaced = dict(calls), list(messages)
    for index in range(len(messages) - 1, -1, -1):
        if not remaining:
            break
        parts = messages[index].parts
        if any(isinstance(part, ToolCall) and part.id in remaining for part in parts):
            new_parts = (remaining.pop(part.id, part) if isinstance(part, ToolCall) else part for part in parts)
            replaced[index] = replace(messages[index], parts=tuple(new_parts))
    return tuple(replaced)


def _summary(
    folder: Path, cutter: Cutter | FrameCutter, request: ForeignRequest, chain: PrefixChain, passed: RequestPassed
) -> None:
    """Check that a summary was due and covers the right exchanges."""
    due = cutter.due_summary(request, chain) if isinstance(cutter, Cutter) else None
    if not isinstance(cutter, Cutter) or due is None or passed.summary is UNSET:
        raise RulesDiffer(f"request {passed.number:,} of {folder.name} has a summary, but none was due")
    if (due.turns, due.request_text) != (passed.summary.turns, passed.summary.request_text):
        raise RulesDiffer(
            f"the summary of request {passed.number:,} of {folder.name} covers {passed.summary.turns:,} exchanges; "
            f"{passed.strategy} gives {due.turns:,}, or requests it with other words"
        )
    cutter.summarize(request, chain, due, passed.summary.text)


def _answer(conversation: FollowedConversation | None, passed: AnswerPassed) -> None:
    """Add a reply to the history that it answers."""
    if conversation is None:
        return
    messages = conversation.requests.pop(passed.number)
    if isinstance(passed.reply, ModelReplied):
        conversation.messages = (*messages, reply_message(passed.reply))
        conversation.lost = conversation.lost or _SECRET in msgspec.json.encode(passed.reply.parts)
        conversation.histories = [*conversation.histories[-_MAX_HISTORIES:], conversation.messages]
