"""Common types for parsed requests and answers of all wire formats.

- Parsing never changes the forwarded bytes. A body that cannot be parsed is forwarded anyway.
- Details that clients may re-encode between turns are in the parts but not in the identity: cache marks, thinking,
  item ids and trailing blanks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Raw, Struct

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Part, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage
from stackmem.core.text import whole, whole_value

Json = dict[str, Any]
Role = Literal["user", "assistant", "system"]

_LEFT_OUT = ("<system-reminder>", "<environment_context>")
"""Texts with these prefixes come from the client itself and may change at the next turn."""
THOUGHTS = ("thinking", "redacted_thinking")
"""Types of the blocks that contain a model's thinking in Anthropic's format."""
_TOOL_REFERENCE = re.compile(r"^\[tool_reference: [\d,]+ bytes, sha256 [0-9a-f]{16}\]$", re.MULTILINE)
"""How ``unknown`` represents a reference to a tool; traces contain it too, so replay finds the same results."""
_UNIQUE_ID_CHARS = 16
_DATA_CHARS = 200
MIN_REPLY_TOKENS = 8_192
"""Output limit of the gateway's own requests, including thinking."""


class ForeignMessage(Struct, frozen=True):
    """One message as a client sent it."""

    role: Role  # ``system`` also for the role ``developer``
    parts: tuple[Part, ...]
    identity: tuple[bytes, ...]  # digests of the parts that identify a conversation


class ForeignRequest(Struct, frozen=True):
    """One request for a reply."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[ForeignMessage, ...]
    raw: tuple[bytes, ...]  # the bytes of each message in the body, in order
    wants_json: bool = False  # whether the reply must be JSON that follows a schema
    continues: str = ""  # id of earlier content that only the provider has; empty if the body contains everything
    # whether each tool loop must begin with its thinking, which then binds to nothing before it
    needs_thinking: bool = False
    # start and end of the messages in the body, without the brackets; None if unknown
    span: tuple[int, int] | None = None

    @property
    def chars(self) -> int:
        """Return the number of characters that the model reads."""
        tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in self.tools)
        return len(self.system) + tools + sum(_chars(part) for each in self.messages for part in each.parts)


Shorten = Callable[[ToolResult], ToolResult]


class WireFormat(Struct, frozen=True):
    """One provider's format."""

    name: str  # the name in records
    provider: Literal["anthropic", "openai", "google"]  # the upstream that accepts it
    paths: tuple[str, ...]  # endings of paths that request a reply, without the version
    field: str  # the body's field with the messages
    read: Callable[[bytes], ForeignRequest]  # parses a body; raises ``ValueError`` if it has another format
    reply: Callable[[Iterable[str]], ModelReplied | ModelFailed]  # assembles the events of an answer
    ends: tuple[bytes, ...]  # texts that occur only in the last event of a stream
    partial_usage: Callable[
        [Iterable[str]], Usage
    ]  # returns the known minimum usage of an incomplete answer from its events
    error: Callable[[str, str], Json]  # builds the body of a refusal in this format
    # applies a function to a message's results; returns the same bytes if nothing changed
    shortened: Callable[[bytes, Shorten], bytes]
    added: Callable[[bytes, str], bytes]  # appends a text to a user message
    # appends a user text to a conversation: merged into its last user message, or as another message
    asking: Callable[[Sequence[bytes], str], list[bytes]]
    # builds a separate request from a model, a system prompt and user texts
    plain: Callable[[str, str, Iterable[str]], Json]
    # removes content that the provider binds to the bytes before it; None if there is none, or the provider drops
    # it automatically
    unbound: Callable[[bytes], bytes] | None = None
    # merges system messages, which must not follow each other; None if they may
    merged: Callable[[Sequence[bytes]], bytes] | None = None


def has_identity(part: Part) -> bool:
    """Return whether ``identity_of`` gives a digest, without computing it."""
    bare = part.text.lstrip() if isinstance(part, Text) else "."
    return not isinstance(part, Thinking) and bool(bare) and not bare.startswith(_LEFT_OUT)


def identity_of(part: Part) -> tuple[bytes, ...]:
    """Return a digest that identifies a part; empty for parts that are ignored."""
    match part:
        case Text(text=text):
            bare = text.strip()
            return () if not bare or bare.startswith(_LEFT_OUT) else (_digest("text", bare),)
        case ToolCall():
            # Clients may normalize the arguments; an id that is unique in any conversation needs no help from them.
            content = "" if has_unique_id(part) else part.malformed or part.arguments
            return (_digest("call", part.id, part.name, content),)
        case ToolResult():
            return (_digest("result", part.call_id, part.text.strip()),)
        case Thinking():
            return ()


