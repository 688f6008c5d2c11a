"""stackmem: a coding agent that manages its own working memory.

Importing it does no I/O. Each public name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stackmem.api import open_run, replay, solve
    from stackmem.core.budgets import Budgets, Limits
    from stackmem.core.facts import RULES, Event, RunStarted
    from stackmem.core.machine import advance, evolve, fold
    from stackmem.core.messages import Usage, View
    from stackmem.core.state import State
    from stackmem.core.strategy import MemoryStrategy
    from stackmem.errors import (
        ModelError,
        ProgramError,
        RulesDiffer,
        StackmemError,
        TraceError,
        UsageError,
        WorkspaceError,
    )
    from stackmem.memory import STRATEGIES, open_strategy
    from stackmem.replays.replay import Replayed
    from stackmem.run.result import RunResult
    from stackmem.tools.own_tools import tool
    from stackmem.tools.plugins import Plugin
    from stackmem.trace.open_run import Run
    from stackmem.trace.record import Record
    from stackmem.trace.store import TraceReader

_PLACES = {
    "core.budgets": ("Budgets", "Limits"),
    "core.facts": ("Event", "RULES", "RunStarted"),
    "core.machine": ("advance", "evolve", "fold"),
    "core.messages": ("Usage", "View"),
    "core.state": ("State",),
    "core.strategy": ("MemoryStrategy",),
    "errors": (
        "ModelError", "ProgramError", "RulesDiffer", "StackmemError", "TraceError", "UsageError", "WorkspaceError",
    ),
    "api": ("open_run", "replay", "solve"),
    "tools.plugins": ("Plugin",),
    "tools.own_tools": ("tool",),
    "replays.replay": ("Replayed",),
    "run.result": ("RunResult",),
    "memory": ("STRATEGIES", "open_strategy"),
    "trace.open_run": ("Run",),
    "trace.record": ("Record",),
    "trace.store": ("TraceReader",),
}  # fmt: skip
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "RULES",
    "STRATEGIES",
    "Budgets",
    "Event",
    "Limits",
    "MemoryStrategy",
    "ModelError",
    "Plugin",
    "ProgramError",
    "Record",
    "Replayed",
    "RulesDiffer",
    "Run",
    "RunResult",
    "RunStarted",
    "StackmemError",
    "State",
    "TraceError",
    "TraceReader",
    "Usage",
    "UsageError",
    "View",
    "WorkspaceError",
    "advance",
    "evolve",
    "fold",
    "open_run",
    "open_strategy",
    "replay",
    "solve",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
