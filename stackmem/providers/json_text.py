"""Safe handling of text and JSON from models."""

from __future__ import annotations

import json
from typing import Any

from stackmem.core.strict_json import strict_value
from stackmem.core.text import whole, whole_value

MAX_TOKENS = 1 << 40
"""Larger counts are bogus, and would break every sum of costs."""
_NOTED_CHARS = 200


def left_out(subject: str, content: Any) -> str:
    """Return the note about a piece of a reply that no part of a message can contain."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return f"left out {subject}, {len(text):,} characters: {whole(text[:_NOTED_CHARS])}"


def parse_arguments(text: str) -> tuple[Any, str | None]:
    """Parse a call's arguments: ``(value, None)``, or ``(None, text)`` if they are not JSON. Empty text is ``{}``."""
    if not text.strip():
        return {}, None
    try:
        return whole_value(strict_value(text)), None
    except (ValueError, RecursionError):
        return None, whole(text)
