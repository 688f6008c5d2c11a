"""What the model sees of a state: one file per strategy."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import UsageError

from .full import full
from .stackheap import stackheap

STRATEGIES: dict[str, Callable[[str], MemoryStrategy]] = {
    "full": full,
    "stackheap": stackheap,
}
"""Name to maker; the maker takes what stands after the colon in ``--strategy NAME:PARAMETERS``."""


def open_strategy(spelled: str) -> MemoryStrategy:
    """The strategy that ``NAME`` or ``NAME:PARAMETERS`` names.

    Raises:
        UsageError: The name or a parameter is unknown; the message lists the known ones.

    """
    name, _, parameters = spelled.partition(":")
    if name not in STRATEGIES:
        raise UsageError(f"no strategy {name!r}; known: {', '.join(sorted(STRATEGIES))}")
    return STRATEGIES[name](parameters)
