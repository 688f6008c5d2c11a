"""Finds the results that an agent would have to look up again, because a strategy removed them from its prompt.

Every strategy pays by the same rule. A step uses a fact that the prompt lacks, or that another frame found. Then the
call that returned the fact is repeated before the step, with the same result, in a given share of the cases. Whether a
use belongs to that share depends only on the place and the fact, so all strategies have the same luck.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from stackmem.core.facts import ToolReturned
from stackmem.core.messages import ToolCall
from stackmem.review.measure.first_loss import told_and_used
from stackmem.review.measure.moments import Moment
from stackmem.review.measure.phases import steps_of

Lookup = tuple[ToolCall, ToolReturned]


def luck(position: int, fact: str) -> float:
    """Return a number in [0, 1) that depends only on the place and the fact."""
    return int.from_bytes(hashlib.sha256(f"{position} {fact}".encode()).digest()[:6], "big") / 2**48


class Lookups:
    """The facts that each step of a flat run uses, and the call that returned each of them."""

    def __init__(self, run: Sequence[Moment]) -> None:
        calls = {id(moment): call for step in steps_of(run)[1] for call, moment in step.answers()}
        self._sources: dict[str, Lookup] = {}
        self._used: dict[int, frozenset[str]] = {}
        for moment, keys, used in told_and_used(run):
            call = calls.get(id(moment))
            if call is not None and isinstance(moment.event, ToolReturned):
                self._sources.update(dict.fromkeys(keys, (call, moment.event)))
            if used:
                self._used[moment.seq] = used

    def due(self, moment: Moment, share: float, visible: Callable[[str], bool]) -> Iterator[Lookup]:
        """Yield what a step looks up again: each source once, in a fixed order."""
        repeated = set[str]()
        for fact in sorted(self._used.get(moment.seq, ())):
            source = self._sources.get(fact)
            if source is None or visible(fact) or source[0].id in repeated:
                continue
            if luck(moment.after.step, fact) < share:
                repeated.add(source[0].id)
                yield source
