"""Checks calls statically, as far as their arguments are literals: their number, names and values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

from .calls import TYPE_NAMES, context_of, files_of, fits, history_of, known_type, misfit, optional_params
from .definitions import TaskDefinition
from .errors import Budget, Meter, SexpEvaluationError, TaskError
from .loops import LoopShape, setup_fault
from .outside_forms import CONTEXT_KEYS, context_fault
from .primitives import ADDED, DOCUMENT
from .tools import KINDS, NEEDED, plain_name
from .tree import Atom, Form, Name, Node, datum, name_of, pair_of, walk
from .values import to_source

ANY = 1_000
ARITY: dict[str, tuple[int, int]] = {
    "if": (3, 3), "quote": (1, 1), "loop": (2, 2), "set!": (2, 2), "bind": (2, 2), "-": (1, 2), "<": (2, 2),
    "not": (1, 1), "eq?": (2, 2), "equal?": (2, 2), "null?": (1, 1), "nil?": (1, 1), "string=?": (2, 2),
    "get-field": (2, 2), "get_context": (1, ANY), "get-context": (1, ANY), "let": (2, ANY), "let*": (2, ANY),
    "lambda": (2, ANY), "define": (2, ANY), "when": (2, ANY), "map": (2, ANY), "filter": (2, 2), "reduce": (3, 3),
    "try": (2, 2), "load": (1, 1), "=": (1, ANY), ">": (1, ANY), "<=": (1, ANY), ">=": (1, ANY), "/": (2, 2),
    "mod": (2, 2), "car": (1, 1), "first": (1, 1), "cdr": (1, 1), "rest": (1, 1), "cons": (2, 2), "nth": (2, 2),
    "length": (1, 1), "assoc": (2, 2), "string-split": (1, 2), "string-join": (1, 2), "task-ok?": (1, 1),
    "task-content": (1, 1), "task-exit-code": (1, 1), "defatom": (3, ANY),
}  # fmt: skip
"""Minimum and maximum number of arguments by operator. An operator that is not listed accepts any number."""

UNKNOWN = object()
_DEEPEST = 50
_MAX_UNKNOWN = 2
_RESULT = {"content": "a", "status": "COMPLETE", "notes": {}}
"""Substitute for the result of a task."""
_SAMPLES: tuple[Any, ...] = (1, "a", [])
"""Substitutes for unknown values. Whatever a primitive accepts, it accepts with one of these."""

Check = tuple[Node, str, str]
"""The faulty node, the title of the finding, and its message."""
NamedArguments = list[tuple[Name, Node]]


def literal(node: Node) -> Any:
    """Return the value of a literal node; ``UNKNOWN`` for any other."""
    if isinstance(node, Atom):
        return node.value
    if isinstance(node, Name) or node.height > _DEEPEST:
        return UNKNOWN
    if not node.items:
        return []
    head = name_of(node.items[0])
    if head == "quote" and len(node.items) == 2:
        return datum(node.items[1])
    values = [literal(item) for item in node.items[1:]] if head == "list" else [UNKNOWN]
    return UNKNOWN if UNKNOWN in values else values


def arity_fault(name: str, count: int) -> str:
    """Return a message if an operator does not accept this number of arguments; otherwise an empty text."""
    least, most = ARITY.get(name, (0, ANY))
    return "" if least <= count <= most else f"'{name}' takes {counted(least, most)}, got {count}"


def counted(least: int, most: int) -> str:
    amount = f"{least}" if least == most else f"at least {least}" if most >= ANY else f"{least} to {most}"
    return f"{amount} argument{'' if amount == '1' else 's'}"


def value_fault(name: str, args: list[Node], results: Collection[int] = ()) -> str:
    """Return the error a primitive raises for its literal arguments whatever the others are.

    Empty if some values of the other arguments would be accepted. ``results`` are the positions of the arguments that
    are results of tasks.
    """
    primitive = DOCUMENT.get(name) or ADDED.get(name)
    values = [_RESULT if at in results else literal(arg) for at, arg in enumerate(args)]
    unknown = [number for number, value in enumerate(values) if value is UNKNOWN]
    if primitive is None or len(unknown) == len(values) or len(unknown) > _MAX_UNKNOWN:
        return ""
    message = ""
    for samples in product(_SAMPLES, repeat=len(unknown)):
        for number, sample in zip(unknown, samples, strict=True):
            values[number] = sample
        try:
            primitive(list(values), Meter(Budget()))
        except SexpEvaluationError as error:
            message = message or error.message
        except TaskError:
            return ""
        else:
            return ""
    return message


CONTENT = "write (task-content result) for its value"
_TAKES_ANYTHING = ("string-append", "string-join", "length", "eq?", "equal?")
"""Functions that accept a task's result, but are hardly ever meant to get the whole of it."""


def result_misuse(name: str, args: list[Node], results: Collection[int]) -> str:
    """Return a message if a function gets a task's result where its content is wanted; otherwise an empty text.

    ``results`` are the positions of the arguments that are results of tasks.
    """
    if not results:
        return ""
    if name in ("if", "when", "not") and 0 in results:
        return f"'{name}' gets a task's result, which is always true; write (task-ok? result)"
    compares_results = name in ("eq?", "equal?") and len(results) == len(args)
    if (name in _TAKES_ANYTHING and not compares_results) or value_fault(name, args, results):
        return f"'{name}' gets a task's result; {CONTENT}"
    return ""


