"""Evaluates trees as generators, without recursion: a list holds everything that waits for a value.

The handler of a form is a generator. It yields ``(node, env)`` or a ``FunctionCall`` and receives the value, or yields
a request (``requests``) and receives the answer. It returns a value, or a ``Tail`` or ``FunctionCall`` that is
evaluated in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from stackmem.languages.debugger import MomentListener

from .compiler import AT_ONCE, BRANCH, CALL, STEPWISE, FormPlan, application_scope, compile_node, plan_of
from .errors import (
    Budget,
    Meter,
    SexpEvaluationError,
    SourcePlace,
    TaskError,
    UnboundSymbolError,
    error_line,
    exhaustion,
)
from .primitives import ADDED, DOCUMENT, Primitive
from .requests import Breath
from .stepping import SteppedForm
from .tree import Atom, Form, Name, Node, Symbol
from .values import Closure, SexpEnvironment, from_python, to_source, truthy

Env = SexpEnvironment
Doing = Generator[Any, Any, Any]
Handler = Callable[["Machine", Form, Env], Doing]
Waiting = Doing | SteppedForm | Closure
"""Things that wait for a value. A closure marks an open call."""


class Tail:
    """A node whose value becomes the handler's value."""

    __slots__ = ("env", "node")

    def __init__(self, node: Node, env: Env) -> None:
        self.node, self.env = node, env


class FunctionCall:
    """A call of a function with evaluated arguments. ``form`` is the calling form."""

    __slots__ = ("args", "form", "function")

    def __init__(self, function: Any, args: list[Any], form: Form) -> None:
        self.function, self.args, self.form = function, args, form


_GOES_ON = (tuple, Tail, FunctionCall)


