"""The memory strategies that exist for comparison, by name: those of other agents, and ours without some part."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.strategy import MemoryStrategy

from .agentfold import agentfold
from .at_provider import compact_provider, context_editing
from .boundary import boundary
from .clear_paying import clear_paying
from .dashboard import dashboard
from .episodes import episodes
from .frames import fold, heap, isolated, stack, stackheap_fork, stackheap_lossless
from .letta import letta
from .rag import rag
from .results import clear, clear_cold, expandable, mask, memory_dir, memory_files
from .rlm import rlm
from .self_compact import self_compact
from .summaries import compact, condenser, handoff, hierarchical, rolling_summary, structured_summary, summary

STRATEGIES: dict[str, Callable[[str], MemoryStrategy]] = {
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
    "clear_paying": clear_paying,
    "compact": compact,
    "compact_provider": compact_provider,
    "condenser": condenser,
    "context_editing": context_editing,
    "dashboard": dashboard,
    "episodes": episodes,
    "expandable": expandable,
    "handoff": handoff,
    "hierarchical": hierarchical,
    "letta": letta,
    "mask": mask,
    "memory_dir": memory_dir,
    "memory_files": memory_files,
    "rag": rag,
    "rlm": rlm,
    "rolling_summary": rolling_summary,
    "self_compact": self_compact,
    "structured_summary": structured_summary,
    "summary": summary,
}
"""Maps each name to its factory. ``stackmem.memory.STRATEGIES`` lists the names too."""
