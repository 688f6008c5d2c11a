"""Repairs the arguments of calls in a reply, if they have only one possible meaning, and reports each repair.

Text that breaks off is not repaired, because the missing part is unknown; the refusal then says where it breaks off.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import ReplyPart, ToolCall, ToolSpec
from stackmem.core.requests import AskModel
from stackmem.core.text import whole_value
from stackmem.providers.calls.argument_repair import mend_arguments

Json = dict[str, Any]

_FENCE = re.compile(r"\s*```\w*\s*(\{.*\})\s*```\s*", re.DOTALL)
_JUNK = re.compile(r'(?:\s|""|<[|｜][^<>]{1,40}[|｜]>|</?[a-z_]{1,20}>|```|[}\])])*')
"""Text that models write after complete arguments: quotes, end tokens, tags, fences and brackets that close nothing."""
_PYTHON = re.compile(r"\s*\{\s*'")
_ESCAPE = re.compile(r"""(?<!\\)(?:\\\\)*\\[^"\\/bfnrtu]""")
"""An escape that JSON does not have; whether it means itself or a character is open."""
_MAX_CHARS = 1_000_000
_MAX_OBJECTS = 8


def with_mended_arguments(reply: ModelReplied, request: AskModel) -> ModelReplied:
    """Return the reply with repaired arguments; ``repairs`` has a sentence for each repair."""
    if request.expects == "text":
        return reply
    parts: list[ReplyPart] = []
    notes: list[str] = []
    for part in reply.parts:
        spec = _visible_tool(part.name, request) if isinstance(part, ToolCall) else None
        if spec is None or not isinstance(part, ToolCall):
            parts.append(part)
            continue
        call = part
        parsed = _parsed(call.malformed) if call.malformed and reply.stop != "truncated" else None
        if parsed is not None:
            call = replace(call, arguments=parsed[0], malformed=None)
            notes.append(f"read the arguments of {call.name} without {parsed[1]}")
        call, more = mend_arguments(call, spec)
        notes += more
        parts.append(call)
    if not notes:
        return reply
    before = () if reply.repairs is UNSET else reply.repairs
    return replace(reply, parts=tuple(parts), repairs=(*before, *notes))


def _visible_tool(name: str, request: AskModel) -> ToolSpec | None:
    """Return the tool as the model sees it; the last one counts if two have the same name."""
    for tools in (request.announced, request.view.tools):
        for tool in reversed(tools):
            if tool.name == name:
                return tool
    return None


def _parsed(text: str) -> tuple[Json, str] | None:
    """Return the arguments in a text that is not JSON, and what was wrong with it."""
    if len(text) > _MAX_CHARS:
        return None
    fault = "what follows them"
    if fenced := _FENCE.fullmatch(text):
        text, fault = fenced[1], "the code fence around them"
    objects = _objects(text)
    if objects is not None and len(objects) > 1:
        objects, fault = _without_repeats(objects), "their repetition"
    if objects is None:
        read = _loose(text)
        objects, fault = ([read], "faults that have one meaning, such as a comma at the end") if read else (None, "")
    elif "\n" in text and fault == "what follows them" and _strict(text) is None and _ends_whole(text):
        fault = "unescaped line breaks"
    return (objects[0], fault) if objects is not None and len(objects) == 1 and _is_plain(objects[0]) else None


def _objects(text: str) -> list[Json] | None:
    """Return the objects that the text consists of, apart from junk; None if it contains anything else."""
    decoder = json.JSONDecoder(strict=False)  # accepts line breaks in strings
    objects: list[Json] = []
    position = len(text) - len(text.lstrip())
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict) or len(objects) == _MAX_OBJECTS:
            return None
        objects.append(value)
        junk = _JUNK.match(text, position)
        position = junk.end() if junk else position
    return objects or None


def _without_repeats(objects: list[Json]) -> list[Json]:
    """Servers send ``{}`` before the arguments, or the arguments twice."""
    different = [each for number, each in enumerate(objects) if each and each not in objects[:number]]
    return different or objects[:1]


def _strict(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _ends_whole(text: str) -> bool:
    return text.rstrip().endswith("}")


def _loose(text: str) -> Json | None:
    from stackmem.providers.calls.loose_json import object_extent, read_object

    position = text.find("{")
    if position < 0 or text[:position].strip() or (not _PYTHON.match(text) and _ESCAPE.search(text)):
        return None
    end, missing = object_extent(text[position:])
    if missing or (not end and '"' in text):
        return None
    read = read_object(text, position)
    junk = _JUNK.match(text, read[1]) if read is not None else None
    return read[0] if read is not None and junk is not None and junk.end() == len(text) else None


def _is_plain(value: Json) -> bool:
    """Return whether the value is JSON that every reader accepts: no NaN, nothing nested too deep."""
    try:
        json.dumps(whole_value(value), allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True
