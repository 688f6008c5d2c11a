"""Assembles the events of a streamed Messages reply.

Only a stream with ``message_stop`` and a stop reason is a reply. A stream that broke off looks the same up to
there, with ``{}`` as the arguments of a half-sent call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Struct, ValidationError, convert, field

from stackmem.core.facts import ModelFailed, ModelReplied, Stop
from stackmem.core.messages import ReplyPart, Text, Thinking, ToolCall, Usage
from stackmem.core.text import whole, whole_value

from .failures import failed, kind_of_error, web_page
from .json_text import MAX_TOKENS, left_out, parse_arguments

_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "call",
    "max_tokens": "truncated",
    "refusal": "refused",
    "model_context_window_exceeded": "window",
    "pause_turn": "paused",
    "compaction": "paused",
}


_BEGUN_BY = {"text_delta": "text", "thinking_delta": "thinking"}
"""Kinds of blocks that a delta can begin, because it has everything that they need."""


class _StreamMessage(Struct):
    id: str | None = None
    usage: dict[str, Any] | None = None


class _BlockDelta(Struct):
    """A delta of a block or of the message; each kind fills different fields."""

    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    content: str | None = None
    stop_reason: str | None = None
    stop_details: dict[str, Any] | None = None


class _Event(Struct):
    """One event of a stream, or the whole message if a server does not stream."""

    type: str
    index: int = 0
    id: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    message: _StreamMessage | None = None
    content_block: dict[str, Any] | None = None
    delta: _BlockDelta | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None


class _Block(Struct):
    """The start of a block and its deltas, which are joined only at the end: joining at each delta is quadratic."""

    start: dict[str, Any]
    texts: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)


class _MessageReply(Struct):
    blocks: list[_Block]  # in the order in which they began
    places: dict[int, _Block]  # the last block of each index
    usage: dict[str, int]
    iterations: list[Any] = field(default_factory=list)  # as last reported
    edits: list[Any] = field(default_factory=list)  # what the provider took out of the prompt
    notes: list[str] = field(default_factory=list)
    id: str = ""
    stop_reason: str | None = None
    stop_details: dict[str, Any] | None = None
    ended: bool = False
    error: ModelFailed | None = None


def read_reply(events: Iterable[str], secret: str = "") -> ModelReplied | ModelFailed:
    """Return the reply, or a failure if the stream contains an error, is malformed, or ends early.

    ``events`` is the JSON text of each event, in order. ``secret`` is a text to keep out of every error detail.
    """
    reply = _MessageReply([], {}, {})
    try:
        for text in events:
            if text.startswith("<"):
                return web_page(text, secret)
            _take(reply, convert(json.loads(text), _Event), secret)
            if reply.error is not None:
                return reply.error
            if reply.ended:
                break
        if not reply.ended or reply.stop_reason is None:
            return failed("incomplete", "the reply's stream ended before its end was announced")
        parts = tuple(part for block in reply.blocks for part in _part(block, reply.stop_reason, reply.notes))
    except (ValidationError, ValueError, RecursionError) as error:
        return failed("incomplete", f"the reply's stream is malformed: {error}", secret)
    return ModelReplied(
        parts=parts,
        stop=_stop(reply.stop_reason, parts),
        usage=_usage(reply.usage) + _compaction_usage(reply.iterations),
        detail=_refusal(reply),
        reply_id=whole(reply.id)[:200],
        repairs=tuple(reply.notes) or UNSET,
        applied_edits=tuple(whole_value(edit) for edit in reply.edits if isinstance(edit, dict)) or UNSET,
    )


def _take(reply: _MessageReply, event: _Event, secret: str) -> None:
    """Process an event; unknown kinds are ignored, as the protocol requires."""
    match event.type:
        case "message_start" if event.message is not None:
            reply.id = event.message.id or ""
            _count(reply.usage, event.message.usage)
        case "message":
            reply.id, reply.stop_reason, reply.ended = event.id or "", event.stop_reason, True
            reply.blocks = [_Block(block) for block in event.content or ()]
            _count(reply.usage, event.usage)
            _report(reply, event)
        case "content_block_start" if event.content_block is not None:
            _begin(reply, event.index, event.content_block)
        case "content_block_delta" if event.delta is not None:
            _grow(reply, event.index, event.delta)
        case "message_delta":
            if event.delta is not None:
                reply.stop_reason = event.delta.stop_reason or reply.stop_reason
                reply.stop_details = event.delta.stop_details or reply.stop_details
            _count(reply.usage, event.usage)
            _report(reply, event)
        case "message_stop":
            reply.ended = True
        case "error":
            error = event.error or {}
            kind, message = str(error.get("type", "")), str(error.get("message", ""))
            detail = f"{kind} in mid-stream: {message}" if kind else f"an error in mid-stream: {message}"
            reply.error = failed(kind_of_error(kind, json.dumps(error)), detail, secret)


def _report(reply: _MessageReply, event: _Event) -> None:
    """Store what the provider did with the prompt: its edits, and the requests that one reply took."""
    edits = (event.context_management or {}).get("applied_edits")
    reply.edits = edits if isinstance(edits, list) and edits else reply.edits
    iterations = (event.usage or {}).get("iterations")
    reply.iterations = iterations if isinstance(iterations, list) and iterations else reply.iterations


def _begin(reply: _MessageReply, index: int, start: dict[str, Any]) -> _Block:
    block = _Block(start)
    reply.blocks.append(block)
    reply.places[index] = block
    return block


def _grow(reply: _MessageReply, index: int, delta: _BlockDelta) -> None:
    block = reply.places.get(index)
    if block is None:
        kind = _BEGUN_BY.get(delta.type or "")
        if kind is None:
            raise ValueError(f"a delta for block {index}, which never began")
        reply.notes.append(f"read block {index} as {kind}, because its beginning was missing")
        block = _begin(reply, index, {"type": kind})
    match delta.type:
        case "text_delta":
            block.texts.append(delta.text or "")
        case "input_json_delta":
            block.texts.append(delta.partial_json or "")
        case "thinking_delta":
            block.texts.append(delta.thinking or "")
        case "signature_delta":
            block.signatures.append(delta.signature or "")
        case "compaction_delta" if delta.content is not None:
            block.start["content"] = delta.content


def _part(block: _Block, stop_reason: str, notes: list[str]) -> tuple[ReplyPart, ...]:
    """Convert a block to a part; empty text becomes none, because it could not be sent back."""
    joined = "".join(block.texts)
    match block.start.get("type"):
        case "text":
            text = whole(str(block.start.get("text") or "") + joined)
            return (Text(text),) if text else ()
        case "tool_use":
            return (_call(block.start, joined, cut=stop_reason == "max_tokens"),)
        case "thinking":
            raw = dict(block.start)
            raw["thinking"] = str(raw.get("thinking") or "") + joined
            if block.signatures:
                raw["signature"] = str(raw.get("signature") or "") + "".join(block.signatures)
            return (Thinking(whole_value(raw)),)
        case kind:
            raw = dict(block.start)
            if isinstance(raw.get("input"), dict) and isinstance(arguments := parse_arguments(joined)[0], dict):
                raw["input"] = raw["input"] | arguments  # a call that the provider itself performs
            elif joined:
                notes.append(left_out(f"a block of the kind {kind!r:.40}", joined))
            return (Thinking(whole_value(raw)),)


def _call(start: dict[str, Any], joined: str, *, cut: bool) -> ToolCall:
    """Build the call; some servers send the complete input with the block's start.

    If the output limit cut the call before its first argument, it is malformed: ``{}`` would be a call the model
    did not make.
    """
    id_, name = whole(str(start.get("id") or "")), whole(str(start.get("name") or ""))
    if joined.strip():
        value, malformed = parse_arguments(joined)
    elif start.get("input"):
        value, malformed = whole_value(start["input"]), None
    elif cut:
        value, malformed = None, ""
    else:
        value, malformed = {}, None
    return ToolCall(id_, name, value, malformed)


def _stop(reason: str, parts: tuple[ReplyPart, ...]) -> Stop:
    called = any(isinstance(part, ToolCall) for part in parts)
    return _STOPS.get(reason, "call" if called else "end")


def _refusal(reply: _MessageReply) -> str:
    """Return the provider's explanation of a refusal, or the stop reason if it is unknown."""
    if reply.stop_reason == "refusal":
        details = reply.stop_details or {}
        texts = [str(details[name]) for name in ("category", "explanation") if details.get(name)]
        return whole(": ".join(texts))[:500]
    return "" if reply.stop_reason in _STOPS else f"stop reason {reply.stop_reason!r:.80}"


