"""Converts views to Gemini's contents, and streamed chunks to a reply.

Extra data of a part, above all its thought signature, is returned on the same part, byte for byte. Parts keep their
order, and a part with a signature is never merged with another one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from stackmem.core.facts import ModelFailed, ModelReplied, Stop
from stackmem.core.images import no_image
from stackmem.core.messages import Message, ReplyPart, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage, View
from stackmem.core.text import whole, whole_value
from stackmem.models.spoken import tell

from .failures import failed
from .images import Sight
from .openai_messages import FOREIGN_THOUGHT, named_parameters, spelled_call
from .openai_stream import token_count, tokens_in

if TYPE_CHECKING:
    from google.genai.types import Candidate, GenerateContentResponse, GenerateContentResponseUsageMetadata, Part

Json = dict[str, Any]

NO_SIGNATURE = b"skip_thought_signature_validator"
"""Google's documented placeholder for a call without a known signature."""
_NOTHING = "(no text)"
_PIECES = "gemini"
_MAX_PARTS = 100_000
_STOPS: dict[str, Stop] = {
    "STOP": "end", "MAX_TOKENS": "truncated", "CONTINUATION": "truncated", "SAFETY": "refused",
    "RECITATION": "refused", "BLOCKLIST": "refused", "PROHIBITED_CONTENT": "refused", "SPII": "refused",
    "LANGUAGE": "refused", "ESCALATION": "refused", "PUP_LIMITED_DISABLED": "refused", "MODEL_ARMOR": "refused",
}  # fmt: skip


class _Piece(Struct):
    """A part of a reply as received; for text and thoughts, a span of the whole text."""

    kind: str
    chars: int = 0
    id: str = ""  # a call's id in our messages
    named: bool = True  # whether the id comes from the provider
    part: Json | None = None  # the complete part, if it is of another kind
    signature: bytes | None = None


def contents(view: View, *, signed: bool = True, filled: bool = False, sight: Sight | None = None) -> list[Json]:
    """Convert the conversation. Roles alternate, and results precede the text of the same message.

    Without ``sight``, images are left out. ``signed`` says whether to send signatures back. A server refuses signatures
    that another server made. ``filled`` says whether a message's first call gets a placeholder if its signature is
    missing.
    """
    sight = sight or Sight(view, None, no_image)
    result: list[Json] = []
    names: dict[str, tuple[str, bool]] = {}
    for message in view.messages:
        parts = _user(message, names, sight) if message.role == "user" else _model(message, names, signed, filled)
        role = "user" if message.role == "user" else "model"
        if result and result[-1]["role"] == role:
            result[-1]["parts"] += parts
        else:
            result.append({"role": role, "parts": parts})
    return result


def declaration(tool: ToolSpec) -> Json:
    return {
        "name": tool.name, "description": whole(tool.description), "parameters_json_schema": named_parameters(tool),
    }  # fmt: skip


def _user(message: Message, names: dict[str, tuple[str, bool]], sight: Sight) -> list[Json]:
    """Convert results, then their images, then texts with their images."""
    results: list[Json] = []
    pictures: list[Json] = []
    texts: list[Json] = []
    for part in message.parts:
        if not isinstance(part, Text | ToolResult):
            continue
        pairs, note = sight.of(part)
        images: list[Json] = [{"inline_data": {"mime_type": ref.media, "data": raw}} for ref, raw in pairs]
        text = whole(part.text) + note
        if isinstance(part, ToolResult):
            name, has_id = names.get(part.call_id, ("unknown", True))
            answer: Json = {"name": name, "response": {"error" if part.failed else "output": text}}
            results.append({"function_response": answer | ({"id": part.call_id} if has_id else {})})
            pictures += images
        else:
            texts += [*([{"text": text}] if text.strip() else []), *images]
    return results + pictures + texts or [{"text": _NOTHING}]


def _model(message: Message, names: dict[str, tuple[str, bool]], signed: bool, filled: bool) -> list[Json]:
    raw = next((part.raw for part in message.parts if isinstance(part, Thinking)), {})
    text = "".join(whole(part.text) for part in message.parts if isinstance(part, Text))
    calls = {part.id: part for part in message.parts if isinstance(part, ToolCall)}
    pieces = _original_pieces(raw, text, calls)
    if not pieces:
        pieces = [_Piece("text", len(text))] if text.strip() else []
        pieces += [_Piece("call", id=call) for call in calls]
    thought = raw.get("thinking", "")
    parts: list[Json] = []
    for piece in pieces:
        if piece.kind == "call":
            part, wants = _call(calls[piece.id], piece, names), filled
            filled = False  # of several calls in a reply, only the first has a signature
        elif piece.kind == "other":
            part, wants = dict(piece.part or {}), False
        elif piece.kind == "thought":
            part, wants = {"text": thought[: piece.chars], "thought": True}, False
            thought = thought[piece.chars :]
        else:
            part, wants = {"text": text[: piece.chars]}, False
            text = text[piece.chars :]
        if piece.signature is not None and signed:
            part["thought_signature"] = piece.signature
        elif wants:
            part["thought_signature"] = NO_SIGNATURE
        if part.get("text") != "" or "thought_signature" in part:
            parts.append(part)
    return parts or [{"text": _NOTHING}]


def _original_pieces(raw: Json, text: str, calls: dict[str, ToolCall]) -> list[_Piece]:
    """Return the original pieces of a reply, if its text and calls are unchanged since then."""
    pieces = [
        _Piece(**{**piece, "signature": base64.b64decode(piece["signature"])} if "signature" in piece else piece)
        for piece in raw.get(_PIECES, ())
    ]
    is_unchanged = sum(piece.chars for piece in pieces if piece.kind == "text") == len(text)
    return pieces if is_unchanged and {piece.id for piece in pieces if piece.kind == "call"} == calls.keys() else []


