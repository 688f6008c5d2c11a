"""The common form of foreign recordings, which every reader returns: turns in order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned, Ending, ModelFailed, Stop
from stackmem.core.messages import ReplyPart, Text, Thinking, ToolCall, ToolSpec, Usage
from stackmem.core.strict_json import strict_value
from stackmem.core.text import quantity

T = TypeVar("T")

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A token count in the format of another tool."""


class RecordingFile(Struct, frozen=True):
    """A file with one or several recordings."""

    content: bytes  # of a database only its first bytes, because its reader opens the file itself
    source: str  # its name in messages
    # name and text of the files next to it that contain its subagents
    subagents: Callable[[], Iterable[tuple[str, str]]] = tuple
    path: Path | None = None
    session: str = ""  # id of the only session to read; empty for all

    @property
    def text(self) -> str:
        return self.content.decode("utf-8-sig", "replace")


class RecordedResult(Struct):
    """The result of one call."""

    call_id: str
    text: str
    failed: bool = False
    at: float | None = None  # seconds since 1970; None if not recorded
    exit_code: int | None = None
    child: RecordedSession | None = None  # the conversation of the agent that the call started


class RecordedReply(Struct):
    """One reply of a model, with the answers to its calls."""

    parts: tuple[ReplyPart, ...]
    at: float | None = None
    stop: Stop = "call"
    usage: Usage = Usage()
    model: str = ""
    reply_id: str = ""
    usd: float | None = None  # the recorded cost
    answers: list[RecordedResult] = []
    repairs: tuple[str, ...] = ()  # repairs that were needed to find a call in its text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class RecordedText(Struct):
    """Text that the model received between its replies."""

    text: str
    at: float | None = None


class RecordedSummary(Struct):
    """A text by the model that replaced the beginning of its conversation."""

    reply: RecordedReply  # the reply with the summary, which is not a step
    kept_replies: int  # the number of preceding replies that it does not replace
    at: float | None = None


class RecordedFailure(Struct):
    """A request without a complete reply from the provider."""

    failed: ModelFailed
    at: float | None = None


RecordedTurn = RecordedReply | RecordedText | RecordedFailure | RecordedSummary


class RecordedSession(Struct):
    """One conversation, including those that it started."""

    origin: str  # the format and, if recorded, the program that wrote it
    id: str
    task: str = ""
    system: str = ""
    model: str = ""
    name: str = ""
    workspace: str = ""
    tools: tuple[ToolSpec, ...] = ()
    turns: list[RecordedTurn] = []
    began: float | None = None  # time of the task; None if not recorded
    usd: float | None = None  # the recorded total cost, including children
    strategy: str = ""  # the memory strategy that the recording names; empty if it names none
    result: str | None = None
    finished: bool | None = None  # whether it finished normally; None if only its last reply can tell
    ending: Ending | None = None  # how it ended, if the recording uses stackmem's names for it
    checks: ChecksReturned | None = None  # the recorded verdict, if any
    left_out: list[str] = []  # content of the recording that does not fit into a trace, one sentence each
    # The number of message parts that are not text, by kind. Each is replaced by a word in brackets.
    lost: Counter[str] = field(default_factory=Counter)

    def losses(self) -> tuple[str, ...]:
        """Return what was left out, including the children, followed by the counts of lost parts."""
        lost, sentences = Counter(self.lost), list(self.left_out)
        for child in self.children():
            sentences += child.left_out
            lost += child.lost
        return (
            *sentences,
            *(f"{count:,} parts of kind {kind}, which are not text" for kind, count in sorted(lost.items())),
        )

    def children(self) -> Iterator[RecordedSession]:
        """Yield all sessions started by calls, recursively."""
        for turn in self.turns:
            for answer in turn.answers if isinstance(turn, RecordedReply) else ():
                if answer.child is not None:
                    yield answer.child
                    yield from answer.child.children()

    def replies(self) -> Iterator[RecordedReply]:
        """Yield all replies, with those of a child at the answer to its call."""
        for turn in self.turns:
            if isinstance(turn, RecordedReply):
                yield turn
                for answer in turn.answers:
                    if answer.child is not None:
                        yield from answer.child.replies()


def load(text: str, location: str) -> Any:
    """Parse JSON. Unpaired surrogates, which UTF-8 cannot encode, become ``?``.

    Raise UsageError if the text is not JSON.
    """
    try:
        return _storable(strict_value(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{location} is not valid JSON ({error}); give the original file") from error


def json_lines(text: str, source: str, left_out: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the values of JSON Lines with their places. Invalid lines are counted, because writers get interrupted.

    Raise UsageError if no line is JSON.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    torn, first = [], None
    for number, line in lines:
        location = f"{source}, line {number}"
        try:
            value = load(line, location)
        except UsageError as error:
            torn.append(number)
            first = first or error
        else:
            yield location, value
    if first is not None and len(torn) == len(lines):
        raise first
    if torn and torn[-1] == lines[-1][0]:
        left_out.append("an incomplete last line")
        torn.pop()
    if torn:
        left_out.append(f"{quantity(len(torn), 'line')} without valid JSON, the first is line {torn[0]:,}")


def _storable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_storable(each) for each in value]
        case dict():
            return {_storable(key): _storable(each) for key, each in value.items()}
        case int() if not isinstance(value, bool) and not -(2**63) <= value < 2**64:
            return float(value)  # a trace cannot store larger integers
        case _:
            return value


def shaped(value: object, kind: type[T], location: str) -> T:
    """Convert ``value`` to ``kind``, or raise ``UsageError``."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{location} does not match its format: {error}; give the original file") from error


def seconds(stamp: str | float | None, location: str) -> float | None:
    """Return a time as seconds since 1970. A time without a zone is in UTC.

    Raise UsageError if the value is not a time.
    """
    if stamp is None or stamp == "":
        return None
    try:
        if not isinstance(stamp, str):
            return datetime.fromtimestamp(stamp, UTC).timestamp()
        moment = datetime.fromisoformat(stamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{location}: {stamp!r} is not a time ({error}); give the original file") from error


def words(content: object, lost: Counter[str] | None = None) -> str:
    """Return the text of a message or result. Parts that are not text appear in brackets and are counted."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(filter(None, (words(part, lost) for part in content)))
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
