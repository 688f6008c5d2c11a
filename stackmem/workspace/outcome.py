"""The result of a tool call."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from stackmem.core.images import Images
from stackmem.core.network import NetworkRequest, SearchBill


class ToolOutcome(Struct, frozen=True):
    """A tool call's answer for the model, including refusals."""

    text: str  # valid text, cleaned and clipped
    failed: bool = False  # the tool did not do what was requested
    exit_code: int | None = None  # exit code of a command; None if it was killed, and for the file tools
    # why a command was ended early: ``timeout``, ``memory``, ``processes``, ``disk``, ``output``, ``killed`` or
    # ``interrupted``; empty otherwise
    reason: str = ""
    # network requests of a command that can only reach listed hosts
    requests: tuple[NetworkRequest, ...] = ()
    job: int = 0  # number of the job that the call started
    ended: tuple[int, ...] = ()  # numbers of the jobs that the answer reports as ended
    images: Images = UNSET  # shown after the text, which names them
    search: SearchBill | UnsetType = UNSET  # cost of a web search
