"""A JSON value under change: each container on the way to a change is copied once, and changed in place from then on.

Rule 1: what it was made from is never changed, and neither is what was put into it.
Rule 2: a container that somebody else was given is copied again before it changes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .paths import MISSING, Path, index_of, looked_up


class Draft:
    """One value; a thousand changes in a long list cost one copy of it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._own: dict[int, Any] = {}  # containers made here, by id; one lies in no other that is not here

    def put(self, path: Path, new: Any) -> None:
        """Set what stands there; what lies on the way is made, what is no object or list is replaced.

        Behind the end of a list is its end.
        """
        if not path:
            self.value = new
            return
        holder = self.value = self._fit(self.value, path[0])
        for step, after in pairwise(path):
            inner = self._fit(looked_up(holder, (step,)), after)
            _store(holder, step, inner)
            holder = inner
        _store(holder, path[-1], new)

    def take(self, path: Path) -> None:
        """Take away what stands there, which something must."""
        *way, last = path
        holder = self.value = self._copied(self.value)
        for step in way:
            inner = self._copied(looked_up(holder, (step,)))
            _store(holder, step, inner)
            holder = inner
        del holder[index_of(last) if isinstance(holder, list) else str(last)]

    def give(self, value: Any) -> None:
        """Note that somebody else has ``value`` now, and may keep it."""
        if id(value) in self._own:
            self._own.clear()

    def _fit(self, value: Any, step: str | int) -> Any:
        """A container of one's own in which the step can be made."""
        if isinstance(value, list) and index_of(step) is not None:
            return self._copied(value)
        if isinstance(step, int) and not isinstance(value, dict):
            return self._copied([])
        return self._copied(value if isinstance(value, dict) else {})

    def _copied(self, value: Any) -> Any:
        if id(value) in self._own:
            return value
        copy = value.copy()
        self._own[id(copy)] = copy
        return copy


def _store(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(holder, dict):
        holder[str(step)] = value
    elif looked_up(holder, (step,)) is MISSING:
        holder.append(value)
    else:
        holder[index_of(step)] = value
