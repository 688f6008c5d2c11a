"""What two runs of one trial must have in common, as digests: what happened, and what the model was shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from stackmem.core.facts import ClockRead, Event

_encoder = msgspec.json.Encoder(order="deterministic")


class Fingerprint:
    """Takes every event of a run in turn.

    An event counts as the trace writes it, without the record around it (number, time, chain). What a clock said counts
    as nothing: ``ClockRead`` is left out, as it differs between any two runs.
    """

    def __init__(self) -> None:
        self._events = hashlib.sha256()
        self._prompts = hashlib.sha256()

    def add(self, event: Event) -> None:
        if isinstance(event, ClockRead):
            return
        self._events.update(_encoder.encode(event) + b"\n")
        prompt = getattr(event, "prompt_digest", None)  # of whatever answers a prompt
        if prompt is not None:
            self._prompts.update(prompt.encode() + b"\n")

    @property
    def events(self) -> str:
        return self._events.hexdigest()

    @property
    def prompts(self) -> str:
        return self._prompts.hexdigest()


def fingerprint(events: Iterable[Event]) -> str:
    """SHA-256 over what happened."""
    found = Fingerprint()
    for event in events:
        found.add(event)
    return found.events
