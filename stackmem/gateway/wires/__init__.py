"""The wire formats that the gateway reads: one file each."""

from __future__ import annotations

from .chat import CHAT
from .messages import MESSAGES
from .responses import RESPONSES
from .wire import Wire

WIRES: tuple[Wire, ...] = (MESSAGES, CHAT, RESPONSES)


def wire_of(path: str) -> Wire | None:
    """The format that a path asks for a reply in; None for every other path."""
    bare = path.rstrip("/")
    return next((wire for wire in WIRES if bare.endswith(wire.paths)), None)
