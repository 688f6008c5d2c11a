"""What a wire format tells of a request and its answer, in the values that every format shares.

Rule 1: reading never changes what is forwarded. A body that cannot be read is forwarded all the same.
Rule 2: what a client may spell anew from turn to turn (cache marks, thinking, ids of items, blanks at the end of a
    text) is in the parts and not in the identity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Raw, Struct

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Part, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage
from stackmem.core.text import whole, whole_value

Json = dict[str, Any]
Role = Literal["user", "assistant", "system"]

_LEFT_OUT = ("<system-reminder>", "<environment_context>")
"""Texts that begin so are the client's own, and may be another at the next turn."""
_DATA_CHARS = 200
LEAST_REPLY_TOKENS = 8_192
"""That a request of the gateway's own may be answered with, thinking included."""


class ForeignMessage(Struct, frozen=True):
    """One message as a client sent it."""

    role: Role  # ``system`` also for what a client calls ``developer``
    parts: tuple[Part, ...]
    identity: tuple[bytes, ...]  # a digest for each part by which conversations are told apart


class ForeignRequest(Struct, frozen=True):
    """One request for a reply."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[ForeignMessage, ...]
    raw: tuple[bytes, ...]  # the bytes of each message, in order, as they stand in the body
    wants_json: bool = False  # the reply is to be JSON by a schema
    continues: str = ""  # what the request goes on from that only the provider has; empty where the body holds all
    # where they begin and end there, without the brackets; None where that is not known
    span: tuple[int, int] | None = None

    @property
    def chars(self) -> int:
        """Characters of everything that the model reads."""
        tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in self.tools)
        return len(self.system) + tools + sum(_chars(part) for one in self.messages for part in one.parts)


Shorten = Callable[[ToolResult], ToolResult]


class WireFormat(Struct, frozen=True):
    """One provider's format."""

    name: str  # as records spell it
    provider: Literal["anthropic", "openai"]  # whose upstream takes it
    paths: tuple[str, ...]  # ends of the paths that ask for a reply, without the version before them
    field: str  # where the messages stand in a body
    read: Callable[[bytes], ForeignRequest]  # a whole body; raises ``ValueError`` where it is none of this format
    reply: Callable[[Iterable[str]], ModelReplied | ModelFailed]  # the events of an answer, put together
    ends: tuple[bytes, ...]  # what stands in the last event of a stream
    begun: Callable[[Iterable[str]], Usage]  # what an answer that did not end used at least, by the events that came
    error: Callable[[str, str], Json]  # the body of a refusal, in the form that clients of this format read
    # a message with its results as a strategy shows them; itself where none changes
    shortened: Callable[[bytes, Shorten], bytes]
    added: Callable[[bytes, str], bytes]  # a message of the user's with one more text at its end
    # the last message, and a text of the user's behind it: as one message, or as two
    asking: Callable[[bytes, str], tuple[bytes, ...]]
    # a request of its own, of a model, a system prompt and texts of the user's
    plain: Callable[[str, str, Iterable[str]], Json]
    # a message without what the provider binds to the bytes before it. None where it binds nothing, or drops by itself
    # what no longer fits
    unbound: Callable[[bytes], bytes] | None = None


def has_identity(part: Part) -> bool:
    """Whether ``identity_of`` gives a digest, without the work of making one."""
    bare = part.text.lstrip() if isinstance(part, Text) else "."
    return not isinstance(part, Thinking) and bool(bare) and not bare.startswith(_LEFT_OUT)


def identity_of(part: Part) -> tuple[bytes, ...]:
    """What tells a part from another, as one digest; none for what is left out."""
    match part:
        case Text(text=text):
            bare = text.strip()
            return () if not bare or bare.startswith(_LEFT_OUT) else (_digest("text", bare),)
        case ToolCall():
            return (_digest("call", part.id, part.name, part.malformed or part.arguments),)
        case ToolResult():
            return (_digest("result", part.call_id, part.text.strip()),)
        case Thinking():
            return ()


def message(role: Role, parts: Iterable[Part]) -> ForeignMessage:
    """The message with its identity; a system message has none."""
    kept = tuple(parts)
    known = () if role == "system" else tuple(one for part in kept for one in identity_of(part))
    return ForeignMessage(role, kept, known)


def unknown(role: Role, block: Json) -> Part:
    """A block of a kind that is not read: named, with the digest of what it holds.

    In a reply it is left out of the identity, as the provider sends some of them in another form than it takes.
    """
    kind = whole(str(block.get("type", "unknown")))[:_DATA_CHARS]
    bare = {name: value for name, value in block.items() if name not in {"cache_control", "id", "status"}}
    spelled = json.dumps(bare, sort_keys=True).encode()
    if role == "assistant":
        return Thinking({"type": kind, "sha256": hashlib.sha256(spelled).hexdigest()})
    return Text(f"[{kind}: {len(spelled):,} bytes, sha256 {hashlib.sha256(spelled).hexdigest()[:16]}]")


def text_part(text: object) -> tuple[Part, ...]:
    """A text that is not empty, as a part."""
    return (Text(whole(text)),) if isinstance(text, str) and text else ()


def result_text(content: object) -> str:
    """The text of a result: a string, or blocks; what is no text is named with its digest."""
    if isinstance(content, str):
        return whole(content)
    told: list[str] = []
    for block in content if isinstance(content, list) else []:
        found = block.get("text") if isinstance(block, dict) else block
        if isinstance(found, str):
            told.append(whole(found))
        elif isinstance(block, dict):
            named = unknown("user", block)
            told.append(named.text if isinstance(named, Text) else "")
    return "\n".join(told)


def object_of(value: Any, what: str) -> Json:
    """Raises ``ValueError`` where the value is no object."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    return value


def tool_of(name: object, description: object, schema: object) -> ToolSpec:
    """A tool as the model is shown it."""
    spelled = json.dumps(whole_value(schema), ensure_ascii=False)
    return ToolSpec(whole(str(name)), whole(str(description or "")), spelled)


class Body(Struct):
    """What is read of a body, of whatever format; the other fields only pass through."""

    model: str = ""
    system: Raw = Raw()
    instructions: str | None = None
    tools: Raw = Raw()
    messages: Raw = Raw()
    input: Raw = Raw()
    response_format: Json | None = None
    output_config: Json | None = None
    output_format: Json | None = None
    text: Json | None = None
    previous_response_id: str | None = None
    conversation: Any = None


def _digest(*fields: Any) -> bytes:
    """A digest of texts and JSON values. Texts are digested as they are: spelling long ones as JSON takes seconds."""
    found = hashlib.blake2b(digest_size=16)
    for one in fields:
        is_text = isinstance(one, str)
        raw = (one if is_text else json.dumps(one, sort_keys=True)).encode("utf-8", "surrogatepass")
        found.update(b"%d:%d:" % (is_text, len(raw)))
        found.update(raw)
    return found.digest()


def _chars(part: Part) -> int:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return len(text)
        case ToolCall():
            return len(part.name) + len(part.malformed or json.dumps(part.arguments))
        case Thinking():
            return 0


def nothing_known(events: Iterable[str]) -> Usage:
    """The format tells nothing of what was used before its answer ends."""
    return Usage()


def spelled(value: Json) -> bytes:
    """A changed message as it is sent: the same value always gives the same bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
