"""Runs to measure: the events of a script as moments one second apart."""

from collections.abc import Iterable

from stackmem.core.facts import Event
from stackmem.review.measure.moments import Moment, moments
from tests.build import Played


def seen(events: Played | Iterable[Event], seconds: float = 1.0) -> list[Moment]:
    """Return the moments of a run with this interval between records, the first at second 1,000."""
    found = events.events if isinstance(events, Played) else events
    return list(moments((1_000.0 + number * seconds, event) for number, event in enumerate(found)))
