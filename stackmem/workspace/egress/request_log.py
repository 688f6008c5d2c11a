"""What the commands asked of the network, counted by kind, in a bounded number of rows."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.network import NetworkRequest

from .hosts import joined

MOST_ROWS = 100
"""Of one command; what more there is counts in one row without a host, allowed and refused apart."""
_OTHERS = "was one of more kinds than are told apart"


def subject(host: str, port: int) -> str:
    """A host with its port, or the request where it names none."""
    return joined(host, port) if host and port else host or "the request"


class OpenRequest(Struct):
    """One request, as far as it has come."""

    host: str = ""
    port: int = 0
    method: str = ""
    allowed: bool = False
    why: str = ""
    sent: int = 0
    received: int = 0
    spoke: bool = False  # anything came at all; who only connected asked for nothing
    answered: bool = False  # the host's answer, or its tunnel, has begun: nothing of ours can be said any more

    @property
    def subject(self) -> str:
        """What a sentence about it is about."""
        return subject(self.host, self.port)


class RequestLog:
    """The requests of one command."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int, str, bool, str], list[int]] = {}

    def enter(self, asked: OpenRequest) -> None:
        """Take note of a request that has ended."""
        if not asked.spoke and not asked.why:
            return
        key = (asked.host, asked.port, asked.method[:20], asked.allowed, asked.why)
        if key not in self._rows and len(self._rows) >= MOST_ROWS:
            key = ("", 0, "", asked.allowed, _OTHERS)
        row = self._rows.setdefault(key, [0, 0, 0])
        for index, more in enumerate((1, asked.sent, asked.received)):
            row[index] += more

    def requests(self) -> tuple[NetworkRequest, ...]:
        """The rows, in the order in which the first of each kind ended."""
        return tuple(NetworkRequest(*key, *row) for key, row in self._rows.items())


def refusals(requests: tuple[NetworkRequest, ...]) -> tuple[str, ...]:
    """What was refused, a sentence for each kind, the first three of them."""
    told = [f"{subject(each.host, each.port)} {each.why}" for each in requests if not each.allowed]
    more = len(told) - 3
    return (*told[:3], *((f"{more} more kinds of requests were refused",) if more > 0 else ()))
