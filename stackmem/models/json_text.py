"""Text and JSON as they come from a model: made safe to store, or told to be malformed."""

from __future__ import annotations

from typing import Any

from stackmem.core.strict_json import strict_value
from stackmem.core.text import whole, whole_value

MOST_TOKENS = 1 << 40
"""A server that counts more tokens than this has not counted; the number would break every sum of costs."""


def parse_arguments(text: str) -> tuple[Any, str | None]:
    """``(value, None)``, or ``(None, text)`` where a call's arguments are no JSON. No text at all is ``{}``."""
    if not text.strip():
        return {}, None
    try:
        return whole_value(strict_value(text)), None
    except (ValueError, RecursionError):
        return None, whole(text)
