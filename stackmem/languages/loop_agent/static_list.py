"""The list in ``static:[...]``."""

from __future__ import annotations

import json
from typing import Any


def static_list(text: str) -> list[Any] | None:
    """The JSON list; None where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None
