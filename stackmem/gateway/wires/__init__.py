"""The wire formats that the gateway reads: one file each."""

from __future__ import annotations

from .chat import CHAT
from .messages import MESSAGES
from .responses import RESPONSES
from .wire import WireFormat

WIRES: tuple[WireFormat, ...] = (MESSAGES, CHAT, RESPONSES)


def wire_of(path: str) -> WireFormat | None:
    """The format that a path asks for a reply in; None for every other path."""
    bare = path.rstrip("/")
    return next((wire for wire in WIRES if bare.endswith(wire.paths)), None)
