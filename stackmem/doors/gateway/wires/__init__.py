"""Wire formats that the gateway reads, one module each."""

from __future__ import annotations

from .chat import CHAT
from .messages import MESSAGES
from .responses import RESPONSES
from .wire import WireFormat

WIRES: tuple[WireFormat, ...] = (MESSAGES, CHAT, RESPONSES)

_ENDS = [(wire, tuple(f"/v1{path}" for path in wire.paths)) for wire in WIRES]


def wire_of(path: str) -> WireFormat | None:
    """Return the format of a path that requests a reply; None for other paths, such as ``/v1/threads/ID/messages``."""
    bare = path.rstrip("/")
    return next((wire for wire, ends in _ENDS if bare in wire.paths or bare.endswith(ends)), None)
