"""What a tool call came to."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.network import NetworkRequest


class ToolOutcome(Struct, frozen=True):
    """A tool call's answer, as the model is shown it; a refusal is one too.

    Attributes:
        text: Valid text, cleaned and clipped.
        failed: The tool did not do what was asked.
        exit_code: Of a command; None where it was killed, and for the file tools.
        reason: Why a command was ended before its time: ``timeout``, ``memory``, ``processes``, ``disk``,
            ``output``, ``killed`` or ``interrupted``; empty otherwise.
        requests: What a command asked of the network, where it reaches listed hosts alone.
    """

    text: str
    failed: bool = False
    exit_code: int | None = None
    reason: str = ""
    requests: tuple[NetworkRequest, ...] = ()
