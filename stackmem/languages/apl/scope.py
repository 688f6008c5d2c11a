"""The Execution Register, which holds what a program or a tool knows while it runs, and the Execution Pointer."""

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
from stackmem.languages.debugger import DebugMoment, DebugPort, FrameView
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

    # A variable that is a list holds a list of its own, so that appending to it changes nothing else.

    def __init__(self) -> None:
        self.constants: frozenset[str] = frozenset()
        self.variables: dict[str, Any] = {}
        self.made_by: dict[str, str] = {}  # the step that registered each
        self.results: set[str] = set()  # those that are the one ``result`` of a standard tool

    def set(self, name: str, value: Any) -> None:
        """Raises ``Halt`` where the name is a constant."""
        self.refuse_constant(name)
        held = self.variables.get(name)
        self.variables[name] = value if value is held else self._own(value)
        self.made_by.pop(name, None)
        self.results.discard(name)

    def register(self, name: str, value: Any, step: str, *, is_result: bool) -> None:
        """Set what a step gave."""
        self.set(name, value)
        self.made_by[name] = step
        if is_result:
            self.results.add(name)

    def set_constants(self, constants: Mapping[str, Any]) -> None:
        """Each may be a template over those before it."""
        for name, value in constants.items():
            self.set(name, self.resolve(value))
        self.constants = frozenset(constants)

    def refuse_constant(self, name: str) -> None:
        if name in self.constants:
            raise constant_changed(name)

    def copy(self) -> Scope:
        """For one round of a parallel loop: what it sets, nobody else sees."""
        copied = Scope()
        copied.constants = self.constants
        copied.made_by, copied.results = dict(self.made_by), set(self.results)
        copied.variables = {name: self._own(value) for name, value in self.variables.items()}
        return copied

    def resolve(self, value: Any) -> Any:
        """With every text in it rendered; keys stay as they are."""
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
        """What a parameter stands for that takes a variable's name, a template, or the value itself."""
        if isinstance(value, str) and "{" not in value and _NAME.fullmatch(value):
            if value.split(".", 1)[0] in self.variables:
                return self._own(self.evaluate(value))
            if not literal:
                raise missing_variable(value.split(".", 1)[0], self.variables)
        return self.resolve(value)

    def _as_halts(self, work: Callable[[], _T], text: str) -> _T:
        """What it gives; its faults as halts."""
        try:
            return work()
        except TemplateFault as fault:
            raise template_error(fault, text, self.variables, self.made_by) from fault
        except MalformedOutputError as error:
            raise malformed_output(error) from error

    @staticmethod
    def _own(value: Any) -> Any:
        return list(value) if isinstance(value, list) else value


def bind_inputs(declared: tuple[Input, ...], given: Mapping[str, Any], scope: Scope) -> Scope:
    """``scope`` with the inputs in it: those given, then defaults, which may be templates over those before."""
    known = {each.name for each in declared}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise unknown_input(unknown[0], known)
    for each in declared:
        if each.name in given:
            scope.set(each.name, given[each.name])
        elif each.has_default:
            scope.set(each.name, scope.resolve(each.default))
        elif each.required:
            raise missing_input(each.name)
    return scope


def convert(value: Any, kind: AsType, tool: str) -> Any:
    """The value as the type that ``as_type`` asks for; raises ``Halt`` where it is none."""
    text = value if isinstance(value, str) else None
    try:
        match kind:
            case "str":
                return str.__str__(text) if text is not None else json.dumps(value, ensure_ascii=False)
            case "json":
                return strict_value(text, whole=True) if text is not None else value
            case "int":
                return int(text.strip()) if text is not None else _exact_int(value)
            case "float":
                return _finite(text.strip() if text is not None else value)
            case "bool":
                return _bool(text.strip().lower() if text is not None else value)
            case "list":
                return _list(value if text is None else text)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        said = text if text is not None else json.dumps(value, default=str)
        raise malformed_value(tool, f"it gave {said[:200]!r}, which is no {kind}") from error


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
    """A list as it is, JSON that is one, or the lines of a text."""
    if isinstance(value, str):
        try:
            found = strict_value(value, whole=True)
        except (ValueError, RecursionError):
            return [line for line in value.splitlines() if line]
        value = found
    if not isinstance(value, list):
        raise ValueError(value)
    return value


def plain_output(value: Any) -> Any:
    """A JSON value: a command's output as an object of its three fields, wherever it stands."""
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
"""A part of the execution; gives the value of what it did."""

WHILE_LIMIT = 1_000
_CALL_CHARS = 400


class Pointer(Struct, frozen=True):
    """The Execution Pointer and what surrounds it."""

    scope: Scope
    registry: Registry  # the tools of the running program; ``shared`` are those that every program sees
    shared: Registry
    source: str  # the file that is executed, as ``LoadSource.beside`` takes it
    workspace: str  # the workspace as tools see it
    phase: str = ""
    path: str = ""  # of the running step's parent, for the trace: names with slashes between them
    trail: tuple[str, ...] = ()  # what lies around the running steps: tools, programs, items of loops
    depth: int = 0  # programs and tools around this one
    named: Mapping[str, tuple[Step, ...]] = {}
    while_limit: int = WHILE_LIMIT  # rounds of a ``while``
    watch: DebugPort | None = None  # a debugger, where there is one
    frame: str = ""  # what runs, for the debugger; empty is the program ``source``
    # the pointers around this one, innermost first, each with the line of its call
    callers: tuple[tuple[Pointer, int], ...] = ()

    def at(self, name: str) -> str:
        """The path of a step: names with slashes between them, and U+2215 for a slash in a name."""
        own = name.replace("/", "\N{DIVISION SLASH}")
        return f"{self.path}/{own}" if self.path else own

    def inside(self, path: str, *around: str) -> Pointer:
        return replace(self, path=path, trail=(*self.trail, *around))

    def calls(self, step: Step, frame: str) -> Pointer:
        """The pointer with which what a step calls is run; where it points to is still to be set."""
        return replace(self, frame=frame, callers=((self, step.head.place.line), *self.callers))

    def notify_debugger(self, kind: Any, text: str, line: int = 1) -> None:
        """Tell the debugger, where there is one; ``line`` is the one that is about to be executed."""
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
        """The note that a variable has a value now; it has it."""
        self.scope.set(name, value)
        return variable_set(name, value)

    def register(self, name: str, value: Any, step: str, *, is_result: bool) -> Note:
        """The note that a step registered a value."""
        self.scope.register(name, value, step, is_result=is_result)
        return variable_set(name, value)


def call_line(tool: str, params: Mapping[str, Any]) -> str:
    """A call on one line, long values in short."""
    text = " ".join([tool, *(f"{name}={brief(value)}" for name, value in params.items())])
    return text if len(text) <= _CALL_CHARS else f"{text[:_CALL_CHARS]}…"
