"""What a task is told: its instructions with the inputs in their places, files, context, and the session so far."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from stackmem.languages.frame.values import as_text

from .asks import ContextManagement, HistoryConfigSettings
from .budget import Budget
from .carried import as_json
from .primitives import field
from .values import is_null

_SLOT = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")


class Past(Struct, frozen=True):
    """A task that was done in this evaluation."""

    name: str
    instructions: str
    content: str
    notes: str
    files: tuple[str, ...] = ()
    recorded: bool = True


def filled(instructions: str, inputs: Mapping[str, Any], budget: Budget) -> tuple[str, set[str], str]:
    """``(text, names used, name that is missing)``; ``{{a.b}}`` is the field b of a."""
    used: set[str] = set()
    missing: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        if name in inputs:
            used.add(name)
            return _text(inputs[name], budget)
        first, *more = name.split(".")
        if first not in inputs or not more:
            missing.append(name)
            return ""
        used.add(first)
        value = inputs[first]
        for part in more:
            value = field(value, part)
        if is_null(value):
            missing.append(name)
        return _text(value, budget)

    text = _SLOT.sub(value_of, instructions)
    return text, used, missing[0] if missing else ""


def _text(value: Any, budget: Budget) -> str:
    return "" if is_null(value) else as_text(as_json(value, budget))


def inherited(past: list[Past], context: ContextManagement, files: tuple[str, ...]) -> str:
    """The results of earlier tasks that the task inherits."""
    chosen = [
        one
        for one in past
        if context.inheritContext == "full" or (context.inheritContext == "subset" and set(one.files) & set(files))
    ]
    notes = context.accumulateData and context.accumulationFormat == "notes_only"
    return "\n\n".join(f"{one.name}:\n{one.notes if notes else one.content}" for one in chosen)


def session(past: list[Past], settings: HistoryConfigSettings) -> str:
    """The turns of the session that the task sees, oldest first."""
    if not settings.use_session_history:
        return ""
    turns = [one for one in past if one.recorded]
    count = settings.history_turns_to_include
    if count is not None:
        turns = turns[max(0, len(turns) - count) :]
    return "\n\n".join(f"TASK {one.name}\n{one.instructions}\nRESULT\n{one.content}" for one in turns)
