"""A JSON schema of one tool call, for servers that can keep a reply to a schema.

The call reader reads the JSON object as it reads one that a model wrote on its own.
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
"""Texts of any length. The limit of the reply ends them, and a reply that repeats itself is cut."""
_MOST_ITEMS = 8
_ALREADY_BOUNDED = {"enum", "const", "maxLength", "pattern", "format"}
_DEPTH = 6


def call_schema(tools: Iterable[ToolSpec]) -> Json:
    """The schema of an object with the name of one of ``tools`` and its arguments.

    Small models can write one string until their window is full, so strings and lists have a greatest length, but not
    the text of a file. llama.cpp refuses a repetition of more than 2,000.
    """
    return {"anyOf": [_call(tool) for tool in tools]}


def schema_format(schema: Json) -> Json:
    """The field ``response_format`` of a request, which keeps its reply to a schema."""
    return {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}}


def was_cut(call: ToolCall, tools: Iterable[ToolSpec]) -> bool:
    """Whether a string of the call is as long as the schema lets it be, so that its end may be missing."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None or not isinstance(call.arguments, dict):
        return False
    fields = _call(tool)["properties"]["arguments"].get("properties", {})
    given = ((fields.get(name), value) for name, value in call.arguments.items() if isinstance(value, str))
    return any(field is not None and len(value) == field.get("maxLength") for field, value in given)


def _call(tool: ToolSpec) -> Json:
    arguments = _bounded({"type": "object", **shown_schema(tool)}, "", _DEPTH)
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _bounded(schema: Json, name: str, depth: int) -> Json:
    """The schema without descriptions, with a greatest length for each string and list."""
    if not depth:
        return {}
    kept = {key: value for key, value in schema.items() if key not in {"description", "title", "default", "examples"}}
    kind = kept.get("type")
    is_string = kind == "string" or (isinstance(kind, list) and "string" in kind)
    if is_string and name not in _TEXTS and not _ALREADY_BOUNDED & kept.keys():
        kept["maxLength"] = _NAME_CHARS if name in _NAMES else _SENTENCE_CHARS
    if isinstance(items := kept.get("items"), dict):
        kept["items"] = _bounded(items, name, depth - 1)
        kept.setdefault("maxItems", _MOST_ITEMS)
    properties = kept.pop("properties", None)
    if isinstance(properties, dict):
        kept["properties"] = {
            key: _bounded(value, key, depth - 1) for key, value in properties.items() if isinstance(value, dict)
        }
    return kept
