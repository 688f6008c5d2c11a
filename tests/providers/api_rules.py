"""The Messages API's rules for requests, checked as strictly as documented: the first fault found, or None."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from .image_rules import claude_faults
from .prefix_cache import without_marks

_FIELDS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "stream", "metadata",
    "stop_sequences", "output_config", "service_tier", "cache_control",
}  # fmt: skip
_BLOCK_FIELDS = {
    "text": {"type", "text", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "compaction": {"type", "content", "signature", "cache_control"},
}
_SCHEMA_FIELDS = {
    "object": {"type", "description", "properties", "required", "additionalProperties"},
    "array": {"type", "description", "items"},
    "string": {"type", "description", "enum"},
    "integer": {"type", "description", "enum"},
    "number": {"type", "description"},
    "boolean": {"type", "description"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


EDITING, SUMMARIES = "context-management-2025-06-27", "compact-2026-09-04"


def first_fault(body: Any, betas: frozenset[str] = frozenset()) -> str | None:
    """Return the message of the 400 for this body."""
    if not isinstance(body, dict):
        return "the body is not an object"
    return next(_faults(body, betas), None)


def signature(body: dict[str, Any], before: int, text: str) -> str:
    """Return a thinking block's signature, bound to everything before its message.

    Tools whose loading is deferred are no part of the prompt.
    """
    tools = [tool for tool in body.get("tools") or () if not tool.get("defer_loading")]
    prefix = [body.get("system"), tools, body["messages"][:before]]
    return hashlib.sha256(json.dumps([without_marks(prefix), text]).encode()).hexdigest()


def _faults(body: dict[str, Any], betas: frozenset[str]) -> Iterator[str]:
    for name in body.keys() - _FIELDS - {"context_management", "compaction"}:
        yield f"{name}: Extra inputs are not permitted"
    yield from _management_faults(body, betas)
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    if type(body.get("max_tokens")) is not int or not 1 <= body["max_tokens"] <= 128_000:
        yield "max_tokens: must be from 1 to 128000"
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield "messages: at least one message is required"
        return
    yield from _tool_faults(body)
    yield from _message_faults(body["messages"])
    yield from _breakpoint_faults(body)
    yield from _signature_faults(body)


def _management_faults(body: dict[str, Any], betas: frozenset[str]) -> Iterator[str]:
    """The rules of context editing and of compaction on demand, as documented in November 2026."""
    if "context_management" in body:
        if EDITING not in betas:
            yield "context_management: Extra inputs are not permitted"
        yield from _edit_faults(body["context_management"], thinks="thinking" in body)
    if "compaction" in body:
        if SUMMARIES not in betas:
            yield f"compaction: requires anthropic-beta: {SUMMARIES}"
        if "context_management" in body:
            yield "compaction: cannot be combined with context_management"
        if body["compaction"] != {"type": "summarize"}:
            yield "compaction: the type is 'summarize'"
        if body.get("stop_sequences") or body.get("tool_choice", {}).get("type") in {"any", "tool"}:
            yield "compaction: stop_sequences and a forced tool are not supported"
    blocks = [
        (index, number, block)
        for index, message in enumerate(body.get("messages") or ())
        for number, block in enumerate(message.get("content") or ())
        if isinstance(block, dict) and block.get("type") == "compaction"
    ]
    for index, number, block in blocks:
        place = f"messages.{index}.content.{number}"
        if SUMMARIES not in betas:
            yield f"{place}: Input tag 'compaction' found using 'type' does not match any of the expected tags"
        if (index, number) != (0, 0):
            yield "compaction_block_misplaced: remove the summarized messages in front of the block"
        if extra := block.keys() - {"type", "content", "signature", "cache_control"}:
            yield f"{place}.compaction: Extra inputs are not permitted: {sorted(extra)}"
        if block.get("signature") != summary_signature(block.get("content", "")):
            yield "compaction_signature_invalid: the signature does not fit the summary"
    if len(blocks) > 1:
        yield "compaction_block_ambiguous: send only the newest block"


def summary_signature(text: str) -> str:
    return hashlib.sha256(f"summary {text}".encode()).hexdigest()


def _edit_faults(management: Any, *, thinks: bool) -> Iterator[str]:
    edits = management.get("edits") if isinstance(management, dict) else None
    if not isinstance(edits, list) or not edits or management.keys() != {"edits"}:
        yield "context_management: edits are required"
        return
    for place, edit in enumerate(edits):
        match edit.get("type"):
            case "clear_thinking_20251015":
                keep = edit.get("keep", "all")
                if place:
                    yield "context_management: clear_thinking_20251015 must be the first edit"
                if not thinks:
                    yield "context_management: clear_thinking_20251015 needs thinking"
                if keep != "all" and (keep.get("type") != "thinking_turns" or not keep.get("value", 0) > 0):
                    yield "context_management: keep is 'all' or a number of thinking_turns above 0"
                if edit.keys() - {"type", "keep"}:
                    yield "context_management: Extra inputs are not permitted"
            case "clear_tool_uses_20250919":
                fields = {"trigger": "input_tokens", "keep": "tool_uses", "clear_at_least": "input_tokens"}
                if edit.keys() - {"type", *fields}:
                    yield "context_management: Extra inputs are not permitted"
                for name, unit in fields.items():
                    given = edit.get(name, {"type": unit, "value": 0})
                    if given.keys() != {"type", "value"} or given["type"] != unit or type(given["value"]) is not int:
                        yield f"context_management: {name} needs a number of {unit}"
            case kind:
                yield f"context_management: Input tag {kind!r} does not match any of the expected tags"


def _tool_faults(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools", [])
    names = [tool.get("name", "") for tool in tools]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    for index, tool in enumerate(tools):
        if extra := tool.keys() - {"name", "description", "strict", "input_schema", "cache_control"}:
            yield f"tools.{index}: Extra inputs are not permitted: {sorted(extra)}"
        if not _NAME.fullmatch(tool.get("name", "")):
            yield f"tools.{index}.name: String should match pattern"
        if tool.get("strict"):
            yield from _schema_faults(tool.get("input_schema"), f"tools.{index}.input_schema")
    choice = body.get("tool_choice", {"type": "auto"})
    if choice.get("type") in {"any", "tool"}:
        yield 'tool_choice: type "tool" and "any" are not supported for this model'
    if choice.keys() - {"type", "disable_parallel_tool_use"}:
        yield "tool_choice: Extra inputs are not permitted"
    thinking = body.get("thinking", {"type": "adaptive"})
    if thinking.get("type") != "adaptive" or thinking.keys() - {"type", "display"}:
        yield "thinking: only adaptive thinking is supported for this model"


def _schema_faults(schema: Any, place: str) -> Iterator[str]:
    if not isinstance(schema, dict) or schema.get("type") not in _SCHEMA_FIELDS:
        yield f"{place}: strict tools take no schema of this type"
        return
    if extra := schema.keys() - _SCHEMA_FIELDS[schema["type"]]:
        yield f"{place}: strict tools do not support {sorted(extra)}"
    if schema["type"] == "array":
        yield from _schema_faults(schema.get("items"), f"{place}.items")
    if schema["type"] == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{place}: additionalProperties must be false"
        for name, item in schema.get("properties", {}).items():
            yield from _schema_faults(item, f"{place}.{name}")
        if set(schema.get("required", [])) - schema.get("properties", {}).keys():
            yield f"{place}: required names an unknown property"


def _message_faults(messages: list[Any]) -> Iterator[str]:
    waiting: list[str] = []
    for index, message in enumerate(messages):
        place = f"messages.{index}"
        role = ("user", "assistant")[index % 2]
        if message.keys() != {"role", "content"}:
            yield f"{place}: role and content are the fields of a message"
        if message.get("role") != role:
            yield f'{place}: roles must alternate between "user" and "assistant"'
        content = message.get("content")
        if not isinstance(content, list) or not content:
            yield f"{place}: all messages must have non-empty content"
            return
        for number, block in enumerate(content):
            yield from _block_faults(block, role, f"{place}.content.{number}")
        answered = [block["tool_use_id"] for block in content if block.get("type") == "tool_result"]
        if sorted(answered) != sorted(waiting):
            yield f"{place}: `tool_use` ids were found without `tool_result` blocks: {waiting} answered by {answered}"
        results = [block for block in content if block["type"] != "compaction"]
        if any(block["type"] != "tool_result" for block in results[: len(answered)]):
            yield f"{place}: tool_result blocks must come first"
        waiting = [block["id"] for block in content if block.get("type") == "tool_use"]
    yield from claude_faults([block for message in messages for block in _images(message["content"])])
    if messages[-1]["role"] != "user":
        yield "messages: This model does not support assistant message prefill."


def _images(content: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the image blocks of a message, also those in results."""
    for block in content:
        if block["type"] == "image":
            yield block
        elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from _images(block["content"])