def calls_of(nodes: list[Node], name: str) -> list[Form]:
    """Return every form whose operator has this name."""
    forms = (node for node in walk(nodes) if isinstance(node, Form) and node.items)
    return [form for form in forms if name_of(form.items[0]) == name]


def lambda_count(node: Node) -> int | None:
    """Return how many arguments a literal lambda accepts."""
    if not isinstance(node, Form) or len(node.items) < 3 or name_of(node.items[0]) != "lambda":
        return None
    params = node.items[1]
    return len(params.items) if isinstance(params, Form) else None


def task_faults(task: TaskDefinition, arguments: NamedArguments) -> Iterator[Check | tuple[None, str, str]]:
    """Yield the faults of a call with named arguments. A fault of the whole call has no node."""
    name, params = task.template["name"], task.params
    accepted = {*params, "files", "context", "history_config"}
    for key, value in arguments:
        if key.name not in accepted:
            takes = ", ".join(params) or "none"
            yield None, "arity", f"the task '{name}' has no parameter '{key.name}'; it takes {takes}"
        yield from _type_faults(name, key, params.get(key.name, {}).get("type", "any"), value)
    yield from setting_faults(arguments, history=True)
    missing = params.keys() - optional_params(params) - {key.name for key, _ in arguments}
    filling = set(task.slots.values())
    for param in [param for param in params if param in missing]:
        if param in filling:
            yield None, "arity", f"the task '{name}' needs '{param}', which a slot of its instructions names"
        else:
            yield None, "missing-argument", f"the call of the task '{name}' omits '{param}'"


def _type_faults(task: str, key: Name, kind: str, node: Node) -> Iterator[Check]:
    value = literal(node)
    if value is not UNKNOWN and not fits(value, kind):
        message = misfit(task, key.name, kind, value)
        yield node, "type", message[0].lower() + message[1:]


def type_warning(kind: Name) -> str:
    """Return a message if values are not checked against a type; otherwise an empty text."""
    return "" if known_type(kind.name) else f"'{kind.name[:80]}' is a type that is not checked; known: {TYPE_NAMES}"


def setting_faults(arguments: NamedArguments, *, history: bool) -> Iterator[Check]:
    """Yield the faults of the keys that are settings instead of inputs, if their values are literals."""
    checks: dict[str, Any] = {"files": files_of, "context": context_of}
    if history:
        checks["history_config"] = history_of
    for key, node in arguments:
        value = literal(node) if key.name in checks else UNKNOWN
        if value is not UNKNOWN:
            try:
                checks[key.name](value)
            except SexpEvaluationError as error:
                yield node, "clause", error.message


def tool_faults(
    name: str, tools: tuple[str, ...], arguments: NamedArguments
) -> Iterator[Check | tuple[None, str, str]]:
    """Yield the faults of a call to a built-in tool."""
    takes = f"it takes {', '.join(tools)}"
    for key, node in arguments:
        value = literal(node)
        kind = KINDS.get(key.name, "any")
        if key.name not in tools:
            yield key, "arity", f"the tool '{name}' takes no '{key.name}'; {takes}"
        elif value is not UNKNOWN and not fits(value, f"{kind}?"):
            yield node, "type", misfit(name, key.name, kind, value).replace("Task", "the tool", 1)
    names = {key.name for key, node in arguments if literal(node) != []}
    for needed in NEEDED.get(plain_name(name), ()):
        if needed not in names:
            yield None, "arity", f"the tool '{name}' needs '{needed}'; {takes}"


def form_value_fault(name: str, args: list[Node]) -> str:
    """Return the error of ``loop`` or ``load`` for a literal first argument; empty if it is valid."""
    value = literal(args[0]) if args else UNKNOWN
    if name == "loop" and value is not UNKNOWN:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"Loop count must evaluate to an integer. Got: {to_source(value, 80)}"
        return "Loop count must be non-negative." if value < 0 else ""
    if name == "load" and value is not UNKNOWN and (not isinstance(value, str) or not value):
        return "'load' requires the path of a file: (load \"lib.sexp\")"
    return ""


def context_faults(arguments: NamedArguments) -> Iterator[Check]:
    """Yield the faults of the parameters of ``get_context``."""
    for key, node in arguments:
        value = literal(node)
        if key.name not in CONTEXT_KEYS:
            yield key, "clause", f"'get_context' takes no '{key.name}'; it takes {', '.join(CONTEXT_KEYS)}"
        elif value is not UNKNOWN and (message := context_fault(key.name, value)):
            yield node, "clause", message


def clause_faults(shape: LoopShape, form: Form) -> Iterator[Check]:
    """Yield the faults of the clauses of a phase loop."""
    clauses = shape.clauses
    seen: set[str] = set()
    for clause in form.items[1:]:
        pair = pair_of(clause)
        if pair is None:
            yield clause, "clause", f"a clause of '{shape.name}' is (name expression)"
            continue
        name = pair[0].name
        if name not in clauses or name in seen:
            problem = "is there twice" if name in seen else f"is unknown; known: {', '.join(clauses)}"
            yield clause, "clause", f"the clause '{name}' of '{shape.name}' {problem}"
        seen.add(name)
        value = literal(pair[1])
        if value is not UNKNOWN and (message := setup_fault(shape, name, value)):
            yield pair[1], "value", message
    missing = [name for name in clauses if name not in seen]
    if missing:
        yield form, "clause", f"'{shape.name}' lacks {', '.join(missing)}"
