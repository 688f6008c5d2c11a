"""Plans the evaluation of each form once: immediately by a function, or stepwise by the interpreter.

Expressions of primitives over names, atoms and each other are compiled to one Python function of the environment.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

from .errors import Meter, SexpEvaluationError, UnboundSymbolError
from .primitives import ADDED, DOCUMENT, Primitive
from .tree import Atom, Form, Name, Node, datum, size_of
from .values import Closure, SexpEnvironment

Run = Callable[[SexpEnvironment], Any]
Handler = Callable[..., Any]

AT_ONCE, BRANCH, CALL, STEPWISE = range(4)
MISSING = object()

_DEEPEST = 40
_LONGEST = 64
_SMALL = 1 << 62
_QUICK: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "<": operator.lt, "=": operator.eq, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge, "*": operator.mul,
}  # fmt: skip


class Evaluating(Protocol):
    """The parts of the machine that a plan needs."""

    forms: dict[str, Any]
    added: dict[str, Any]
    bound: set[str]
    meter: Meter
    knows: Callable[[str], bool]
    invoke: Handler

    def unbound(self, node: Name) -> Any:
        """Return the value of a name that is not bound."""

    def locate(self, error: SexpEvaluationError, form: Form | Name) -> SexpEvaluationError:
        """Add the position to an error."""


class FormPlan:
    """How to evaluate a form.

    Attributes:
        way: ``AT_ONCE``: call ``run``. ``BRANCH``: continue with one of ``nexts``, depending on ``run``. ``CALL``: call
            the function returned by ``run`` with ``args``. ``STEPWISE``: run the generator created by ``start``.
        nodes: The number of nodes to charge, without those that are evaluated later.
    """

    __slots__ = ("args", "nexts", "nodes", "run", "start", "way")

    def __init__(self, way: int, nodes: int, run: Any = None, more: Any = None, start: Any = None) -> None:
        self.way, self.nodes, self.run, self.start = way, nodes, run, start
        self.args: list[Run] = more if way == CALL else []
        self.nexts: tuple[Node, ...] = more if way == BRANCH else ()


def plan_of(
    machine: Evaluating, form: Form, application: Handler, primitive_call: Handler, *, as_unit: bool = True
) -> FormPlan:
    """Plan a form. Unless ``as_unit``, each form inside it is planned separately."""
    compiled = compile_node(machine, form, 0) if as_unit else None
    if compiled:
        return FormPlan(AT_ONCE, compiled[1], compiled[0])
    head = form.items[0]
    if isinstance(head, Name):
        name = head.name
        if name in machine.forms:
            return (
                _branch(machine, form) if name == "if" and as_unit else FormPlan(STEPWISE, 1, start=machine.forms[name])
            )
        if name in DOCUMENT:
            return FormPlan(STEPWISE, 2, start=primitive_call)
        if machine.knows(name):
            return FormPlan(STEPWISE, 2, start=machine.invoke)
        if name not in machine.bound:
            if name in machine.added:
                return FormPlan(STEPWISE, 1, start=machine.added[name])
            if name in ADDED:
                return FormPlan(STEPWISE, 2, start=primitive_call)
        args = [compile_node(machine, item, 1) for item in form.items[1:]]
        if all(args):
            count = 2 + sum(arg[1] for arg in args if arg)
            return FormPlan(CALL, count, _lookup_of(name, None), [arg[0] for arg in args if arg])
    return FormPlan(STEPWISE, 1, start=application)


def _branch(machine: Evaluating, form: Form) -> FormPlan:
    test = compile_node(machine, form.items[1], 1) if len(form.items) == 4 else None
    if test is None:
        return FormPlan(STEPWISE, 1, start=machine.forms["if"])
    return FormPlan(BRANCH, 2 + test[1], test[0], (form.items[2], form.items[3]))


def compile_node(machine: Evaluating, node: Node, depth: int) -> tuple[Run, int] | None:
    """Compile a node to a function of the environment, with its node count; None if it needs the interpreter."""
    if type(node) is Name:
        return _lookup_of(node.name, lambda: machine.unbound(node)), 1
    if type(node) is Atom:
        value = node.value
        return (lambda _: value), 1
    assert isinstance(node, Form)  # noqa: S101 - Node has only three members
    if not node.items:
        return (lambda _: []), 1
    head = node.items[0]
    if type(head) is not Name or depth + node.height > _DEEPEST or len(node.items) > _LONGEST:
        return None
    if head.name in machine.forms:
        return _compiled_form(machine, node, head.name, depth)
    primitive = DOCUMENT.get(head.name)
    if primitive is None and head.name not in machine.bound and not machine.knows(head.name):
        primitive = ADDED.get(head.name)
    if primitive is None:
        return None
    parts = [compile_node(machine, item, depth + 1) for item in node.items[1:]]
    if not all(parts):
        return None
    count = 2 + sum(part[1] for part in parts if part)
    return _call_of(machine, head.name, primitive, [part[0] for part in parts if part], node), count


def _compiled_form(machine: Evaluating, form: Form, name: str, depth: int) -> tuple[Run, int] | None:
    """Compile ``quote``, and ``set!`` of a compilable expression, if they are well-formed."""
    if name == "quote" and len(form.items) == 2:
        body = form.items[1]
        return (lambda _: datum(body, machine.meter.budget)), 2 + size_of(body)
    target = form.items[1] if name == "set!" and len(form.items) == 3 else None
    inner = compile_node(machine, form.items[2], depth + 1) if isinstance(target, Name) else None
    if inner is None or not isinstance(target, Name):
        return None
    return _assigning(machine, target, inner[0], form), 3 + inner[1]


def _assigning(machine: Evaluating, target: Name, run: Run, form: Form) -> Run:
    name = target.name

    def assign(env: SexpEnvironment) -> Any:
        value = run(env)
        try:
            env.set_value_in_scope(name, value)
        except UnboundSymbolError as error:
            raise machine.locate(error, form) from None
        return value

    return assign


def _lookup_of(name: str, unbound: Callable[[], Any] | None) -> Run:
    """Return a function that looks up a name.

    If it is not bound, the function calls ``unbound`` or returns ``MISSING``.
    """

    def look_up(env: SexpEnvironment) -> Any:
        scope: SexpEnvironment | None = env
        while scope is not None:
            bindings = scope.bindings
            if name in bindings:
                return bindings[name]
            scope = scope.parent
        return unbound() if unbound else MISSING

    return look_up


def _call_of(machine: Evaluating, name: str, primitive: Primitive, runs: list[Run], form: Form) -> Run:
    meter = machine.meter

    def general(env: SexpEnvironment) -> Any:
        args = [run(env) for run in runs]
        try:
            return primitive(args, meter)
        except SexpEvaluationError as error:
            raise machine.locate(error, form) from None

    quick = _QUICK.get(name)
    if len(runs) != 2 or quick is None:
        return general
    first, second = runs

    def on_small(env: SexpEnvironment) -> Any:
        left, right = first(env), second(env)
        if type(left) is int and type(right) is int and -_SMALL < left < _SMALL and -_SMALL < right < _SMALL:
            return quick(left, right)
        try:
            return primitive([left, right], meter)
        except SexpEvaluationError as error:
            raise machine.locate(error, form) from None

    return on_small


def application_scope(function: Closure, args: list[Any]) -> SexpEnvironment:
    """Return the scope of one call."""
    env = SexpEnvironment.__new__(SexpEnvironment)
    env.bindings = dict(zip(function.params, args, strict=True))
    env.parent = function.env
    return env