class Machine:
    """One evaluation.

    Attributes:
        forms: Handlers of the language document's special forms by name. Nothing overrides them.
        added: Handlers of additional forms, which variables, tasks and tools of the same name override.
        knows: Returns whether a name refers to a task or tool.
        invoke: Handler for a call of a task or tool with unevaluated arguments.
        apply_named: The same for evaluated arguments: ``(machine, name, args, form)``.
        meter: The usage so far; its steps are nodes.
    """

    def __init__(
        self,
        forms: dict[str, Handler],
        added: dict[str, Handler],
        budget: Budget,
        knows: Callable[[str], bool],
        invoke: Handler,
        apply_named: Callable[[Machine, str, list[Any], Form], Doing],
        watch: MomentListener | None = None,
    ) -> None:
        self.forms, self.added, self.meter = forms, added, Meter(budget)
        self.knows, self.invoke, self.apply_named = knows, invoke, apply_named
        self.watch = watch  # a debugger, if one is attached; it reads ``waiting``
        self.waiting: list[Waiting] = []
        self.bound: set[str] = set()
        self.epoch = object()
        # numbers of open closure calls, ``parallel`` forms, and ``load`` forms
        self.depth = 0
        self.branches = 0
        self.loading = 0

    def bind_names(self, names: set[str]) -> None:
        """Add names that are bound somewhere, so that they override additional functions."""
        if not names <= self.bound:
            self.bound |= names
            self.replan()

    def replan(self) -> None:
        """Discard all plans, because the meaning of a name may have changed."""
        self.epoch = object()

    @staticmethod
    def call_of(function: Any, args: list[Any], form: Form) -> FunctionCall:
        return FunctionCall(function, args, form)

    @staticmethod
    def goes_on(value: Any) -> bool:
        """Return whether a result must be evaluated further."""
        return type(value) in _GOES_ON

    @staticmethod
    def application(machine: Machine, form: Form, env: Env) -> Doing:
        return _application(machine, form, env)

    def evaluate(self, node: Node, env: Env) -> Doing:
        """Evaluate a node and return its value. Yields the requests of handlers."""
        waiting: list[Waiting] = []
        following: Any = (node, env)
        meter = self.meter
        while True:
            if meter.needs_breath():
                yield Breath()
            error: BaseException | None = None
            value: Any = None
            try:
                value = self._down(following, waiting)
            except Exception as raised:  # noqa: BLE001 - passed to whatever waits for the value
                error = raised
            following = None
            while waiting and following is None:
                top = waiting[-1]
                if isinstance(top, Closure):
                    waiting.pop()
                    self.depth -= 1
                    continue
                try:
                    request = top.send(value) if error is None else top.throw(error)
                    error = None
                except StopIteration as stop:
                    waiting.pop()
                    value, error = stop.value, None
                    if type(value) in _GOES_ON:
                        following = value
                    continue
                except Exception as raised:  # noqa: BLE001 - passed to whatever waits for the value
                    waiting.pop()
                    error = raised
                    continue
                if type(request) in _GOES_ON:
                    following = request
                    continue
                try:
                    value = yield request
                except Exception as raised:  # noqa: BLE001 - passed to the handler that asked
                    error = raised
            if following is None:
                if error is not None:
                    raise error
                return value

    def _down(self, following: Any, waiting: list[Waiting]) -> Any:
        """Evaluate until there is a value or a new handler is waiting."""
        node: Node
        meter = self.meter
        self.waiting = waiting
        call = following if type(following) is FunctionCall else None
        if call is None:
            node, env = following if type(following) is tuple else (following.node, following.env)
        while True:
            if call is not None:
                function, args = call.function, call.args
                if type(function) is not Closure:
                    waiting.append(self._apply(function, args, call.form))
                    return None
                self._open(function, args, call.form, waiting)
                node, env, call = function.body[0], application_scope(function, args), None
                if len(function.body) > 1:
                    waiting.append(body(function.body, env))
                    return None
            if meter.steps > meter.budget.steps:
                meter.charge(0)
            if type(node) is not Form:
                meter.steps += 1
                return self.look_up(node, env) if type(node) is Name else node.value  # type: ignore[union-attr]
            plan: FormPlan = node.plan if node.planner is self.epoch else self._plan(node)
            meter.steps += plan.nodes
            way = plan.way
            if way == AT_ONCE:
                return plan.run(env)
            if way == BRANCH:
                node = plan.nexts[0] if truthy(plan.run(env)) else plan.nexts[1]
                continue
            if way == CALL:
                function = plan.run(env)
                if type(function) is Closure and len(function.params) == len(plan.args):
                    call = FunctionCall(function, [run(env) for run in plan.args], node)
                    continue
            waiting.append((plan.start or _application)(self, node, env))
            return None

    def _open(self, function: Closure, args: list[Any], form: Form, waiting: list[Waiting]) -> None:
        """Start a call, which stays open until its value is known."""
        if len(args) != len(function.params):
            raise self.fault(arity(function, len(args)), form)
        if self.depth >= self.meter.budget.depth:
            raise exhaustion("depth", self.meter.budget.depth, "calls within each other")
        self.depth += 1
        waiting.append(function)

    def _apply(self, function: Any, args: list[Any], form: Form) -> Doing:
        if isinstance(function, str):
            name = str.__str__(function)
            primitive = DOCUMENT.get(name)
            if primitive is None and not self.knows(name):
                primitive = ADDED.get(name)
            if primitive is not None:
                return self.primitive(primitive, args, form)
            if self.knows(name):
                return (yield from self.apply_named(self, name, args, form))
            raise self.fault(f"Unbound symbol or unrecognized operator: {name}", form)
        if callable(function):
            try:
                return from_python(function(*args), self.meter.budget)
            except (SexpEvaluationError, TaskError):
                raise
            except Exception as error:
                if is_task_error(error):
                    raise
                raise self.fault(f"Error in a Python function: {error_line(error)}", form) from error
        raise self.fault(f"Cannot apply non-callable: {to_source(function, 80)}", form)

    def is_function(self, name: str) -> bool:
        """Return whether a symbol can be used as a function."""
        return name in DOCUMENT or name in ADDED or self.knows(name)

    def primitive(self, primitive: Primitive, args: list[Any], form: Form) -> Any:
        try:
            return primitive(args, self.meter)
        except SexpEvaluationError as error:
            raise self.locate(error, form) from None

    def compile(self, node: Node) -> tuple[Callable[[Env], Any], int] | None:
        """Compile a node to a function, with the node count of one call; None if that is not possible."""
        return compile_node(self, node, 1)

    def fault(self, message: str, form: Form | Name, details: str = "") -> SexpEvaluationError:
        return self.locate(SexpEvaluationError(message, "", details), form)

    def locate(self, error: SexpEvaluationError, form: Form | Name) -> SexpEvaluationError:
        if error.position is None:
            source = form.source
            location = SourcePlace.of(source.path, source.text, form.at)
            error.locate(location, source_of(form))
        return error

    def around(self, before: str, error: SexpEvaluationError, form: Form) -> SexpEvaluationError:
        """Wrap an error with its context in a loop. It keeps its position."""
        outer = SexpEvaluationError(before + error.message, error.expression, error.error_details)
        outer.position = error.position
        return self.locate(outer, form)

    def look_up(self, node: Name, env: Env) -> Any:
        scope: Env | None = env
        while scope is not None:
            bindings = scope.bindings
            if node.name in bindings:
                return bindings[node.name]
            scope = scope.parent
        return self.unbound(node)

    def unbound(self, node: Name) -> Symbol:
        """Return the symbol itself if it names a primitive, task or tool; otherwise raise."""
        name = node.name
        if self.is_function(name):
            return Symbol(name)
        raise self.locate(UnboundSymbolError(f"Unbound symbol: Name '{name}' is not defined.", name), node)

    def _plan(self, form: Form) -> FormPlan:
        """Plan the evaluation of a form and cache the plan on it."""
        as_unit = self.watch is None or "\n" not in form.source.text[form.at : form.end]
        plan: FormPlan = plan_of(self, form, _application, _primitive_call, as_unit=as_unit)
        if self.watch is not None:
            plan = FormPlan(STEPWISE, plan.nodes, start=partial(SteppedForm, plan=plan))
        form.plan, form.planner = plan, self.epoch
        return plan


