"""What a tool call came to."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.network import NetworkRequest


class ToolOutcome(Struct, frozen=True):
    """A tool call's answer, as the model is shown it; a refusal is one too."""

    text: str  # valid text, cleaned and clipped
    failed: bool = False  # the tool did not do what was asked
    exit_code: int | None = None  # of a command; None where it was killed, and for the file tools
    # why a command was ended before its time: ``timeout``, ``memory``, ``processes``, ``disk``, ``output``, ``killed``
    # or ``interrupted``; empty otherwise
    reason: str = ""
    # what a command asked of the network, where it reaches listed hosts alone
    requests: tuple[NetworkRequest, ...] = ()