def _block_faults(block: Any, role: str, place: str) -> Iterator[str]:
    kind = block.get("type")
    if kind not in _BLOCK_FIELDS:
        yield f"{place}: Input tag {kind!r} found"
        return
    if extra := block.keys() - _BLOCK_FIELDS[kind]:
        yield f"{place}: Extra inputs are not permitted: {sorted(extra)}"
    if (kind in {"tool_result", "image"}) != (role == "user") and kind not in {"text", "compaction"}:
        yield f"{place}: {kind} is not a block of the {role}"
    if kind == "text" and not block.get("text", "").strip():
        yield f"{place}: text content blocks must be non-empty"
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for number, inner in enumerate(block["content"]):
            if inner.get("type") not in {"text", "image"} or "cache_control" in inner:
                yield f"{place}.content.{number}: a result contains text and images"
            yield from _block_faults(inner, "user", f"{place}.content.{number}")
    if kind == "tool_use" and not (
        _NAME.fullmatch(block["id"]) and _NAME.fullmatch(block["name"]) and isinstance(block["input"], dict)
    ):
        yield f"{place}: tool_use needs an id, a name, and an object as input"


def _breakpoint_faults(body: dict[str, Any]) -> Iterator[str]:
    blocks = [*body.get("tools", []), *body.get("system", [])]
    blocks += [block for message in body["messages"] for block in message["content"]]
    marks = [block["cache_control"] for block in blocks if "cache_control" in block]
    if len(marks) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    lives = [mark.get("ttl", "5m") for mark in marks]
    if any(
        mark.get("type") != "ephemeral" or life not in {"5m", "1h"} for mark, life in zip(marks, lives, strict=True)
    ):
        yield "cache_control: type is 'ephemeral', ttl is '5m' or '1h'"
    if lives != sorted(lives):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def _signature_faults(body: dict[str, Any]) -> Iterator[str]:
    for index, message in enumerate(body["messages"]):
        for number, block in enumerate(message["content"]):
            text = block.get("thinking") if block["type"] == "thinking" else "redacted"
            sign = block.get("signature") or block.get("data")
            if block["type"] in {"thinking", "redacted_thinking"} and sign != signature(body, index, text):
                yield (
                    f"messages.{index}.content.{number}: Invalid `signature` in `thinking` block. "
                    "The block is bound to a different conversation."
                )
