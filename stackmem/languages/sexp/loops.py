"""The phase loops ``director-evaluator-loop`` and ``iterative-loop``.

Each phase is a function. While it runs, ``*loop-config*`` is bound between its own scope and its defining scope, so
that it sees the loop's setup and keeps everything it captured.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .errors import SexpEvaluationError
from .interpreter import Doing, Env, FunctionCall, Handler, Machine
from .primitives import kind_of
from .tree import Form, Node, Symbol, datum, pair_of
from .values import Closure, SexpEnvironment, to_source


class LoopShape(Struct, frozen=True):
    """The structure of a phase loop."""

    name: str
    initial: str  # the clause with the first input
    plain: tuple[str, ...]  # clauses with texts that are passed to phases
    # clauses with functions in execution order, each with its arguments before the round number: ``input``, a plain
    # clause, or the result of another phase. The last phase decides
    phases: dict[str, tuple[str, ...]]

    @property
    def clauses(self) -> tuple[str, ...]:
        """The names of all clauses."""
        return ("max-iterations", self.initial, *self.plain, *self.phases)


DIRECTOR = LoopShape(
    "director-evaluator-loop",
    "initial-director-input",
    (),
    {
        "director": ("input",),
        "executor": ("director",),
        "evaluator": ("executor", "director"),
        "controller": ("evaluator", "director", "executor"),
    },
)
ITERATIVE = LoopShape(
    "iterative-loop",
    "initial-input",
    ("test-command",),
    {"executor": ("input",), "validator": ("test-command",), "controller": ("executor", "validator", "input")},
)


def _phases_form(shape: LoopShape) -> Handler:
    """Return the handler of a phase loop. If the rounds run out, the value is the last executor's result."""

    def run(machine: Machine, form: Form, env: Env) -> Doing:
        setup, phases = yield from _prepare(machine, form, env, shape)
        values: dict[str, Any] = {**setup, "input": setup[shape.initial], "executor": []}
        for name in shape.plain:
            if message := setup_fault(shape, name, setup[name]):
                raise machine.fault(message, form)
        for number in range(1, setup["max-iterations"] + 1):
            for name, inputs in shape.phases.items():
                args = [*(values[each] for each in inputs), number]
                values[name] = yield from _phase(machine, form, phases, name, args, number)
            action, values["input"] = _decision(machine, form, values["controller"], shape)
            if action == "stop":
                return values["input"]
        return values["executor"]

    return run


def setup_fault(shape: LoopShape, name: str, value: Any) -> str:
    """Return what is wrong with the value of a clause that is not a function; empty if it is valid."""
    if name in shape.plain and (not isinstance(value, str) or isinstance(value, Symbol)):
        return f"{shape.name}: '{name}' must be a text, got {_kind_and_source(value)}"
    if name == "max-iterations" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        return (
            f"{shape.name}: Error evaluating 'max-iterations': 'max-iterations' must evaluate to a non-negative "
            f"integer, got {_kind_and_source(value)}"
        )
    return ""


def _prepare(machine: Machine, form: Form, env: Env, shape: LoopShape) -> Doing:
    """Evaluate the clauses. Returns ``(values of the clauses, functions of the phases)``."""
    clauses = _clauses(machine, form, shape)
    setup: dict[str, Any] = {}
    for name in ("max-iterations", shape.initial, *shape.plain):
        setup[name] = yield from _clause(machine, form, clauses[name], env, shape, name)
    if message := setup_fault(shape, "max-iterations", setup["max-iterations"]):
        raise machine.fault(message, form)
    config = [[Symbol(name), value] for name, value in setup.items()]
    phases: dict[str, Any] = {}
    for name in shape.phases:
        function = yield from _clause(machine, form, clauses[name], env, shape, name)
        is_name = isinstance(function, Symbol) and machine.is_function(str.__str__(function))
        if not (isinstance(function, Closure) or callable(function) or is_name):
            raise machine.fault(
                f"{shape.name}: '{name}' expression must evaluate to a callable S-expression function, "
                f"got {_kind_and_source(function)}",
                form,
            )
        phases[name] = _aware(function, config)
    return setup, phases


def _clauses(machine: Machine, form: Form, shape: LoopShape) -> dict[str, Node]:
    names = shape.clauses
    clauses: dict[str, Node] = {}
    for clause in form.items[1:]:
        pair = pair_of(clause)
        if pair is None:
            got = to_source(datum(clause), 80)
            raise machine.fault(
                f"{shape.name}: Each clause must be a list of (ClauseName Expression), got: {got}", form
            )
        name = pair[0].name
        if name not in names:
            raise machine.fault(f"{shape.name}: Unknown clause '{name}'. Known: {', '.join(names)}", form)
        if name in clauses:
            raise machine.fault(f"{shape.name}: Duplicate clause '{name}' found.", form)
        clauses[name] = pair[1]
    missing = sorted(set(names) - clauses.keys())
    if missing:
        raise machine.fault(f"{shape.name}: Missing required clauses: {', '.join(missing)}", form)
    return clauses


def _clause(machine: Machine, form: Form, node: Node, env: Env, shape: LoopShape, name: str) -> Doing:
    try:
        return (yield (node, env))
    except SexpEvaluationError as error:
        raise machine.around(f"{shape.name}: Error evaluating '{name}': ", error, form) from error


def _phase(machine: Machine, form: Form, phases: dict[str, Any], name: str, args: list[Any], number: int) -> Doing:
    try:
        return (yield FunctionCall(phases[name], args, form))
    except SexpEvaluationError as error:
        raise machine.around(f"Error in '{name}' phase (iteration {number}): ", error, form) from error


def _aware(function: Any, config: list[Any]) -> Any:
    if not isinstance(function, Closure):
        return function
    between = SexpEnvironment({"*loop-config*": config}, function.env)
    return Closure(function.params, function.body, between, function.form, function.name)


def _decision(machine: Machine, form: Form, decided: Any, shape: LoopShape) -> tuple[str, Any]:
    if not isinstance(decided, list) or len(decided) != 2 or not isinstance(decided[0], Symbol):
        raise machine.fault(
            f"{shape.name}: Controller must return a list of (action_symbol value), got: {to_source(decided, 80)}", form
        )
    action = str.__str__(decided[0])
    if action not in ("continue", "stop"):
        raise machine.fault(
            f"{shape.name}: Controller decision action must be 'continue' or 'stop' symbol, got: '{action[:80]}'", form
        )
    return action, decided[1]


def _kind_and_source(value: Any) -> str:
    return f"{kind_of(value)}: {to_source(value, 80)}"


SHAPES = {shape.name: shape for shape in (DIRECTOR, ITERATIVE)}
LOOPS: dict[str, Handler] = {name: _phases_form(shape) for name, shape in SHAPES.items()}
