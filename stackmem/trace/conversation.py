"""The requests of a conversation in its trace."""

from __future__ import annotations

from collections.abc import Iterable

from stackmem.core.person_facts import PersonSaid, WordsGiven
from stackmem.core.state import State

from .record import Record
from .walk import state_after


def before_request(records: Iterable[Record], count: int) -> tuple[int, str] | None:
    """The number of the record before the last request (2: the last but one), and its text; None without one."""
    found: list[tuple[int, str]] = []
    state = State()
    for record in records:
        before, state = state, state_after(state, record)
        asked = state.session.requests if state.session else 0
        if isinstance(record.event, PersonSaid | WordsGiven) and before.session and asked > before.session.requests:
            found.append((record.seq - 1, record.event.text))
    return found[-count] if 0 < count <= len(found) else None
