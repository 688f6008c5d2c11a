"""Read aider's chat history (``.aider.chat.history.md``): one session per chat in the file.

Aider edits files by blocks in the text of its replies, so there are no calls. A line that starts with ``>`` is from
aider itself, and one that starts with ``####`` is from the user.
"""

from __future__ import annotations

import re

from stackmem.core.errors import UsageError
from stackmem.core.messages import Usage

from .session import RecordedReply, RecordedSession, RecordedText, plain, seconds

_STARTED = re.compile(r"^# aider chat started at (.*?)[ \t]*$", re.MULTILINE)
_MODEL = re.compile(r"^> (?:Main )?[Mm]odel: ([^\s]+)", re.MULTILINE)
_VERSION = re.compile(r"^> Aider v([\w.]+)", re.MULTILINE)
_TOKENS = re.compile(
    r"^> Tokens: ([\d.,]+[kM]?) sent(?:, ([\d.,]+[kM]?) cache write)?(?:, ([\d.,]+[kM]?) cache hit)?"
    r", ([\d.,]+[kM]?) received\."
    r"(?: Cost: \$([\d.]+) message, \$([\d.]+) session\.)?"
)
_LOSSES = ("calls: aider edits files by blocks in the text of its replies", "exact tokens: aider rounds them")
_TIMES = {"k": 1_000, "M": 1_000_000}


def is_aider(text: str) -> bool:
    return _STARTED.search(text[:4_000]) is not None


def read_aider(text: str, location: str) -> list[RecordedSession]:
    """Read the chats that have a reply."""
    starts = list(_STARTED.finditer(text.replace("\r\n", "\n")))
    text = text.replace("\r\n", "\n")
    ends = [start.start() for start in starts[1:]] + [len(text)]
    chats = [
        _chat(text[start.end() : end], start[1], f"chat-{number}", location)
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    ]
    sessions = [chat for chat in chats if any(isinstance(turn, RecordedReply) for turn in chat.turns)]
    if not sessions:
        raise UsageError(f"{location} does not contain a reply in a chat with aider; give another file")
    return sessions


def _chat(text: str, began: str, name: str, location: str) -> RecordedSession:
    version, model = _VERSION.search(text), _MODEL.search(text)
    try:
        at = seconds(began, location)
    except UsageError:
        at = None
    session = RecordedSession(
        f"aider {version[1]}" if version else "aider", name, model=model[1] if model else "", name="aider",
        turns=[], left_out=[*_LOSSES], began=at,
    )  # fmt: skip
    kind, lines = "", list[str]()
    for line in [*text.split("\n"), "# end"]:
        next_kind = _kind(line, kind)
        if next_kind != kind:
            _add(session, kind, lines)
            kind, lines = next_kind, []
        lines.append(line)
        if (counted := _TOKENS.match(line)) is not None:
            _count(session, counted)
    return session


def _kind(line: str, before: str) -> str:
    """Return whose line it is. A blank line belongs to the text around it."""
    if line.startswith("#### "):
        return "user"
    if line.startswith(("> ", ">\n")) or line == ">":
        return "aider"
    if line == "# end":
        return "end"
    return before if not line.strip() and before != "user" else "model" if line.strip() else before


def _add(session: RecordedSession, kind: str, lines: list[str]) -> None:
    text = "\n".join(line.rstrip() for line in lines).strip()
    if not text:
        return
    if kind == "user":
        text = "\n".join(line.removeprefix("#### ").rstrip() for line in lines if line.strip())
        if not session.task and not session.turns:
            session.task = text
        else:
            session.turns.append(RecordedText(text))
    elif kind == "model":
        session.turns.append(RecordedReply(plain(text), stop="end", model=session.model, answers=[]))


def _count(session: RecordedSession, counted: re.Match[str]) -> None:
    """Add the tokens and the cost of the last reply."""
    last = session.turns[-1] if session.turns else None
    sent, written, read, received, cost, total = counted.groups()
    if total is not None:
        session.usd = float(total)
    if isinstance(last, RecordedReply) and last.usage == Usage():
        last.usage = Usage(
            uncached=max(0, _number(sent) - _number(written) - _number(read)), cache_read=_number(read),
            cache_write_5m=_number(written), output=_number(received),
        )  # fmt: skip
        last.usd = float(cost) if cost is not None else None


def _number(text: str | None) -> int:
    """Parse a number as aider prints it, such as ``2.3k``."""
    if not text:
        return 0
    try:
        return round(float(text.rstrip("kM").replace(",", "")) * _TIMES.get(text[-1], 1))
    except ValueError:
        return 0
