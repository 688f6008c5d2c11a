"""A foreign recording as every reader gives it back: turns in their order, whoever wrote them down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from stackmem.core.facts import ChecksReturned, Ending, ModelFailed, Stop
from stackmem.core.messages import ReplyPart, Text, Thinking, ToolCall, ToolSpec, Usage
from stackmem.core.strict_json import strict_value
from stackmem.errors import UsageError

T = TypeVar("T")

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""Tokens, as other tools write them."""


class RecordingFile(Struct, frozen=True):
    """A file that holds one recording or several."""

    content: bytes
    where: str  # what to call it in messages
    # name and text of the files beside it that hold its subagents
    subagents: Callable[[], Iterable[tuple[str, str]]] = tuple

    @property
    def text(self) -> str:
        return self.content.decode("utf-8-sig", "replace")


class RecordedResult(Struct):
    """What came back for one call."""

    call_id: str
    text: str
    failed: bool = False
    at: float | None = None  # seconds since 1970; None where the recording does not say
    exit_code: int | None = None
    child: RecordedSession | None = None  # the conversation of the agent that the call started


class RecordedReply(Struct):
    """One reply of a model, and the answers to its calls."""

    parts: tuple[ReplyPart, ...]
    at: float | None = None
    stop: Stop = "call"
    usage: Usage = Usage()
    model: str = ""
    reply_id: str = ""
    usd: float | None = None  # what the recording says it cost
    answers: list[RecordedResult] = []
    repairs: tuple[str, ...] = ()  # what was done to find a call in its text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class RecordedText(Struct):
    """What the model was told between its replies."""

    text: str
    at: float | None = None


class RecordedSummary(Struct):
    """A text that the model wrote to stand for the beginning of its conversation."""

    said: RecordedReply  # the reply that it is; it is no step
    kept: int  # so many replies before it, and what answered them, it does not stand for
    at: float | None = None


class RecordedFailure(Struct):
    """A request that the provider gave no whole reply to."""

    failed: ModelFailed
    at: float | None = None


RecordedTurn = RecordedReply | RecordedText | RecordedFailure | RecordedSummary


class RecordedSession(Struct):
    """One conversation, with those that it started inside it."""

    origin: str  # the format and, where it says so, what wrote it
    id: str
    task: str = ""
    system: str = ""
    model: str = ""
    name: str = ""
    workspace: str = ""
    tools: tuple[ToolSpec, ...] = ()
    turns: list[RecordedTurn] = []
    began: float | None = None  # when the task was given; None where the recording does not say
    usd: float | None = None  # the whole cost that the recording names, its children's included
    strategy: str = ""  # the memory strategy that the recording names; empty if it names none
    result: str | None = None
    finished: bool | None = None  # whether it came to an end of its own; None where only its last reply can tell
    ending: Ending | None = None  # how it ended, where the recording says so in words of ours
    checks: ChecksReturned | None = None  # what judged it, where the recording holds a verdict
    left_out: list[str] = []  # what the recording holds that a trace has no place for, a sentence each
    # how many parts of its messages were no text, by their kind; each has a word in brackets for it
    lost: Counter[str] = field(default_factory=Counter)

    def losses(self) -> tuple[str, ...]:
        """What was left out, of itself and of its children, with what was lost in counts."""
        lost, said = Counter(self.lost), list(self.left_out)
        for child in self.children():
            said += child.left_out
            lost += child.lost
        return (*said, *(f"{count:,} parts of kind {kind}, which are no text" for kind, count in sorted(lost.items())))

    def children(self) -> Iterator[RecordedSession]:
        """Those that its calls started, and theirs."""
        for turn in self.turns:
            for answer in turn.answers if isinstance(turn, RecordedReply) else ():
                if answer.child is not None:
                    yield answer.child
                    yield from answer.child.children()

    def replies(self) -> Iterator[RecordedReply]:
        """Its replies and those of its children, each child's where its call was answered."""
        for turn in self.turns:
            if isinstance(turn, RecordedReply):
                yield turn
                for answer in turn.answers:
                    if answer.child is not None:
                        yield from answer.child.replies()


def load(text: str, where: str) -> Any:
    """The JSON value of ``text``; half a surrogate pair, which no UTF-8 can hold, becomes ``?``."""
    try:
        return _whole(strict_value(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON ({error}); give the file as its tool wrote it") from error


def json_lines(text: str, where: str, left_out: list[str]) -> Iterator[tuple[str, Any]]:
    """The values of JSON Lines, each with its place. A line that is no JSON is counted: a writer was stopped in it."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    torn, first = [], None
    for number, line in lines:
        place = f"{where}, line {number}"
        try:
            value = load(line, place)
        except UsageError as error:
            torn.append(number)
            first = first or error
        else:
            yield place, value
    if first is not None and len(torn) == len(lines):
        raise first
    if torn and torn[-1] == lines[-1][0]:
        left_out.append("a last line that was cut short")
        torn.pop()
    if torn:
        left_out.append(f"{len(torn):,} lines that are no JSON, the first of them line {torn[0]:,}")


def _whole(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_whole(one) for one in value]
        case dict():
            return {_whole(key): _whole(one) for key, one in value.items()}
        case int() if not isinstance(value, bool) and not -(2**63) <= value < 2**64:
            return float(value)  # a trace holds no longer integers
        case _:
            return value


def shaped(value: object, kind: type[T], where: str) -> T:
    """``value`` as ``kind``."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{where} is not as its format says: {error}; give the file as its tool wrote it") from error


def seconds(stamp: str | float | None, where: str) -> float | None:
    """A time as seconds since 1970; one without a zone is taken as UTC."""
    if stamp is None or stamp == "":
        return None
    try:
        if not isinstance(stamp, str):
            return datetime.fromtimestamp(stamp, UTC).timestamp()
        moment = datetime.fromisoformat(stamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{where}: {stamp!r} is no time ({error}); give the file as its tool wrote it") from error


def words(content: object, lost: Counter[str] | None = None) -> str:
    """The text of a message or result: a string, or blocks; what is no text is named in brackets, and counted."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(filter(None, (words(one, lost) for one in content)))
        case {"text": str(text)}:
            return text
        case {"type": str(kind)}:
            if lost is not None:
                lost[kind] += 1
            return f"[{kind}]"
        case _:
            return json.dumps(content, ensure_ascii=False)


def plain(text: str) -> tuple[ReplyPart, ...]:
    return (Text(text),) if text.strip() else ()


def thinking(text: str | None) -> tuple[ReplyPart, ...]:
    return (Thinking({"type": "thinking", "thinking": text}),) if text else ()
