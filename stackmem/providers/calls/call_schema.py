"""Builds a JSON schema of one tool call, for servers that can constrain replies to a schema.

The call reader parses the resulting JSON like any JSON call that a model writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stackmem.core.messages import ToolCall, ToolSpec
from stackmem.core.tool_schemas import shown_schema

Json = dict[str, Any]

_NAME_CHARS = 200
_NAMES = {"name", "path", "pattern", "glob", "source"}
_SENTENCE_CHARS = 1_000
_TEXTS = {"content", "old_string", "new_string", "result", "context"}
"""Text fields without a length limit. The reply limit ends them, and repetitive replies are cut."""
_MAX_ITEMS = 8
_ALREADY_BOUNDED = {"enum", "const", "maxLength", "pattern", "format"}
_DEPTH = 6


def call_schema(tools: Iterable[ToolSpec]) -> Json:
    """Return the schema of an object with the name of one of ``tools`` and its arguments.

    Small models can repeat one string until their window is full, so strings and lists have a maximum length,
    except for file contents. llama.cpp refuses repetitions above 2,000.
    """
    return {"anyOf": [_call(tool) for tool in tools]}


def schema_format(schema: Json) -> Json:
    """Return the ``response_format`` field that constrains a reply to a schema."""
    return {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}}


def was_cut(call: ToolCall, tools: Iterable[ToolSpec]) -> bool:
    """Return whether a string reached its maximum length in the schema, so that its end may be missing."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None or not isinstance(call.arguments, dict):
        return False
    fields = _call(tool)["properties"]["arguments"].get("properties", {})
    strings = ((fields.get(name), value) for name, value in call.arguments.items() if isinstance(value, str))
    return any(field is not None and len(value) == field.get("maxLength") for field, value in strings)


def _call(tool: ToolSpec) -> Json:
    arguments = _bounded({"type": "object", **shown_schema(tool)}, "", _DEPTH)
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _bounded(schema: Json, name: str, depth: int) -> Json:
    """Copy a schema without descriptions, adding a maximum length to strings and lists."""
    if not depth:
        return {}
    copy = {key: value for key, value in schema.items() if key not in {"description", "title", "default", "examples"}}
    kind = copy.get("type")
    is_string = kind == "string" or (isinstance(kind, list) and "string" in kind)
    # A longer name or sentence of a small model is, in practice, a repetition.
    if is_string and name not in _TEXTS and not _ALREADY_BOUNDED & copy.keys():
        copy["maxLength"] = _NAME_CHARS if name in _NAMES else _SENTENCE_CHARS
    if isinstance(items := copy.get("items"), dict):
        copy["items"] = _bounded(items, name, depth - 1)
        # Without a maximum, a constrained list can be repeated like a string.
        copy.setdefault("maxItems", _MAX_ITEMS)
    properties = copy.pop("properties", None)
    if isinstance(properties, dict):
        copy["properties"] = {
            key: _bounded(value, key, depth - 1) for key, value in properties.items() if isinstance(value, dict)
        }
    return copy
