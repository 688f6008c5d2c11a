"""What the result of a tool call tells a model or a program, whatever kinds of content it is made of.

Rule: nothing is left out in silence. What is no text becomes a line in brackets that says what it was.
"""

from __future__ import annotations

import json
from typing import Any

from .own_tools import ToolFailed

_DETAIL_CHARS = 2_000


def told(result: Any) -> Any:
    """The structured content where it says all, else every part as text; with both, an object of the two.

    Raises:
        ToolFailed: The server says that the call failed.
    """
    lines = [_line(part) for part in result.content]
    if result.is_error:
        raise ToolFailed("\n".join(lines)[:_DETAIL_CHARS] or "the server says that it failed")
    structured = result.structured_content
    if structured is None:
        return "\n".join(lines)
    value = structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
    if _repeats(result.content, value, structured):
        return value
    return {"content": "\n".join(lines), "structured_content": structured}


def _repeats(content: Any, value: Any, structured: Any) -> bool:
    """Whether the parts say nothing but what the structured content says, as servers are asked to do."""
    if any(getattr(part, "type", "") != "text" for part in content):
        return False
    texts = [_read(part.text) for part in content]
    whole = _read("".join(part.text for part in content))
    return not texts or whole in (value, structured) or texts == value or [part.text for part in content] == [value]


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
            about = f": {part.description}" if part.description else ""
            return f"[resource link: {part.name}, {_named(part)}{about}]"
        case "resource":
            held = part.resource
            text = getattr(held, "text", None)
            if text is not None:
                return f"[resource: {_named(held)}]\n{text}"
            return f"[resource: {_named(held)}, {_size(held.blob):,} bytes]"
        case _:
            return f"[{kind}]"


def _named(resource: Any) -> str:
    return ", ".join(filter(None, (str(resource.uri), resource.mime_type)))


def _size(base64: str) -> int:
    """Bytes behind a text of base64."""
    return len(base64.rstrip("=")) * 3 // 4
