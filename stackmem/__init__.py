"""stackmem: a coding agent that manages its own working memory.

Importing it does no I/O. Each public name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stackmem.core.budgets import Budgets, Limits
    from stackmem.core.errors import (
        ModelError,
        ProgramError,
        RulesDiffer,
        StackmemError,
        TraceError,
        UsageError,
        WorkspaceError,
    )
    from stackmem.core.facts import RULES, Event, RunStarted
    from stackmem.core.machine import advance, evolve, fold
    from stackmem.core.messages import Usage, View
    from stackmem.core.state import State
    from stackmem.core.strategy import MemoryStrategy
    from stackmem.languages.python.inside.api import EffectFailed as EffectFailed
    from stackmem.languages.python.inside.api import Finished as Finished
    from stackmem.languages.python.inside.api import NotAllowed as NotAllowed
    from stackmem.languages.python.inside.api import ask as ask
    from stackmem.languages.python.inside.api import ask_all as ask_all
    from stackmem.languages.python.inside.api import ask_user as ask_user
    from stackmem.languages.python.inside.api import call_tool as call_tool
    from stackmem.languages.python.inside.api import chunks as chunks
    from stackmem.languages.python.inside.api import conversation as conversation
    from stackmem.languages.python.inside.api import forget as forget
    from stackmem.languages.python.inside.api import keep as keep
    from stackmem.languages.python.inside.api import list_files as list_files
    from stackmem.languages.python.inside.api import now as now
    from stackmem.languages.python.inside.api import read_file as read_file
    from stackmem.languages.python.inside.api import recall as recall
    from stackmem.languages.python.inside.api import run_program as run_program
    from stackmem.languages.python.inside.api import say as say
    from stackmem.languages.python.inside.api import shell as shell
    from stackmem.languages.python.inside.api import spent as spent
    from stackmem.languages.python.inside.api import step as step
    from stackmem.languages.python.inside.api import wait as wait
    from stackmem.languages.python.inside.api import work as work
    from stackmem.languages.python.inside.api import write_file as write_file
    from stackmem.memory import STRATEGIES, open_strategy
    from stackmem.run.api import open_run, replay, solve
    from stackmem.run.plugins.loading import Plugin
    from stackmem.run.replays.replay import Replayed
    from stackmem.run.result import RunResult
    from stackmem.settings.tools.own_tools import tool
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
    "core.errors": (
        "ModelError", "ProgramError", "RulesDiffer", "StackmemError", "TraceError", "UsageError", "WorkspaceError",
    ),
    "run.api": ("open_run", "replay", "solve"),
    "run.plugins.loading": ("Plugin",),
    "settings.tools.own_tools": ("tool",),
    "run.replays.replay": ("Replayed",),
    "run.result": ("RunResult",),
    "memory": ("STRATEGIES", "open_strategy"),
    "trace.open_run": ("Run",),
    "trace.record": ("Record",),
    "trace.store": ("TraceReader",),
}  # fmt: skip
_PROGRAM_FUNCTIONS = (
    "EffectFailed", "Finished", "NotAllowed", "ask", "ask_all", "ask_user", "call_tool", "chunks", "conversation",
    "forget", "keep", "list_files", "now", "read_file", "recall", "run_program", "say", "shell", "spent", "step",
    "wait", "work", "write_file",
)  # fmt: skip
"""Names for Python programs, which are described in ``docs/programs/python.md``. In a running program, the module
``stackmem`` has only these. Here they let editors and type checkers know them, and a program be imported."""
_PLACES["languages.python.inside.api"] = _PROGRAM_FUNCTIONS
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
