"""Data about a stopped program: stack frames, variables, registers, the heap, and the frames of the run."""

from __future__ import annotations

import json
from typing import Any

from stackmem.core.state import State
from stackmem.languages.debugger import DebugMoment, FrameView
from stackmem.languages.loop_agent.conditions.evaluator import value_of

_VALUE_CHARS = 2_000


def scopes_of(frame: FrameView, state: State) -> dict[str, dict[str, Any]]:
    """Map scope titles to names and values. The heap and the frames belong to the whole run."""
    running = state.stack[-1].registers if state.stack else None
    return {
        "Variables": frame.variables,
        "Registers": {} if running is None else {
            "R0 intent": running.intent, "R1 return_spec": running.return_spec, "R3 constraint": running.constraint,
        },
        "Heap": {chunk.name: chunk.content for chunk in state.heap.chunks.values()},
        "Frames": {f"{each.depth} {each.name}": each.registers.intent for each in reversed(state.stack)},
    }  # fmt: skip


def as_shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:_VALUE_CHARS]


def look_up(expression: str, frame: FrameView) -> tuple[Any, str]:
    """Evaluate a variable or a condition expression. Return the value and an error message."""
    for name in (expression, f"${expression}"):
        if name in frame.variables:
            return frame.variables[name], ""
    return value_of(expression, frame.variables)


class Inspection:
    """One stop as the editor sees it; its references are valid until the program continues."""

    def __init__(self, moment: DebugMoment, state: State) -> None:
        self.moment, self._state = moment, state
        self._values: list[Any] = []

    def frames(self) -> list[dict[str, Any]]:
        return [
            {
                "id": index, "name": frame.name, "line": frame.line, "column": 1,
                "source": {"name": frame.path.rpartition("/")[2], "path": frame.path},
            }
            for index, frame in enumerate(self.moment.stack, 1)
        ]  # fmt: skip

    def scopes(self, frame: FrameView) -> list[dict[str, Any]]:
        return [
            {"name": name, "variablesReference": self._refer(values), "expensive": False}
            for name, values in scopes_of(frame, self._state).items()
        ]

    def variables(self, reference: int) -> list[dict[str, Any]] | None:
        """Return the contents behind a reference, or None if the reference is unknown."""
        if not 0 < reference <= len(self._values):
            return None
        value = self._values[reference - 1]
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [{"name": str(name), **self.described(each)} for name, each in pairs]

    def described(self, value: Any) -> dict[str, Any]:
        inner = self._refer(value) if isinstance(value, dict | list) and value else 0
        return {"value": as_shown(value), "type": type(value).__name__, "variablesReference": inner}

    def _refer(self, value: Any) -> int:
        self._values.append(value)
        return len(self._values)
