"""The memory strategies by name. A strategy decides what the model sees of a state."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.errors import UsageError
from stackmem.core.neighbors import neighbor
from stackmem.core.strategy import MemoryStrategy

from .adaptive import adaptive
from .full import full, mem1, notes, truncate, window
from .stackheap import stackheap


class Rival:
    """The factory of a strategy that is there for comparison. The lab contains it, and loads it on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def factory(self) -> Callable[[str], MemoryStrategy]:
        strategy: Callable[[str], MemoryStrategy] = neighbor("lab: memory strategies")[self._name]
        return strategy

    def __call__(self, parameters: str) -> MemoryStrategy:
        return self.factory()(parameters)


STRATEGIES: dict[str, Callable[[str], MemoryStrategy]] = {
    "full": full,
    "adaptive": adaptive,
    "stackheap": stackheap,
    "stackheap_fork": Rival("stackheap_fork"),
    "stackheap_lossless": Rival("stackheap_lossless"),
    "stack": Rival("stack"),
    "heap": Rival("heap"),
    "isolated": Rival("isolated"),
    "fold": Rival("fold"),
    "agentfold": Rival("agentfold"),
    "boundary": Rival("boundary"),
    "clear": Rival("clear"),
    "clear_cold": Rival("clear_cold"),
    "clear_paying": Rival("clear_paying"),
    "compact": Rival("compact"),
    "compact_provider": Rival("compact_provider"),
    "condenser": Rival("condenser"),
    "context_editing": Rival("context_editing"),
    "dashboard": Rival("dashboard"),
    "episodes": Rival("episodes"),
    "expandable": Rival("expandable"),
    "handoff": Rival("handoff"),
    "hierarchical": Rival("hierarchical"),
    "letta": Rival("letta"),
    "mask": Rival("mask"),
    "mem1": mem1,
    "memory_dir": Rival("memory_dir"),
    "memory_files": Rival("memory_files"),
    "notes": notes,
    "rag": Rival("rag"),
    "rlm": Rival("rlm"),
    "rolling_summary": Rival("rolling_summary"),
    "self_compact": Rival("self_compact"),
    "structured_summary": Rival("structured_summary"),
    "summary": Rival("summary"),
    "truncate": truncate,
    "window": window,
}
"""Maps each name to a factory, which takes the text after the colon in ``--strategy NAME:PARAMETERS``."""


_MEMBERS = ("name", "tools", "prompt", "prefix_stable", "render", "upkeep")
"""The members of every ``MemoryStrategy``. The type checker checks ours, but not strategies from other packages."""


def open_strategy(spelled: str) -> MemoryStrategy:
    """Return the strategy for ``NAME`` or ``NAME:PARAMETERS``.

    Raises:
        UsageError: The name or a parameter is unknown (the message lists the known ones), or the object that a package
            registered under this name is not a strategy.
    """
    name, _, parameters = spelled.partition(":")
    if name not in STRATEGIES:
        raise UsageError(f"no strategy {name!r}; known: {', '.join(sorted(STRATEGIES))}")
    strategy = STRATEGIES[name](parameters)
    missing = [member for member in _MEMBERS if not hasattr(strategy, member)]
    if missing:
        without = " and no ".join(missing)
        raise UsageError(f"the strategy {name!r} has no {without}; fix or uninstall the package that provides it")
    return strategy
