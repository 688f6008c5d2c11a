"""Finds calls that are JSON objects containing the tool's name: OpenAI's shape and its many variants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stackmem.core.guidance.lessons import FOREIGN_NAMES

from .found import MAX_TRIES, FoundCall, offered_name
from .loose_json import JsonText

MAX_CALLS = 50
NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
ARGUMENT_KEYS = (
    "arguments", "parameters", "args", "input", "params", "kwargs", "action_input", "tool_input", "inputs",
)  # fmt: skip
_WRAPPERS = ("function", "tool_call", "function_call", "call", "tool_calls", "tool_use", "function_calls", "calls")
_EXTRA_KEYS = {"type", "id", "index", "thought", "thoughts", "reasoning", "explanation", "description", "call_id",
               "tool_call_id"}  # fmt: skip


def json_calls(
    read: JsonText, offered: frozenset[str], occupied: list[tuple[int, int]], *, any_name: bool
) -> Iterator[FoundCall]:
    """Yield the calls in the JSON objects of a text.

    ``occupied`` are spans of the text that belong to other calls. ``any_name`` says whether to accept objects of
    exactly a call's shape even if their tool is not offered.
    """
    position, tries = read.text.find("{"), 0
    spans = iter(sorted(occupied))
    span = next(spans, None)
    while position >= 0 and tries < MAX_TRIES:
        while span is not None and span[1] <= position:
            span = next(spans, None)
        if span is not None and span[0] <= position:
            position = read.text.find("{", span[1])
            continue
        tries += 1
        parsed = read.object_at(position)
        if parsed is None:
            position = read.text.find("{", position + 1)
            continue
        value, end, mended = parsed
        form = "JSON with mended syntax" if mended else "JSON"
        for number, (name, arguments) in enumerate(_in_object(value, offered, any_name)):
            # If one object lists several calls, the first one counts: the machine takes one call per reply.
            yield FoundCall(end + number - 1 if number else position, end + number, name, arguments, form)
        position = read.text.find("{", end)


def _in_object(value: Any, offered: frozenset[str], any_name: bool, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for item in value[:MAX_CALLS]:
            yield from _in_object(item, offered, any_name, depth + 1)
        return
    if not isinstance(value, dict) or depth > 3:
        return
    shaped = _shaped(value, offered, any_name)
    if shaped is not None:
        yield shaped
        return
    for key in _WRAPPERS:
        if isinstance(value.get(key), dict | list):
            yield from _in_object(value[key], offered, any_name, depth + 1)
            return
    if len(value) == 1:
        ((key, inner),) = value.items()
        if offered_name(key, offered) in offered and isinstance(inner, dict):
            yield offered_name(key, offered), inner


def _shaped(value: dict[str, Any], offered: frozenset[str], any_name: bool) -> tuple[str, Any] | None:
    """Return the name and arguments of an object shaped like a call."""
    key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if key is None:
        return None
    name = offered_name(value[key], offered)
    field = next((field for field in ARGUMENT_KEYS if field in value), None)
    if field is not None and isinstance(value[field], dict | str | list | None):
        exact = {key, field} >= value.keys() - _EXTRA_KEYS
        if name in offered or name in FOREIGN_NAMES or (any_name and exact and key != "action"):
            return name, _arguments(value[field])
        return None
    if name not in offered:
        return None
    return name, {field: inner for field, inner in value.items() if field != key and field not in {"type", "id"}}


def _arguments(raw: Any) -> Any:
    if isinstance(raw, list):
        return raw[0] if len(raw) == 1 and isinstance(raw[0], dict) else {"": raw} if raw else {}
    return {} if raw is None else raw
