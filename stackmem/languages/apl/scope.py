"""The Execution Register (the variables of a running program or tool) and the Execution Pointer."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.program_facts import Note
from stackmem.core.strict_json import strict_value
from stackmem.languages.debugger import DebugMoment, FrameView, MomentListener
from stackmem.languages.frame.values import brief, variable_set
from stackmem.languages.operations import Answer, Operation

from .command_output import CommandOutput, MalformedOutputError
from .halts import (
    constant_changed,
    malformed_output,
    malformed_value,
    missing_input,
    missing_variable,
    template_error,
    unknown_input,
)
from .registry import Registry
from .templates import TemplateFault, evaluate, holds, render, render_command
from .tree import AsType, Input, Step

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
_TRUE, _FALSE = ("true", "yes", "1", 1), ("false", "no", "0", 0)


class Scope:
    """Variables by name."""

    # Each list variable has its own copy of the list, so that appending to it affects no other variable.

    def __init__(self) -> None:
        self.constants: frozenset[str] = frozenset()
        self.variables: dict[str, Any] = {}
        self.made_by: dict[str, str] = {}  # variable to the step that registered it
        self.results: set[str] = set()  # variables that are the single ``result`` of a standard tool

    def set(self, name: str, value: Any) -> None:
        """Set a variable. Raise Halt if the name is a constant."""
        self.refuse_constant(name)
        current = self.variables.get(name)
        self.variables[name] = value if value is current else self._own(value)
        self.made_by.pop(name, None)
        self.results.discard(name)

    def register(self, name: str, value: Any, step: str, *, is_result: bool) -> None:
        """Set the variable that a step registers."""
        self.set(name, value)
        self.made_by[name] = step
        if is_result:
            self.results.add(name)

    def set_constants(self, constants: Mapping[str, Any]) -> None:
        """Set the constants. Each may be a template over earlier ones."""
        for name, value in constants.items():
            self.set(name, self.resolve(value))
        self.constants = frozenset(constants)

    def refuse_constant(self, name: str) -> None:
        if name in self.constants:
            raise constant_changed(name)

    def copy(self) -> Scope:
        """Copy the scope for one round of a parallel loop, so that its variables are not visible outside."""
        copied = Scope()
        copied.constants = self.constants
        copied.made_by, copied.results = dict(self.made_by), set(self.results)
        copied.variables = {name: self._own(value) for name, value in self.variables.items()}
        return copied

    def resolve(self, value: Any) -> Any:
        """Render every text inside a value. Keys are not rendered."""
        match value:
            case str():
                return self._own(self._as_halts(lambda: render(value, self.variables, self.results), value))
            case list():
                return [self.resolve(item) for item in value]
            case dict():
                return {key: self.resolve(item) for key, item in value.items()}
            case _:
                return value

    def command(self, text: str) -> str:
        return self._as_halts(lambda: render_command(text, self.variables, self.results), text)

    def holds(self, condition: str) -> bool:
        return self._as_halts(lambda: holds(condition, self.variables, self.results), condition)

    def evaluate(self, expression: str) -> Any:
        return self._as_halts(lambda: evaluate(expression, self.variables, self.results), expression)

    def by_name(self, value: Any, *, literal: bool) -> Any:
        """Resolve a parameter that accepts a variable's name, a template, or the value itself.

        ``literal`` says whether a name without a variable is a text. Otherwise it counts as missing.
        """
        if isinstance(value, str) and "{" not in value and _NAME.fullmatch(value):
            if value.split(".", 1)[0] in self.variables:
                return self._own(self.evaluate(value))
            if not literal:
                raise missing_variable(value.split(".", 1)[0], self.variables)
        return self.resolve(value)

    def _as_halts(self, work: Callable[[], _T], text: str) -> _T:
        """Run ``work`` and convert its faults to halts."""
        try:
            return work()
        except TemplateFault as fault:
            raise template_error(fault, text, self.variables, self.made_by) from fault
        except MalformedOutputError as error:
            raise malformed_output(error) from error

    @staticmethod
    def _own(value: Any) -> Any:
        return list(value) if isinstance(value, list) else value


def bind_inputs(declared: tuple[Input, ...], values: Mapping[str, Any], scope: Scope) -> Scope:
    """Set the inputs in ``scope`` and return it.

    Defaults may be templates over ``module_path``, the constants and earlier inputs.

    Raise Halt if a required input is missing, or an input is unknown.
    """
    names = {each.name for each in declared}
    unknown = [name for name in values if name not in names]
    if unknown:
        raise unknown_input(unknown[0], names)
    for each in declared:
        if each.name in values:
            scope.set(each.name, values[each.name])
        elif each.has_default:
            scope.set(each.name, scope.resolve(each.default))
        elif each.required:
            raise missing_input(each.name)
    return scope


def convert(value: Any, kind: AsType, tool: str) -> Any:
    """Convert a value to the type named by ``as_type``. Raise Halt if the value cannot be converted."""
    text = value if isinstance(value, str) else None
    try:
        match kind:
            case "str":
                return str.__str__(text) if text is not None else json.dumps(value, ensure_ascii=False)
            case "json":
                return strict_value(text, utf8=True) if text is not None else value
            case "int":
                return int(text.strip()) if text is not None else _exact_int(value)
            case "float":
                return _finite(text.strip() if text is not None else value)
            case "bool":
                return _bool(text.strip().lower() if text is not None else value)
            case "list":
                return _list(value if text is None else text)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        shortened = text if text is not None else json.dumps(value, default=str)
        raise malformed_value(tool, f"it gave {shortened[:200]!r}, which is not a valid {kind}") from error


def _exact_int(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _bool(value: Any) -> bool:
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ValueError(value)


def _list(value: Any) -> list[Any]:
    """Return a list unchanged, parse a text as a JSON list, or split it into lines."""
    if isinstance(value, str):
        try:
            parsed = strict_value(value, utf8=True)
        except (ValueError, RecursionError):
            return [line for line in value.splitlines() if line]
        value = parsed
    if not isinstance(value, list):
        raise ValueError(value)
    return value


def plain_output(value: Any) -> Any:
    """Convert to plain JSON. Each command output inside the value becomes an object of its three fields."""
    match value:
        case CommandOutput():
            return {"stdout": value.stdout, "stderr": value.stderr, "exit_code": value.exit_code}
        case list() | tuple():
            return [plain_output(item) for item in value]
        case dict():
            return {name: plain_output(item) for name, item in value.items()}
        case _:
            return value


Doing = Generator[Operation | Note, Answer, Any]
"""A part of the execution. Returns the value of what it did."""

WHILE_LIMIT = 1_000
_CALL_CHARS = 400


class Pointer(Struct, frozen=True):
    """The Execution Pointer and its surroundings."""

    scope: Scope
    registry: Registry  # tools of the running program; ``shared`` contains those that every program sees
    shared: Registry
    source: str  # the executed file, in the form ``LoadSource.beside`` expects
    workspace: str  # path of the workspace as tools see it
    phase: str = ""
    path: str = ""  # path of the parent of the running step, for the trace: names separated by slashes
    trail: tuple[str, ...] = ()  # what encloses the running steps: tools, programs, loop items
    depth: int = 0  # number of enclosing programs and tools
    stored_steps: Mapping[str, tuple[Step, ...]] = {}
    while_limit: int = WHILE_LIMIT  # maximum rounds of a ``while`` loop
    watch: MomentListener | None = None  # a debugger, if one is attached
    frame: str = ""  # name of the running frame for the debugger; if empty, the file name of ``source``
    # the enclosing pointers, innermost first, each with the line of its call
    callers: tuple[tuple[Pointer, int], ...] = ()

    def at(self, name: str) -> str:
        """Return the path of a step. A slash in a name is replaced by U+2215."""
        own = name.replace("/", "\N{DIVISION SLASH}")
        return f"{self.path}/{own}" if self.path else own

    def inside(self, path: str, *around: str) -> Pointer:
        return replace(self, path=path, trail=(*self.trail, *around))

    def calls(self, step: Step, frame: str) -> Pointer:
        """Return the pointer for running what a step calls. Its scope and source are not set yet."""
        return replace(self, frame=frame, callers=((self, step.head.position.line), *self.callers))

    def notify_debugger(self, kind: Any, text: str, line: int = 1) -> None:
        """Notify the debugger, if one is attached. ``line`` is the line that is about to run."""
        if self.watch is None:
            return
        views = [
            FrameView(
                each.frame or posixpath.basename(each.source),
                each.source,
                at,
                {name: plain_output(value) for name, value in each.scope.variables.items()},
            )
            for each, at in ((self, line), *self.callers)
        ]
        self.watch(DebugMoment(kind, tuple(views), text))

    def set(self, name: str, value: Any) -> Note:
        """Set a variable and return the note that records it."""
        self.scope.set(name, value)
        return variable_set(name, value)

    def register(self, name: str, value: Any, step: str, *, is_result: bool) -> Note:
        """Set the variable that a step registers, and return the note that records it."""
        self.scope.register(name, value, step, is_result=is_result)
        return variable_set(name, value)


def call_line(tool: str, params: Mapping[str, Any]) -> str:
    """Format a call on one line, with long values shortened."""
    text = " ".join([tool, *(f"{name}={brief(value)}" for name, value in params.items())])
    return text if len(text) <= _CALL_CHARS else f"{text[:_CALL_CHARS]}…"
