"""Ids of calls, as every provider accepts them: unique within a request, at most 64 characters, never empty.

Models that restart their numbering in each turn repeat ids, and OpenAI, Anthropic and others refuse a request with a
repeated id forever. A new id depends only on the calls before it, so that the prefix of later requests stays the same.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Thinking, ToolCall, ToolResult

MAX_CHARS = 64
_STRANGE = re.compile(r"[^a-zA-Z0-9_.:-]")
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
_SHORT_CHARS = 9
"""Mistral's own servers accept only ids of exactly nine letters and digits."""


def with_unique_ids(messages: Log[Message], *, plain: bool = False, short: bool = False) -> Log[Message]:
    """Return the messages with sendable ids, the same in a call and its result; unchanged messages if all are.

    Args:
        plain: Use only letters, digits, ``_`` and ``-``, as Anthropic requires.
        short: Use ids of exactly nine letters and digits.
    """
    used_ids: set[str] = set()
    waiting: dict[str, deque[str]] = {}  # the new ids of the last reply's calls, by the old ones
    result: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            waiting = {}
            for part in message.parts:
                if isinstance(part, ToolCall):
                    waiting.setdefault(part.id, deque()).append(_free(part.id, used_ids, plain=plain, short=short))
            result.append(_with_ids(message, {old: deque(new) for old, new in waiting.items()}))
        else:
            result.append(_with_ids(message, waiting))
    return Log(result) if any(new is not old for new, old in zip(result, messages, strict=True)) else messages


def with_own_ids(reply: ModelReplied, messages: Iterable[Message], facts: int) -> tuple[ModelReplied, tuple[str, ...]]:
    """Return the reply with ids that no call before it has, and a sentence for each new id.

    ``messages`` are the messages that the reply answers. ``facts`` is the number of model facts so far, which makes a
    new id unique in the run.
    """
    used_ids = {part.id for message in messages for part in message.parts if isinstance(part, ToolCall)}
    renamed: dict[str, deque[str]] = {}
    notes: list[str] = []
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    for number, call in enumerate(calls):
        new = call.id
        if call.id in used_ids or not _is_sendable(call.id):
            new = _numbered(f"call_{facts}_{number}", used_ids)
            notes.append(f"renamed the call id {call.id[:80]!r} to {new}, because it {_fault(call.id, used_ids)}")
        used_ids.add(new)
        renamed.setdefault(call.id, deque()).append(new)
    if not notes:
        return reply, ()
    parts = _renamed_parts(reply.parts, renamed)
    return replace(reply, parts=parts), tuple(notes)


def _fault(identity: str, used_ids: set[str]) -> str:
    if identity in used_ids:
        return "was used before"
    return f"has more than {MAX_CHARS} characters" if len(identity) > MAX_CHARS else "is not usable as an id"


def _is_sendable(identity: str) -> bool:
    return 0 < len(identity) <= MAX_CHARS and not _STRANGE.search(identity)


def _free(identity: str, used_ids: set[str], *, plain: bool, short: bool) -> str:
    candidate = (_NOT_PLAIN if plain else _STRANGE).sub("_", identity)[:MAX_CHARS] or "call"
    if len(identity) > MAX_CHARS:
        candidate = f"{candidate[: MAX_CHARS - 9]}_{_digest(identity)[:8]}"
    if short:
        candidate, number = _digest(identity)[:_SHORT_CHARS], 1
        while candidate in used_ids:
            number += 1
            candidate = _digest(f"{identity} {number}")[:_SHORT_CHARS]
    else:
        candidate = _numbered(candidate, used_ids)
    used_ids.add(candidate)
    return candidate


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()


def _numbered(base: str, used_ids: set[str]) -> str:
    free, number = base, 1
    while free in used_ids:
        number += 1
        free = f"{base[: MAX_CHARS - 1 - len(str(number))]}_{number}"
    return free


def _with_ids(message: Message, new: dict[str, deque[str]]) -> Message:
    """Return the message with its ids replaced; the same message if they stay as they are."""
    parts = _renamed_parts(message.parts, new)
    return message if parts == message.parts else replace(message, parts=parts)


def _renamed_parts(parts: Iterable[Part], new: dict[str, deque[str]]) -> tuple[Part, ...]:
    """Give each call or result with an id the next one of its new ids; the last one is used again."""
    first = {old: names[0] for old, names in new.items() if names}
    result: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall):
            result.append(part if part.id == (identity := _next(new, part.id)) else replace(part, id=identity))
        elif isinstance(part, ToolResult):
            identity = _next(new, part.call_id)
            result.append(part if part.call_id == identity else replace(part, call_id=identity))
        elif isinstance(part, Thinking):
            result.append(_renamed_thought(part, first))
        else:
            result.append(part)
    return tuple(result)


def _next(new: dict[str, deque[str]], old: str) -> str:
    names = new.get(old)
    if not names:
        return old
    return names.popleft() if len(names) > 1 else names[0]


def _renamed_thought(part: Thinking, new: dict[str, str]) -> Thinking:
    """Rename the calls that a thought has data of, and those that its pieces name."""
    calls, pieces = part.raw.get("calls"), part.raw.get("gemini")
    raw = dict(part.raw)
    if isinstance(calls, dict):
        raw["calls"] = {new.get(old, old): data for old, data in calls.items()}
    if isinstance(pieces, list):
        raw["gemini"] = [{**piece, "id": new.get(piece["id"], piece["id"])} if "id" in piece else piece
                         for piece in pieces]  # fmt: skip
    return part if raw == part.raw else Thinking(raw)