def _count(counts: dict[str, int], update: dict[str, Any] | None) -> None:
    """Merge cumulative token counts: keep the largest, and ignore implausibly large ones."""
    for name, value in (update or {}).items():
        if name == "cache_creation" and isinstance(value, dict):
            _count(counts, value)
        elif (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and counts.get(name, -1) < value <= MAX_TOKENS
        ):
            counts[name] = int(value)


def _compaction_usage(iterations: list[Any]) -> Usage:
    """Return the tokens of the provider's own summaries, which its totals leave out."""
    total = Usage()
    for iteration in iterations:
        if isinstance(iteration, dict) and iteration.get("type") == "compaction":
            counts: dict[str, int] = {}
            _count(counts, iteration)
            total += _usage(counts)
    return total


def _usage(counts: dict[str, int]) -> Usage:
    """Convert the counts. Cache writes without a stated lifetime count as the default, five minutes."""
    long = counts.get("ephemeral_1h_input_tokens", 0)
    written = max(counts.get("cache_creation_input_tokens", 0), long + counts.get("ephemeral_5m_input_tokens", 0))
    return Usage(
        uncached=counts.get("input_tokens", 0),
        cache_read=counts.get("cache_read_input_tokens", 0),
        cache_write_5m=written - long,
        cache_write_1h=long,
        output=counts.get("output_tokens", 0),
    )
