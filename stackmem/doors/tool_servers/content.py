"""Converts the result of an MCP tool call, whatever its content types, for a model or a program.

Rule: Nothing is dropped silently. Content that is not text becomes a line in brackets that describes it.
"""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import suppress
from typing import Any

from stackmem.core.schemas.json_schema import first_fault, schema_error
from stackmem.settings.tools.own_tools import Illustrated, ToolFailed

_DETAIL_CHARS = 2_000
_MAX_IMAGES, _MAX_IMAGE_CHARS = 10, 48 << 20


def illustrated(result: Any, schema: Any = None) -> Any:
    """Return what ``result_content`` returns, with the images of the result if there are any."""
    value = result_content(result, schema)
    pictures: list[bytes] = []
    for part in result.content:
        if getattr(part, "type", "") == "image" and len(part.data) <= _MAX_IMAGE_CHARS and len(pictures) < _MAX_IMAGES:
            with suppress(ValueError):
                pictures.append(b64decode(part.data, validate=True))
    return Illustrated(value, tuple(pictures)) if pictures else value


def result_content(result: Any, schema: Any = None) -> Any:
    """Return the structured content if it is complete, otherwise all parts as text, or an object with both.

    ``schema`` is the schema that the tool declares for its structured content. A result that does not match it is
    returned as text with a note. Raise ToolFailed if the server reports that the call failed.
    """
    lines = [_line(part) for part in result.content]
    if result.is_error:
        raise ToolFailed("\n".join(lines)[:_DETAIL_CHARS] or "the server says that it failed")
    structured = result.structured_content
    if schema is not None and (fault := _mismatch(structured, schema)):
        text = "\n".join(lines) or ("" if structured is None else json.dumps(structured, ensure_ascii=False))
        return f"{text}\n[note: the result does not match the tool's output schema: {fault}]".strip()
    if structured is None:
        return "\n".join(lines)
    value = structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
    if _repeats(result.content, value, structured):
        return value
    return {"content": "\n".join(lines), "structured_content": structured}


def _mismatch(structured: Any, schema: Any) -> str:
    """Return why structured content does not match its schema. Empty if it does, or if the schema is unusable."""
    if structured is None:
        return "it has no structured content"
    return "" if schema_error(schema) else first_fault(structured, schema)


def _repeats(content: Any, value: Any, structured: Any) -> bool:
    """Return whether the parts only repeat the structured content, as the protocol recommends."""
    if any(getattr(part, "type", "") != "text" for part in content):
        return False
    texts = [_read(part.text) for part in content]
    joined = _read("".join(part.text for part in content))
    return not texts or joined in (value, structured) or texts == value or [part.text for part in content] == [value]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _line(part: Any) -> str:
    kind = getattr(part, "type", "?")
    match kind:
        case "text":
            return str(part.text)
        case "image" | "audio":
            return f"[{kind}: {part.mime_type}, {_size(part.data):,} bytes]"
        case "resource_link":
            description = f": {part.description}" if part.description else ""
            return f"[resource link: {part.name}, {_resource_label(part)}{description}]"
        case "resource":
            resource = part.resource
            text = getattr(resource, "text", None)
            if text is not None:
                return f"[resource: {_resource_label(resource)}]\n{text}"
            return f"[resource: {_resource_label(resource)}, {_size(resource.blob):,} bytes]"
        case _:
            return f"[{kind}]"


def _resource_label(resource: Any) -> str:
    return ", ".join(filter(None, (str(resource.uri), resource.mime_type)))


def _size(base64: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(base64.rstrip("=")) * 3 // 4
