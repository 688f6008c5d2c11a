"""The memory strategies by name. A strategy decides what the model sees of a state."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import UsageError

from .adaptive import adaptive
from .agentfold import agentfold
from .boundary import boundary
from .frames import fold, heap, isolated, stack, stackheap_fork, stackheap_lossless
from .full import full, mem1, notes, truncate, window
from .letta import letta
from .rag import rag
from .results import clear, clear_cold, expandable, mask, memory_dir
from .stackheap import stackheap
from .summaries import compact, condenser, handoff, hierarchical, rolling_summary, structured_summary, summary

STRATEGIES: dict[str, Callable[[str], MemoryStrategy]] = {
    "full": full,
    "adaptive": adaptive,
    "stackheap": stackheap,
    "stackheap_fork": stackheap_fork,
    "stackheap_lossless": stackheap_lossless,
    "stack": stack,
    "heap": heap,
    "isolated": isolated,
    "fold": fold,
    "agentfold": agentfold,
    "boundary": boundary,
    "clear": clear,
    "clear_cold": clear_cold,
    "compact": compact,
    "condenser": condenser,
    "expandable": expandable,
    "handoff": handoff,
    "hierarchical": hierarchical,
    "letta": letta,
    "mask": mask,
    "mem1": mem1,
    "memory_dir": memory_dir,
    "notes": notes,
    "rag": rag,
    "rolling_summary": rolling_summary,
    "structured_summary": structured_summary,
    "summary": summary,
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
