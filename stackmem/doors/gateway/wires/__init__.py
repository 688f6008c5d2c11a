"""Wire formats that the gateway reads, one module each."""

from __future__ import annotations

import re

from .chat import CHAT
from .gemini import GEMINI
from .messages import MESSAGES
from .responses import RESPONSES
from .wire import WireFormat

WIRES: tuple[WireFormat, ...] = (MESSAGES, CHAT, RESPONSES, GEMINI)

_GEMINI = re.compile(r"/models/([^/:]+):(?:generateContent|streamGenerateContent)/?$")
_ENDS = [(wire, tuple(f"/v1{path}" for path in wire.paths)) for wire in WIRES]


def wire_of(path: str) -> WireFormat | None:
    """Return the format of a path that requests a reply; None for other paths, such as ``/v1/threads/ID/messages``."""
    if _GEMINI.search(path):
        return GEMINI
    bare = path.rstrip("/")
    return next((wire for wire, ends in _ENDS if bare in wire.paths or bare.endswith(ends)), None)


def model_in(path: str) -> str:
    """Return the model that a path names, as ``gemini/NAME``; empty for formats with the model in the body."""
    match = _GEMINI.search(path)
    return f"gemini/{match[1]}" if match else ""
