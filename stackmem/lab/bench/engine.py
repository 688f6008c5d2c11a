"""The interface of engines, which run trials in parallel and answer each with a report.

The runner decides which trials run, when, and how often.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from .trial import Job, Row


class TrialDone(Struct, frozen=True):
    """A trial finished with a row."""

    row: Row


class Throttled(Struct, frozen=True):
    """The provider of a running trial reported a rate limit."""

    id: str


class Lost(Struct, frozen=True):
    """A worker disappeared while running a trial."""

    id: str
    reason: str
    final: bool = False  # whether the trial has already been retried


Report = TrialDone | Throttled | Lost


class Engine(Protocol):
    """Runs trials. After ``close`` none of its processes is left."""

    @property
    def places(self) -> int:
        """Return how many trials can run in parallel."""

    def submit(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[Report]:
        """Return new reports, waiting at most ``seconds`` for the first."""

    def close(self) -> None: ...
