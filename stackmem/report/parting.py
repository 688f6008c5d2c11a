"""Where two runs part."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

from msgspec import Struct

from stackmem.core.facts import ModelReplied
from stackmem.trace.comparison import Comparison
from stackmem.trace.diff import counted_records
from stackmem.trace.record import Record

NOWHERE = Path()


class Parting(Struct, frozen=True, omit_defaults=True):
    """How much two runs share.

    Attributes:
        steps: Steps that both begin with; None where they never part.
        forked: They share the very records: one was forked from the other, or both from a third.
        differs_only_in: Kinds of volatile words that differ in what they share.

    """

    steps: int | None
    forked: bool
    differs_only_in: tuple[str, ...] = ()


def parting(
    one: Iterable[Record], other: Iterable[Record], histories: tuple[Path, Path] = (NOWHERE, NOWHERE)
) -> Parting | None:
    """Where they part; None where nothing differs.

    Runs that share records part where they were forked. Others part, as in ``stackmem diff``, where something else
    happens.

    Args:
        one, other: The records of each; read twice where they share none.
        histories: Where the files of each are kept.

    """
    steps = 0
    for shared, (first, second) in enumerate(zip_longest(one, other)):
        if first != second:
            return Parting(steps, forked=True) if shared else _unlike(one, other, Comparison(histories))
        steps += isinstance(first.event, ModelReplied)
    return None


def _unlike(one: Iterable[Record], other: Iterable[Record], comparison: Comparison) -> Parting | None:
    steps = 0
    for first, second in zip_longest(counted_records(one), counted_records(other)):
        if first is None or second is None or not comparison.equal(first.event, second.event):
            return Parting(steps, forked=False, differs_only_in=comparison.differs_only_in)
        steps += isinstance(first.event, ModelReplied)
    only = comparison.differs_only_in
    return Parting(None, forked=False, differs_only_in=only) if only else None