def _call(call: ToolCall, piece: _Piece, names: dict[str, tuple[str, bool]]) -> Json:
    function = spelled_call(call)["function"]
    names[call.id] = (function["name"], piece.named)
    function_call = {"name": function["name"], "args": json.loads(function["arguments"])}
    return {"function_call": function_call | ({"id": call.id} if piece.named and call.id else {})}


class _Reply(Struct):
    pieces: list[_Piece]
    texts: list[str]
    thoughts: list[str]
    calls: list[ToolCall]
    usage: Usage = Usage()
    id: str = ""
    reason: str = ""
    says: str = ""


def read_chunks(chunks: Iterable[GenerateContentResponse], facts: int) -> ModelReplied | ModelFailed:
    """Assemble the reply; return a failure if the stream ended without a finish reason.

    Calls without an id are named after ``facts``, so that results can be matched to them.

    Raise ValueError if the chunks are malformed.
    """
    reply = _Reply([], [], [], [])
    for chunk in chunks:
        reply.id = chunk.response_id or reply.id
        if chunk.usage_metadata is not None:
            reply.usage = _counted(chunk.usage_metadata)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            reply.reason, reply.says = "SAFETY", feedback.block_reason_message or str(feedback.block_reason.value)
        for candidate in (chunk.candidates or ())[:1]:
            _grow(reply, candidate, facts)
    if not reply.reason:
        return failed("incomplete", "the reply's stream ended before its end was announced")
    mapped = _STOPS.get(reply.reason)
    stop: Stop = "call" if reply.calls and mapped in {None, "end"} else mapped or "end"
    detail = reply.says if stop == "refused" else "" if mapped else f"finish reason {reply.reason}: {reply.says}"
    return ModelReplied(
        parts=_parts(reply),
        stop=stop,
        usage=reply.usage,
        detail=whole(detail)[:500],
        reply_id=whole(reply.id)[:200],
    )


def _grow(reply: _Reply, candidate: Candidate, facts: int) -> None:
    if candidate.finish_reason is not None:
        reply.reason = whole(str(candidate.finish_reason.value))[:80]
        reply.says = candidate.finish_message or ""
    for part in (candidate.content and candidate.content.parts) or ():
        piece = _read(reply, part, facts)
        last = reply.pieces[-1] if reply.pieces else None
        plain = last is not None and last.signature is None and last.kind == piece.kind
        if last is not None and plain and piece.signature is None and piece.kind in {"text", "thought"}:
            last.chars += piece.chars
        else:
            reply.pieces.append(piece)
        if len(reply.pieces) > _MAX_PARTS:
            raise ValueError(f"more than {_MAX_PARTS:,} parts")


def _read(reply: _Reply, part: Part, facts: int) -> _Piece:
    """Convert a part to a piece, adding its text or call to the reply."""
    signature = part.thought_signature or None
    if (call := part.function_call) is not None:
        identity = whole(call.id or "") or f"call_{facts}_{len(reply.calls)}"
        has_own_id = bool(call.id) and all(identity != other.id for other in reply.calls)
        if not has_own_id:
            identity = f"call_{facts}_{len(reply.calls)}"
        reply.calls.append(ToolCall(identity, whole(call.name or ""), whole_value(call.args or {})))
        return _Piece("call", id=identity, named=has_own_id, signature=signature)
    if part.text is None:
        # A part with only a signature counts as empty text.
        rest = part.model_dump(mode="json", exclude_none=True, exclude={"thought_signature"})
        kind = "other" if rest.keys() - {"thought"} else "text"
        return _Piece(kind, part=whole_value(rest) if kind == "other" else None, signature=signature)
    text = whole(part.text)
    (reply.thoughts if part.thought else reply.texts).append(text)
    if not part.thought:
        tell(text)
    return _Piece("thought" if part.thought else "text", len(text), signature=signature)


def _parts(reply: _Reply) -> tuple[ReplyPart, ...]:
    text = "".join(reply.texts)
    usual = ["text"] * bool(text) + ["call"] * len(reply.calls)
    carries = any(piece.signature is not None or not piece.named for piece in reply.pieces)
    thought: list[ReplyPart] = []
    if carries or [piece.kind for piece in reply.pieces] != usual:
        pieces = [_stored(piece) for piece in reply.pieces]
        thought = [Thinking({"type": FOREIGN_THOUGHT, "thinking": "".join(reply.thoughts), _PIECES: pieces})]
    return (*thought, *([Text(text)] if text else []), *reply.calls)


def _stored(piece: _Piece) -> Json:
    fields = {name: value for name in ("chars", "id", "part") if (value := getattr(piece, name))}
    if piece.signature is not None:
        fields["signature"] = base64.b64encode(piece.signature).decode()
    return {"kind": piece.kind, **fields, **({} if piece.named else {"named": False})}


def _counted(usage: GenerateContentResponseUsageMetadata) -> Usage:
    """Convert usage; cached tokens are included in the prompt, thoughts are counted separately from the reply."""
    prompt = token_count(usage.prompt_token_count) + token_count(usage.tool_use_prompt_token_count)
    output = token_count(usage.candidates_token_count) + token_count(usage.thoughts_token_count)
    return tokens_in(prompt, {"cached_tokens": usage.cached_content_token_count}, output)
