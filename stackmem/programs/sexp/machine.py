"""Evaluates nodes without recursion: what waits for a value is a generator in a list.

A handler of a form yields ``(node, env)`` and is sent its value, or yields a question for the outside and is sent the
answer. Expressions of primitives over names and atoms are compiled to functions once, and need no generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from .budget import Budget, exhausted
from .environment import SexpEnvironment
from .errors import Place, SexpEvaluationError, UnboundSymbolError
from .nodes import Atom, Form, Name, Node, Symbol
from .primitives import ADDED, DOCUMENT, Primitive
from .values import Closure, entered, written

Env = SexpEnvironment
Doing = Generator[Any, Any, Any]
Handler = Callable[["Machine", Form, Env], Doing]
Run = Callable[[Env], Any]

_DEEPEST_PLAN = 40
_SMALL = 1 << 62


class Plan:
    """How a form is evaluated: by ``run`` at once, or by the generator that ``start`` makes.

    Attributes:
        nodes: What one ``run`` counts.

    """

    __slots__ = ("nodes", "run", "start")

    def __init__(self, run: Run | None, nodes: int, start: Handler | None) -> None:
        self.run, self.nodes, self.start = run, nodes, start


class Machine:
    """One evaluation.

    Attributes:
        forms: Name to handler: the document's special forms, which nothing overrides.
        added: Ours, which yield to variables, tasks and tools of their names.
        knows: Whether a name is a task's or a tool's.
        invoke: Makes the generator that calls a task or a tool, its arguments not evaluated yet.
        steps: Nodes evaluated so far.

    """

    def __init__(
        self,
        forms: dict[str, Handler],
        added: dict[str, Handler],
        budget: Budget,
        knows: Callable[[str], bool],
        invoke: Handler,
    ) -> None:
        self.forms, self.added, self.budget = forms, added, budget
        self.knows, self.invoke = knows, invoke
        self.bound: set[str] = set()
        self.epoch = object()
        self.steps = 0
        self.depth = 0

    def bind_names(self, names: set[str]) -> None:
        """Names that something binds: additions of the same name yield to it."""
        if not names <= self.bound:
            self.bound |= names
            self.epoch = object()

    def evaluate(self, node: Node, env: Env) -> Doing:
        """The node's value; yields what handlers ask of the outside."""
        waiting: list[Doing] = []
        error: BaseException | None = None
        value: Any = None
        most = self.budget.steps
        while True:
            try:
                if type(node) is Form:
                    plan = node.plan if node.planner is self.epoch else self._plan(node)
                    self.steps += plan.nodes
                    if plan.run is not None:
                        value = plan.run(env)
                    else:
                        waiting.append(plan.start(self, node, env))
                        value = None
                elif type(node) is Name:
                    self.steps += 1
                    value = self._look_up(node, env)
                else:
                    self.steps += 1
                    value = node.value  # type: ignore[union-attr]
                if self.steps > most:
                    raise exhausted("steps", most, "evaluation steps")  # noqa: TRY301 - beside the other faults
            except Exception as raised:  # noqa: BLE001 - handed to whoever waits for the value
                error = raised
            while waiting:
                try:
                    asked = waiting[-1].send(value) if error is None else waiting[-1].throw(error)
                except StopIteration as stop:
                    waiting.pop()
                    value, error = stop.value, None
                    continue
                except Exception as raised:  # noqa: BLE001 - as above
                    waiting.pop()
                    error = raised
                    continue
                error = None
                if type(asked) is tuple:
                    node, env = asked
                    break
                value = yield asked
            else:
                if error is not None:
                    raise error
                return value

    def apply(self, function: Any, args: list[Any], form: Form) -> Doing:
        """A function's value for evaluated arguments."""
        if isinstance(function, Closure):
            return (yield from self.call(function, args, form))
        if isinstance(function, str):
            primitive = DOCUMENT.get(function) or ADDED.get(function)
            if primitive is not None:
                return self.primitive(primitive, args, form)
        elif callable(function):
            return entered(function(*args))
        raise self.fault(f"Cannot apply non-callable: {written(function, 80)}", form)

    def call(self, function: Closure, args: list[Any], form: Form) -> Doing:
        if len(args) != len(function.params):
            raise self.fault(
                f"Arity mismatch: Closure expects {len(function.params)} arguments, got {len(args)} for "
                f"{function.name or 'lambda'}",
                form,
            )
        if self.depth >= self.budget.depth:
            raise exhausted("depth", self.budget.depth, "calls within each other")
        env = SexpEnvironment(None, function.env)
        env.bindings = dict(zip(function.params, args, strict=True))
        self.depth += 1
        try:
            value: Any = []
            for expression in function.body:
                value = yield (expression, env)
            return value
        finally:
            self.depth -= 1

    def primitive(self, primitive: Primitive, args: list[Any], form: Form) -> Any:
        try:
            return primitive(args, self.budget)
        except SexpEvaluationError as error:
            raise self.located(error, form) from None

    def fault(self, message: str, form: Form, details: str = "") -> SexpEvaluationError:
        return self.located(SexpEvaluationError(message, "", details), form)

    def located(self, error: SexpEvaluationError, form: Form | Name) -> SexpEvaluationError:
        if error.place is None:
            source = form.source
            place = Place.of(source.path, source.text, form.at)
            error.located(place, source_of(form))
        return error

    def _look_up(self, node: Name, env: Env) -> Any:
        name = node.name
        scope: Env | None = env
        while scope is not None:
            bindings = scope.bindings
            if name in bindings:
                return bindings[name]
            scope = scope.parent
        if name in DOCUMENT or name in ADDED or self.knows(name):
            return Symbol(name)
        raise self.located(UnboundSymbolError(f"Unbound symbol: Name '{name}' is not defined."), node)

    def _plan(self, form: Form) -> Plan:
        """How the form is evaluated; kept on it."""
        compiled = self._compiled(form, 0)
        plan = Plan(compiled[0], compiled[1], None) if compiled else Plan(None, 1, self._start_of(form))
        form.plan, form.planner = plan, self.epoch
        return plan

    def _start_of(self, form: Form) -> Handler:
        head = form.items[0]
        if type(head) is Name:
            name = head.name
            if name in self.forms:
                return self.forms[name]
            if name in DOCUMENT:
                return _primitive_call
            if self.knows(name):
                return self.invoke
            if name not in self.bound:
                if name in self.added:
                    return self.added[name]
                if name in ADDED:
                    return _primitive_call
        return _application

    def _compiled(self, node: Node, depth: int) -> tuple[Run, int] | None:
        """A function of the environment, and how many nodes it counts; None where a generator is needed."""
        if type(node) is Name:
            return (lambda env: self._look_up(node, env)), 1
        if type(node) is Atom:
            value = node.value
            return (lambda env: value), 1
        assert isinstance(node, Form)  # noqa: S101 - the third of three
        if not node.items:
            return (lambda env: []), 1
        head = node.items[0]
        if type(head) is not Name or depth > _DEEPEST_PLAN:
            return None
        primitive = DOCUMENT.get(head.name)
        if primitive is None and head.name not in self.bound and not self.knows(head.name):
            primitive = None if head.name in self.forms else ADDED.get(head.name)
        if primitive is None:
            return None
        parts = [self._compiled(item, depth + 1) for item in node.items[1:]]
        if any(part is None for part in parts):
            return None
        runs = [part[0] for part in parts if part]
        count = 2 + sum(part[1] for part in parts if part)
        return self._call_of(head.name, primitive, runs, node), count

    def _call_of(self, name: str, primitive: Primitive, runs: list[Run], form: Form) -> Run:
        budget = self.budget

        def general(env: Env) -> Any:
            args = [run(env) for run in runs]
            try:
                return primitive(args, budget)
            except SexpEvaluationError as error:
                raise self.located(error, form) from None

        if len(runs) != 2 or name not in ("+", "-", "<"):
            return general
        first, second = runs

        def quick(env: Env) -> Any:
            left, right = first(env), second(env)
            if type(left) is int and type(right) is int and -_SMALL < left < _SMALL and -_SMALL < right < _SMALL:
                return left + right if name == "+" else left - right if name == "-" else left < right
            try:
                return primitive([left, right], budget)
            except SexpEvaluationError as error:
                raise self.located(error, form) from None

        return quick


