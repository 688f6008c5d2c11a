"""What the oracle adds: everything that any prompt of its life has shown."""

from __future__ import annotations

import copy

from .knowledge import SEEN, TOLD, Held, Knowledge
from .lines import Planned, topic_of


class Remembered:
    """Facts, changes, dead ends, plans and progress, grown from prompt to prompt."""

    def __init__(self) -> None:
        self._facts: dict[str, Held] = {}
        self._changed: dict[str, int] = {}
        self._excluded: dict[str, set[str]] = {}
        self._candidates: dict[str, tuple[str, ...]] = {}
        self._plan: dict[int, Planned] = {}
        self._done = 0

    def with_all(self, known: Knowledge) -> Knowledge:
        """``known`` with what was ever seen besides; ``known`` itself stays as it is."""
        self._absorb(known)
        fuller = copy.copy(known)
        fuller.facts = dict(known.facts)
        for key, held in self._facts.items():
            own = known.facts.get(key)
            if (own is None or own.at < held.at) and (key, held.value) not in known.wrong:
                fuller.facts[key] = Held(held.value, held.at, 0, TOLD)
        fuller.excluded = {key: dict.fromkeys(values, known.order) for key, values in self._excluded.items()}
        fuller.candidates = {**self._candidates, **known.candidates}
        fuller.plan = {**self._plan, **known.plan}
        fuller.done, fuller.progress_seen = max(self._done, known.done), known.progress_seen or self._done > 0
        return fuller

    def _absorb(self, known: Knowledge) -> None:
        for scope, (at, _) in known.changed.items():
            if at <= self._changed.get(scope, 0):
                continue
            self._changed[scope] = at
            for key in [key for key in {*self._facts, *self._excluded} if scope in (key, topic_of(key))]:
                self._excluded.pop(key, None)
                if key in self._facts and self._facts[key].at < at:
                    del self._facts[key]
        for key, held in known.facts.items():
            since = max(self._changed.get(key, 0), self._changed.get(topic_of(key), 0))
            # What is older than a change stands before the line that tells of it, and is not shown without it.
            at = max(held.at, since) if held.origin == SEEN else held.at
            if at >= max(since, self._facts[key].at if key in self._facts else 0):
                self._facts[key] = Held(held.value, at, held.order, held.origin, held.source)
        for key in known.excluded:
            self._excluded.setdefault(key, set()).update(known.excluded_now(key))
        self._candidates.update(known.candidates)
        self._plan.update(known.plan)
        self._done = max(self._done, known.done)
