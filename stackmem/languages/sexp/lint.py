"""``stackmem lint`` for workflows: what each name is bound to, and what no form will take, without running anything.

A source is read with what it loads. Nodes wait in a list, so that no depth of nesting is too much.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stackmem.core.requests import LoadSource
from stackmem.languages.language import Finding, Reading
from stackmem.languages.operations import Source

from .calls import parameters_of, tasks_of, type_fault, unknown_type
from .errors import LineIndex, SexpSyntaxError
from .evaluator import ADDITIONS, OPERATORS
from .interpreter import source_of
from .loops import SHAPES, LoopShape
from .reader import read, split_budget
from .tools import PARAMETERS, plain_name
from .tree import Atom, Form, Name, Node, bound_names, name_of, pair_of, walk

_MOST_FILES = 50


def lint(path: str, text: str) -> Reading:
    """The findings, as a tuple of ``Finding``."""
    try:
        nodes, _ = split_budget(read(text, path))
    except SexpSyntaxError as error:
        return (Finding(path, error.line, error.column, "error", "sexp/syntax", error.error_details),)
    known, faults = yield from _library_names(path, nodes)
    analysis = Analysis(nodes, frozenset(known))
    places = LineIndex(text)
    return tuple(_finding(path, places.of(fault.at), fault) for fault in (*faults, *analysis.faults))


def inputs_of(path: str, nodes: list[Node]) -> Reading:
    """The names that the program uses and does not bind, as a set; what it loads is read."""
    known, _ = yield from _library_names(path, nodes)
    return Analysis(nodes, frozenset(known)).free


def _library_names(path: str, nodes: list[Node]) -> Reading:
    """``(names that the libraries bind, faults)``."""
    known: set[str] = set()
    faults: list[Fault] = []
    seen: set[str] = set()
    waiting = [(path, load, name) for load, name in _loads(nodes)]
    while waiting and len(seen) < _MOST_FILES:
        beside, load, name = waiting.pop()
        source: Source = yield LoadSource(name, beside)
        if source.failed:
            if beside == path:
                faults.append(Fault(load.at, "error", "unreadable library", f"'{name[:80]}': {source.failed}"))
            continue
        if source.path in seen:
            continue
        seen.add(source.path)
        try:
            inner = read(source.text, source.path)
        except SexpSyntaxError as error:
            faults.append(Fault(load.at, "error", "unreadable library", f"'{name[:80]}': {error.error_details}"))
            continue
        known |= bound_names(inner) | {task for task, _, _ in tasks_of(inner)}
        waiting += [(source.path, form, named) for form, named in _loads(inner)]
    return known, faults


def _loads(nodes: list[Node]) -> list[tuple[Form, str]]:
    """Every ``(load "…")`` with a path that is written there."""
    found: list[tuple[Form, str]] = []
    for node in walk(nodes):
        pair = pair_of(node)
        if pair is None or pair[0].name != "load" or not isinstance(node, Form):
            continue
        if isinstance(pair[1], Atom) and isinstance(pair[1].value, str):
            found.append((node, pair[1].value))
    return found


def _finding(path: str, place: tuple[int, int], fault: Fault) -> Finding:
    code = "sexp/" + fault.title.replace(" ", "-")
    return Finding(path, *place, fault.severity, code, fault.message)


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
"""Operator to how many arguments it takes at least and at most; one that is not here takes any."""


class Fault(Struct, frozen=True):
    """Something at a place; ``at`` is its character in the source."""

    at: int
    severity: Literal["error", "warning"]
    title: str
    message: str


class Bound:
    """A name in a scope.

    Attributes:
        params: How many arguments its function takes, where that is known.
        quiet: Nobody needs to use it.

    """

    def __init__(self, at: int, *, quiet: bool, params: int | None = None) -> None:
        self.at, self.quiet, self.params = at, quiet, params
        self.used = False


class LintScope:
    def __init__(self, parent: LintScope | None = None) -> None:
        self.names: dict[str, Bound] = {}
        self.parent = parent

    def find(self, name: str) -> Bound | None:
        scope: LintScope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class Analysis:
    """Of one source, beside what its libraries bind.

    Attributes:
        free: Names that nothing binds.
        tasks: Task to its parameters.

    """

    def __init__(self, nodes: list[Node], known: frozenset[str] = frozenset()) -> None:
        self.faults: list[Fault] = []
        self.free: set[str] = set()
        self._known = known
        self._scopes: list[LintScope] = []
        tasks = tasks_of(nodes)
        self.tasks = {name: params for name, params, _ in tasks}
        self._types: dict[str, dict[str, str]] = {}
        for name, _, form in tasks:
            self._declare(name, form)
            if name in OPERATORS:
                what = "the task yields to it" if name not in ADDITIONS else "the task takes its place"
                self.warn(form, "shadowed addition", f"'{name}' is a function of the language; {what}")
            elif plain_name(name) in PARAMETERS:
                self.warn(form, "shadowed tool", f"'{name}' is a tool; the task takes its place")
        self._waiting: list[tuple[Node, LintScope]] = []
        self._body(nodes, self._scope(None), quiet=True)
        while self._waiting:
            self._visit(*self._waiting.pop())
        for scope in self._scopes:
            for name, bound in scope.names.items():
                if not bound.used and not bound.quiet and not name.startswith("_"):
                    self.faults.append(Fault(bound.at, "warning", "unused", f"'{name}' is never used"))

    def _declare(self, task: str, form: Form) -> None:
        """Note its types; a task that is defined twice has none that are known."""
        params = parameters_of(form.items[2])
        twice = task in self._types
        self._types[task] = {} if twice else {name.name: kind for name, kind, _ in params if kind != "any"}
        for _, _, kind in params:
            if kind is not None and (message := unknown_type(kind)):
                self.warn(kind, "unknown type", message)

    def error(self, node: Node, title: str, message: str) -> None:
        self.faults.append(Fault(node.at, "error", title, message))

    def warn(self, node: Node, title: str, message: str) -> None:
        self.faults.append(Fault(node.at, "warning", title, message))

    def _scope(self, parent: LintScope | None) -> LintScope:
        scope = LintScope(parent)
        self._scopes.append(scope)
        return scope

    def _bind(self, scope: LintScope, name: Name, *, quiet: bool, params: int | None = None) -> None:
        if name.name in ADDITIONS:
            self.warn(name, "shadowed addition", f"'{name.name}' is a function of the language; this takes its place")
        there = scope.names.get(name.name)
        scope.names[name.name] = Bound(name.at, quiet=quiet, params=None if there else params)

    def _body(self, nodes: list[Node], scope: LintScope, *, quiet: bool = False) -> None:
        """Bind what ``bind`` and ``define`` bind in this scope, then look at the nodes."""
        waiting = list(reversed(nodes))
        while waiting:
            node = waiting.pop()
            if not isinstance(node, Form) or not node.items:
                continue
            head = name_of(node.items[0])
            target = node.items[1] if len(node.items) > 1 else None
            if head in ("bind", "define") and isinstance(target, Name):
                self._bind(scope, target, quiet=quiet)
            elif head == "define" and isinstance(target, Form) and target.items and isinstance(target.items[0], Name):
                self._bind(scope, target.items[0], quiet=quiet, params=len(target.items) - 1)
                continue
            if head not in ("quote", "lambda", "let", "let*", "catch"):
                waiting += reversed(node.items)
        self._waiting += [(node, scope) for node in reversed(nodes)]

    def _visit(self, node: Node, scope: LintScope) -> None:
        if isinstance(node, Name):
            self._use(node, scope)
        if not isinstance(node, Form) or not node.items:
            return
        head, args = node.items[0], node.items[1:]
        if not isinstance(head, Name):
            if isinstance(head, Atom):
                self.error(node, "unknown operator", "a value stands where a function is called")
            if isinstance(head, Form) and name_of(head.items[0] if head.items else head) == "lambda":
                self._lambda_call(node, head)
            self._waiting += [(item, scope) for item in node.items]
            return
        name = head.name
        bound = scope.find(name)
        if (
            name in OPERATORS
            and (name not in ADDITIONS or bound is None)
            and not (name in self.tasks and name in ADDITIONS)
        ):
            self._operator(node, name, scope)
        elif name in self.tasks or (bound is None and plain_name(name) in PARAMETERS):
            self._invocation(node, name, scope)
        elif bound is None and name not in self._known:
            self.free.add(name)
            self.warn(head, "unknown operator", f"nothing here binds '{name}'; is it an input, or a tool of your own?")
            self._waiting += [(pair[1] if (pair := pair_of(item)) else item, scope) for item in args]
        else:
            if bound is not None:
                bound.used = True
                if bound.params is not None and bound.params != len(args):
                    self.error(node, "arity", f"'{name}' takes {bound.params} arguments, got {len(args)}")
            self._waiting += [(item, scope) for item in args]

    def _use(self, node: Name, scope: LintScope) -> None:
        bound = scope.find(node.name)
        if bound is not None:
            bound.used = True
            return
        name = node.name
        if name in OPERATORS - {"if"} or name in self.tasks or name in self._known or plain_name(name) in PARAMETERS:
            return
        if name == "*loop-config*":
            return
        self.free.add(name)
        self.warn(node, "unbound", f"nothing here binds '{name}'; give it with --input")

    def _lambda_call(self, node: Form, head: Form) -> None:
        params = head.items[1] if len(head.items) > 1 else None
        if isinstance(params, Form) and len(params.items) != len(node.items) - 1:
            self.error(node, "arity", f"the lambda takes {len(params.items)} arguments, got {len(node.items) - 1}")

    def _operator(self, node: Form, name: str, scope: LintScope) -> None:
        args = node.items[1:]
        least, most = ARITY.get(name, (0, ANY))
        if not least <= len(args) <= most:
            wanted = f"{least}" if least == most else f"at least {least}" if most == ANY else f"{least} or {most}"
            self.error(node, "arity", f"'{name}' takes {wanted} arguments, got {len(args)}")
            return
        match name:
            case "quote" | "defatom":
                return
            case "let" | "let*":
                self._let(node, name, scope)
            case "lambda":
                self._function(args[0], args[1:], scope, node)
            case "define" if isinstance(args[0], Form):
                self._function(Form(args[0].items[1:], args[0].at, args[0].end, args[0].source), args[1:], scope, node)
            case "bind" | "define" | "set!":
                self._assignment(node, name, scope)
            case "cond":
                for clause in args:
                    if not isinstance(clause, Form) or not clause.items:
                        self.error(clause, "clause", "a clause of 'cond' is (test expression...)")
                        continue
                    skip = 1 if name_of(clause.items[0]) == "else" else 0
                    self._waiting += [(item, scope) for item in clause.items[skip:]]
            case "try":
                self._try(node, scope)
            case "director-evaluator-loop" | "iterative-loop":
                self._loop(node, SHAPES[name], scope)
            case "get_context" | "get-context":
                self._pairs(node, name, scope)
            case _:
                self._waiting += [(item, scope) for item in args]

    def _let(self, node: Form, name: str, scope: LintScope) -> None:
        bindings, body = node.items[1], node.items[2:]
        inner = self._scope(scope)
        for binding in bindings.items if isinstance(bindings, Form) else [bindings]:
            pair = pair_of(binding)
            if pair is None:
                self.error(binding, "clause", f"a binding of '{name}' is (symbol expression)")
                continue
            self._bind(inner, pair[0], quiet=False)
            self._waiting.append((pair[1], inner if name == "let*" else scope))
        self._body(body, inner)

    def _function(self, params: Node, body: list[Node], scope: LintScope, node: Form) -> None:
        if not isinstance(params, Form) or not all(isinstance(item, Name) for item in params.items):
            self.error(node, "clause", "parameters are a list of symbols")
            return
        inner = self._scope(scope)
        for item in params.items:
            if isinstance(item, Name):
                if item.name in inner.names:
                    self.error(item, "clause", f"the parameter '{item.name}' is there twice")
                self._bind(inner, item, quiet=True)
        self._body(body, inner)

    def _assignment(self, node: Form, name: str, scope: LintScope) -> None:
        target = node.items[1]
        if not isinstance(target, Name) or len(node.items) != 3:
            self.error(node, "clause", f"'{name}' takes a symbol and an expression")
            return
        if name == "set!" and scope.find(target.name) is None:
            self._use(target, scope)
        self._waiting.append((node.items[2], scope))

    def _try(self, node: Form, scope: LintScope) -> None:
        clause = node.items[2]
        items = clause.items if isinstance(clause, Form) else []
        names = items[1].items if len(items) > 2 and isinstance(items[1], Form) else []
        if len(names) != 1 or not isinstance(names[0], Name) or name_of(items[0]) != "catch":
            self.error(clause, "clause", "'try' ends with (catch (name) expression...)")
            return
        inner = self._scope(scope)
        self._bind(inner, names[0], quiet=True)
        self._waiting.append((node.items[1], scope))
        self._body(items[2:], inner)

    def _loop(self, node: Form, shape: LoopShape, scope: LintScope) -> None:
        known = shape.clauses
        seen: set[str] = set()
        for clause in node.items[1:]:
            pair = pair_of(clause)
            if pair is None:
                self.error(clause, "clause", f"a clause of '{shape.name}' is (name expression)")
                continue
            name = pair[0].name
            if name not in known or name in seen:
                what = "is there twice" if name in seen else f"is unknown; known: {', '.join(known)}"
                self.error(clause, "clause", f"the clause '{name}' of '{shape.name}' {what}")
            seen.add(name)
            self._waiting.append((pair[1], scope))
        missing = [name for name in known if name not in seen]
        if missing:
            self.error(node, "clause", f"'{shape.name}' lacks {', '.join(missing)}")

    def _invocation(self, node: Form, name: str, scope: LintScope) -> None:
        given = self._pairs(node, name, scope)
        if name not in self.tasks:
            return
        known = {*self.tasks[name], "files", "context", "history_config"}
        for extra in sorted({key.name for key, _ in given} - known):
            self.error(node, "arity", f"the task '{name}' has no parameter '{extra}'")
        for key, value in given:
            message = type_fault(name, key.name, self._types[name].get(key.name, "any"), value)
            if message:
                self.error(value, "type", message)

    def _pairs(self, node: Form, name: str, scope: LintScope) -> list[tuple[Name, Node]]:
        """The arguments of a call that are pairs; the others are faults."""
        given = []
        for item in node.items[1:]:
            pair = pair_of(item)
            if pair is None:
                got = source_of(item, 80) if isinstance(item, Form | Name) else "a value"
                self.error(item, "clause", f"an argument of '{name}' is (key expression), got {got}")
            else:
                given.append(pair)
                self._waiting.append((pair[1], scope))
        return given