def _primitive_call(machine: Machine, form: Form, env: Env) -> Doing:
    head = form.items[0]
    assert isinstance(head, Name)  # noqa: S101 - as planned
    primitive = DOCUMENT.get(head.name) or ADDED[head.name]
    args = []
    for item in form.items[1:]:
        args.append((yield (item, env)))
    return machine.primitive(primitive, args, form)


def _application(machine: Machine, form: Form, env: Env) -> Doing:
    """A call of what the head's value is."""
    head = form.items[0]
    if isinstance(head, Atom):
        kind = "a text" if isinstance(head.value, str) else "a truth value" if head.value is True else "a number"
        raise machine.fault(
            f"Operator in list form must be a symbol or another list, got {kind}: {written(head.value, 80)}", form
        )
    if isinstance(head, Name) and head.name not in env:
        raise machine.located(UnboundSymbolError(f"Unbound symbol or unrecognized operator: {head.name}"), form)
    function = yield (head, env)
    if isinstance(function, Closure) and len(function.params) != len(form.items) - 1:
        return (yield from machine.call(function, [None] * (len(form.items) - 1), form))
    args = []
    for item in form.items[1:]:
        args.append((yield (item, env)))
    return (yield from machine.apply(function, args, form))


def source_of(node: Form | Name, most: int = 200) -> str:
    """The node's own source text, in one line."""
    end = node.end if isinstance(node, Form) else node.at + len(node.name)
    text = " ".join(node.source.text[node.at : end].split())
    return text if len(text) <= most else f"{text[:most]}…"
