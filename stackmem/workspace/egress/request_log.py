"""Counts the network requests of commands by kind, in a bounded number of rows."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.network import NetworkRequest

from .hosts import joined

MAX_ROWS = 100
"""Maximum rows per command. Further kinds are combined in two rows without a host, for allowed and refused requests."""
_OTHERS = "was one of more kinds than are told apart"


def subject(host: str, port: int) -> str:
    """Return the host with its port, or a general term if the host is unknown."""
    return joined(host, port) if host and port else host or "the request"


class OpenRequest(Struct):
    """A request in progress."""

    host: str = ""
    port: int = 0
    method: str = ""
    allowed: bool = False
    why: str = ""
    sent: int = 0
    received: int = 0
    spoke: bool = False  # whether any data arrived; a bare connection is not a request
    answered: bool = False  # the answer or tunnel has started, so an error message can no longer be sent

    @property
    def subject(self) -> str:
        """Subject of a sentence about the request."""
        return subject(self.host, self.port)


class RequestLog:
    """The requests of one command."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int, str, bool, str], list[int]] = {}

    def enter(self, request: OpenRequest) -> None:
        """Record a request that has ended."""
        if not request.spoke and not request.why:
            return
        key = (request.host, request.port, request.method[:20], request.allowed, request.why)
        if key not in self._rows and len(self._rows) >= MAX_ROWS:
            key = ("", 0, "", request.allowed, _OTHERS)
        row = self._rows.setdefault(key, [0, 0, 0])
        for index, more in enumerate((1, request.sent, request.received)):
            row[index] += more

    def requests(self) -> tuple[NetworkRequest, ...]:
        """Return the rows in the order in which the first request of each kind ended."""
        return tuple(NetworkRequest(*key, *row) for key, row in self._rows.items())


def refusals(requests: tuple[NetworkRequest, ...]) -> tuple[str, ...]:
    """Return one sentence for each of the first three kinds of refused requests, and how many more there were."""
    sentences = [f"{subject(each.host, each.port)} {each.why}" for each in requests if not each.allowed]
    more = len(sentences) - 3
    return (*sentences[:3], *((f"{more} more kinds of requests were refused",) if more > 0 else ()))
