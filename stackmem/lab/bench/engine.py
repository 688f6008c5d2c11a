"""What makes trials: a few at a time, each answered by a report. The runner decides which, when and how often."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from .trial import Job, Row


class TrialDone(Struct, frozen=True):
    """A trial has its row."""

    row: Row


class Throttled(Struct, frozen=True):
    """The provider of a trial that goes on said that it is asked too much."""

    id: str


class Lost(Struct, frozen=True):
    """A worker went away with its trial."""

    id: str
    why: str
    final: bool = False  # it was tried again already


Report = TrialDone | Throttled | Lost


class Engine(Protocol):
    """Where trials are made. After ``close`` none of its processes is left."""

    @property
    def places(self) -> int:
        """How many trials it takes at once."""

    def submit(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[Report]:
        """What has happened, waiting at most so long for the first of it."""

    def close(self) -> None: ...