def arity(function: Closure, got: int) -> str:
    name = function.name or "lambda"
    return f"Arity mismatch: Closure expects {len(function.params)} arguments, got {got} for {name}"


def is_task_error(error: BaseException) -> bool:
    """Return whether no expression may catch an error: our TaskError, or a collaborator's class of that name."""
    return any(kind.__name__ == "TaskError" for kind in type(error).__mro__)


def values_of(nodes: list[Node], env: Env) -> Doing:
    """Evaluate nodes and return their values in a new list."""
    values = []
    for node in nodes:
        values.append((yield (node, env)))  # noqa: PERF401 - a comprehension cannot yield
    return values


def body(expressions: list[Node], env: Env) -> Doing:
    """Evaluate expressions in sequence; the value is that of the last one."""
    for expression in expressions[:-1]:
        yield (expression, env)
    return Tail(expressions[-1], env) if expressions else []


def _primitive_call(machine: Machine, form: Form, env: Env) -> Doing:
    head = form.items[0]
    assert isinstance(head, Name)  # noqa: S101 - guaranteed by the plan
    args = yield from values_of(form.items[1:], env)
    return machine.primitive(DOCUMENT.get(head.name) or ADDED[head.name], args, form)


def _application(machine: Machine, form: Form, env: Env) -> Doing:
    """Call the value of the form's head."""
    head = form.items[0]
    if isinstance(head, Atom):
        value = head.value
        kind = "a text" if isinstance(value, str) else "a truth value" if isinstance(value, bool) else "a number"
        raise machine.fault(
            f"Operator in list form must be a symbol or another list, got {kind}: {to_source(value, 80)}", form
        )
    if isinstance(head, Name) and head.name not in env:
        return (yield from _unbound_head(machine, head.name, form, env))
    function = yield (head, env)
    if isinstance(function, Closure) and len(function.params) != len(form.items) - 1:
        raise machine.fault(arity(function, len(form.items) - 1), form)
    if isinstance(function, str) and function not in DOCUMENT and machine.knows(str.__str__(function)):
        return (yield from machine.invoke(machine, form.with_head(str.__str__(function)), env))
    args = yield from values_of(form.items[1:], env)
    return FunctionCall(function, args, form)


def _unbound_head(machine: Machine, name: str, form: Form, env: Env) -> Doing:
    """Call a name that is not a variable: a task or tool defined later, or an additional function."""
    if machine.knows(name):
        return (yield from machine.invoke(machine, form, env))
    if name in machine.added:
        return (yield from machine.added[name](machine, form, env))
    if name in ADDED:
        return (yield from _primitive_call(machine, form, env))
    raise machine.locate(UnboundSymbolError(f"Unbound symbol or unrecognized operator: {name}"), form)


def source_of(node: Form | Name, most: int = 200) -> str:
    """Return the node's source text on one line."""
    end = node.end if isinstance(node, Form) else node.at + len(node.name)
    text = " ".join(node.source.text[node.at : min(end, node.at + 4 * most)].split())
    return text if len(text) <= most else f"{text[:most]}…"
