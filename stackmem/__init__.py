"""stackmem: a coding agent that manages its own working memory.

Importing does no I/O; each public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.budgets import Budgets, Limits
    from .core.events import RULES, Event, RunStarted
    from .core.machine import advance, evolve, fold
    from .core.messages import Usage, View
    from .core.state import State
    from .core.strategy import MemoryStrategy
    from .errors import ModelError, ProgramError, RulesDiffer, StackmemError, TraceError, UsageError, WorkspaceError
    from .harness.api import replay, solve
    from .harness.opening import open_run
    from .harness.own_tools import tool
    from .harness.plugins import Plugin
    from .harness.replay import Replayed
    from .harness.result import RunResult
    from .memory import STRATEGIES, open_strategy
    from .trace.open_run import Run
    from .trace.record import Record
    from .trace.store import TraceReader

_PLACES = {
    "core.budgets": ("Budgets", "Limits"),
    "core.events": ("Event", "RULES", "RunStarted"),
    "core.machine": ("advance", "evolve", "fold"),
    "core.messages": ("Usage", "View"),
    "core.state": ("State",),
    "core.strategy": ("MemoryStrategy",),
    "errors": (
        "ModelError", "ProgramError", "RulesDiffer", "StackmemError", "TraceError", "UsageError", "WorkspaceError",
    ),
    "harness.api": ("replay", "solve"),
    "harness.plugins": ("Plugin",),
    "harness.opening": ("open_run",),
    "harness.own_tools": ("tool",),
    "harness.replay": ("Replayed",),
    "harness.result": ("RunResult",),
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