def has_unique_id(call: ToolCall) -> bool:
    """Return whether a call is identified without its arguments."""
    return len(call.id) >= _UNIQUE_ID_CHARS


def arguments_digest(call: ToolCall) -> bytes:
    """Return a digest of a call's arguments that distinguishes numbers by their form, such as 1 and 1.0."""
    return _digest("arguments", call.malformed, call.arguments)


def message(role: Role, parts: Iterable[Part]) -> ForeignMessage:
    """Build a message with its identity; system messages have an empty one."""
    items = tuple(parts)
    identity = () if role == "system" else tuple(digest for part in items for digest in identity_of(part))
    return ForeignMessage(role, items, identity)


def unknown(role: Role, block: Json) -> Part:
    """Represent a block of an unknown type by its name and a digest.

    Blocks in replies are left out of the identity, because providers return some of them in a different form than
    they accept.
    """
    kind = whole(str(block.get("type", "unknown")))[:_DATA_CHARS]
    bare = {name: value for name, value in block.items() if name not in {"cache_control", "id", "status"}}
    spelled = json.dumps(bare, sort_keys=True).encode()
    if role == "assistant":
        return Thinking({"type": kind, "sha256": hashlib.sha256(spelled).hexdigest()})
    return Text(f"[{kind}: {len(spelled):,} bytes, sha256 {hashlib.sha256(spelled).hexdigest()[:16]}]")


def text_part(text: object) -> tuple[Part, ...]:
    """Convert a non-empty text to a part."""
    return (Text(whole(text)),) if isinstance(text, str) and text else ()


def defines_tools(part: Part) -> bool:
    """Return whether a part is the result of a tool search, in place of which the provider shows definitions."""
    return isinstance(part, ToolResult) and _TOOL_REFERENCE.search(part.text) is not None


def result_text(content: object) -> str:
    """Return the text of a result; content other than text is represented by its digest."""
    if isinstance(content, str):
        return whole(content)
    texts: list[str] = []
    for block in content if isinstance(content, list) else []:
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str):
            texts.append(whole(text))
        elif isinstance(block, dict):
            placeholder = unknown("user", block)
            texts.append(placeholder.text if isinstance(placeholder, Text) else "")
    return "\n".join(texts)


def object_of(value: Any, label: str) -> Json:
    """Check that the value is an object; raise ``ValueError`` otherwise."""
    if not isinstance(value, dict):
        raise ValueError(f"{label} is not an object")
    return value


def tool_of(name: object, description: object, schema: object) -> ToolSpec:
    """Build a tool as the model sees it."""
    spelled = json.dumps(whole_value(schema), ensure_ascii=False)
    return ToolSpec(whole(str(name)), whole(str(description or "")), spelled)


class Body(Struct):
    """The body fields that are parsed, for all formats; other fields only pass through."""

    model: str = ""
    system: Raw = Raw()
    instructions: str | None = None
    tools: Raw = Raw()
    messages: Raw = Raw()
    contents: Raw = Raw()
    systemInstruction: Raw = Raw()  # noqa: N815 - the name in the format
    generationConfig: Any = None  # noqa: N815
    input: Raw = Raw()
    response_format: Json | None = None
    output_config: Json | None = None
    output_format: Json | None = None
    text: Json | None = None
    thinking: Any = None
    previous_response_id: str | None = None
    conversation: Any = None


def _digest(*fields: Any) -> bytes:
    """Digest texts and JSON values. Texts are digested directly, because encoding long ones as JSON takes seconds."""
    hasher = hashlib.blake2b(digest_size=16)
    for field in fields:
        is_text = isinstance(field, str)
        raw = (field if is_text else json.dumps(field, sort_keys=True)).encode("utf-8", "surrogatepass")
        hasher.update(b"%d:%d:" % (is_text, len(raw)))
        hasher.update(raw)
    return hasher.digest()


def _chars(part: Part) -> int:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return len(text)
        case ToolCall():
            return len(part.name) + len(part.malformed or json.dumps(part.arguments))
        case Thinking():
            return 0


def nothing_known(events: Iterable[str]) -> Usage:
    """Return zero usage: the format reports none before its answer ends."""
    return Usage()


def spelled(value: Json) -> bytes:
    """Encode a changed message; the same value always gives the same bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def with_text(raw: bytes, text: str, kind: str) -> bytes:
    """Append a text to a message of OpenAI's formats, as a part of this kind if it has parts."""
    fields = json.loads(raw)
    content = fields.get("content")
    if isinstance(content, list):
        return spelled({**fields, "content": [*content, {"type": kind, "text": text}]})
    return spelled({**fields, "content": f"{content}\n\n{text}" if content else text})
