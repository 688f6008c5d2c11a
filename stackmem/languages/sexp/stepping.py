"""Forms under a debugger.

Each form stays open until its value is known, so that the open forms make up the stack that the debugger shows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from stackmem.core.errors import ProgramError
from stackmem.languages.debugger import DebugMoment, FrameView

from .compiler import AT_ONCE, BRANCH, CALL, FormPlan
from .errors import Budget
from .tree import Form
from .values import Closure, SexpEnvironment, as_json, to_source, truthy

_Steps = Generator[Any, Any, Any]

_BUDGET = Budget()
_VALUE_CHARS = 2_000


class SteppedMachine(Protocol):
    """The parts of the machine that a stepped form uses."""

    watch: Callable[[DebugMoment], None] | None

    @property
    def waiting(self) -> Sequence[object]: ...
    @staticmethod
    def call_of(function: Any, args: list[Any], form: Form) -> object: ...
    @staticmethod
    def goes_on(value: Any) -> bool: ...
    @staticmethod
    def application(machine: Any, form: Form, env: SexpEnvironment) -> _Steps: ...


class SteppedForm:
    """A form that is being evaluated. It receives values in place of its handler."""

    __slots__ = ("_doing", "env", "form", "line")

    def __init__(self, machine: SteppedMachine, form: Form, env: SexpEnvironment, plan: FormPlan) -> None:
        self.form, self.env = form, env
        self.line = form.source.text.count("\n", 0, form.at) + 1
        self._doing = self._run(machine, plan)

    def send(self, value: Any) -> Any:
        return self._doing.send(value)

    def throw(self, error: BaseException) -> Any:
        return self._doing.throw(error)

    def close(self) -> None:
        self._doing.close()

    def _run(self, machine: SteppedMachine, plan: FormPlan) -> _Steps:
        self._notify(machine)
        if plan.way == AT_ONCE:
            return plan.run(self.env)
        if plan.way == BRANCH:
            return (yield plan.nexts[0] if truthy(plan.run(self.env)) else plan.nexts[1], self.env)
        if plan.way == CALL:
            function = plan.run(self.env)
            if type(function) is Closure and len(function.params) == len(plan.args):
                return (yield machine.call_of(function, [run(self.env) for run in plan.args], self.form))
        value = yield from (plan.start or machine.application)(machine, self.form, self.env)
        return (yield value) if machine.goes_on(value) else value

    def _notify(self, machine: SteppedMachine) -> None:
        """Notify the debugger of the line, unless an enclosing form on the same line already did."""
        views: list[FrameView] = []
        name, inner, outer = "program", None, None
        for each in machine.waiting:
            if isinstance(each, SteppedForm):
                inner, outer = each, inner
            elif isinstance(each, Closure):
                views += [inner.view(name)] if inner else []
                name, inner, outer = each.name or "lambda", None, None
        if outer is None or outer.line != self.line or outer.form.source is not self.form.source:
            views.append(self.view(name))
            text = " ".join(self.form.source.text[self.form.at : self.form.end].split())[:200]
            machine.watch(DebugMoment("line", tuple(reversed(views)), text))  # type: ignore[misc]

    def view(self, name: str) -> FrameView:
        return FrameView(name, self.form.source.path, self.line, variables_of(self.env))


def variables_of(env: SexpEnvironment) -> dict[str, Any]:
    """Return the visible variables as JSON, innermost scope first. Functions appear as their source."""
    values: dict[str, Any] = {}
    scope: SexpEnvironment | None = env
    while scope is not None:
        for name, value in scope.bindings.items():
            if name not in values:
                values[name] = _as_shown(value)
        scope = scope.parent
    return values


def _as_shown(value: Any) -> Any:
    try:
        return to_source(value, _VALUE_CHARS) if isinstance(value, Closure) else as_json(value, _BUDGET)
    except ProgramError:  # nested too deeply, or too long
        return to_source(value, _VALUE_CHARS)
