"""Static analysis of a source: binds its names and reports what no form accepts, without running anything.

Nodes wait in a list instead of on the call stack, so any nesting depth works. Faults that ``try`` or ``log-message``
would catch are warnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from .call_checks import (
    ANY,
    ARITY,
    CONTENT,
    UNKNOWN,
    Check,
    NamedArguments,
    arity_fault,
    calls_of,
    clause_faults,
    context_faults,
    counted,
    form_value_fault,
    lambda_count,
    literal,
    result_misuse,
    setting_faults,
    task_faults,
    tool_faults,
    type_warning,
    value_fault,
)
from .calls import least_count, optional_params
from .definitions import TaskDefinition, definition_of, definitions_of
from .evaluator import ADDITIONS, OPERATORS
from .interpreter import source_of
from .lint_scopes import Bound, LintFault, LintScope, Surroundings, operator_hint
from .loops import SHAPES, LoopShape
from .primitives import ADDED, DOCUMENT
from .tools import KINDS, PARAMETERS, plain_name
from .tree import Form, Name, Node, Symbol, name_of, pair_of
from .values import to_source

_MAX_SUGGESTED = 20
"""Maximum number of unknown names that get suggestions, so hostile sources stay fast."""


class Analysis:
    """The analysis of one source."""

    def __init__(self, nodes: list[Node], around: Surroundings | None = None) -> None:
        self.faults: list[LintFault] = []
        # forms that are evaluated, in contrast to quoted forms, lists of names, and clauses
        self.evaluated: list[Form] = []
        # unbound names with their first occurrence; ``needed`` contains those whose error nothing would catch
        self.free: dict[str, Name] = {}
        self.needed: dict[str, Node] = {}
        self._around = around or Surroundings()
        self._scopes: list[LintScope] = []
        self._changed = {name_of(form.items[1]) for form in calls_of(nodes, "set!") if len(form.items) > 1}
        self._tasks: dict[str, TaskDefinition | None] = {}
        for task in definitions_of(nodes):
            name = task.template["name"]
            is_known = name not in self._tasks and name not in self._around.names
            self._tasks[name] = task if is_known else None
        self._waiting: list[tuple[Node, LintScope]] = []
        self._body(nodes, self._scope(None), quiet=True)
        while self._waiting:
            self._visit(*self._waiting.pop())
        for scope in self._scopes:
            for name, bound in scope.names.items():
                if not bound.used and not bound.quiet and not name.startswith("_"):
                    self.faults.append(LintFault(bound.at, "warning", "unused", f"'{name}' is never used"))

    def _error(self, node: Node, title: str, message: str, scope: LintScope) -> None:
        self.faults.append(LintFault(node.at, "warning" if scope.caught else "error", title, message))

    def _warn(self, node: Node, title: str, message: str) -> None:
        self.faults.append(LintFault(node.at, "warning", title, message))

    def _report(self, checks: Iterable[Check | tuple[None, str, str]], form: Node, scope: LintScope) -> None:
        for node, title, message in checks:
            if title == "missing-argument":
                self._warn(form, title, message)
            else:
                self._error(node or form, title, message, scope)

    def _scope(self, parent: LintScope | None, *, caught: bool = False) -> LintScope:
        scope = LintScope(parent, caught=caught)
        self._scopes.append(scope)
        return scope

    def _wait(self, nodes: Iterable[Node], scope: LintScope) -> None:
        self._waiting += [(node, scope) for node in nodes]

    def _bind(
        self, scope: LintScope, name: Name, *, quiet: bool, params: int | None = None, value: Node | None = None
    ) -> None:
        if name.name in ADDITIONS:
            message = f"'{name.name}' is a function of the language; this definition replaces it"
            self._warn(name, "shadowed addition", message)
        params = lambda_count(value) if value else params
        is_new = name.name not in scope.names and name.name not in self._changed | self._around.names
        is_result = is_new and self._is_result(value, scope)
        scope.names[name.name] = Bound(name.at, quiet=quiet, params=params if is_new else None, is_result=is_result)

    def _body(self, nodes: list[Node], scope: LintScope, *, quiet: bool = False) -> None:
        """Bind the names of ``bind`` and ``define`` in this scope, then visit the nodes."""
        waiting = list(reversed(nodes))
        while waiting:
            node = waiting.pop()
            if not isinstance(node, Form) or not node.items:
                continue
            head = name_of(node.items[0])
            target = node.items[1] if len(node.items) > 1 else None
            if head in ("bind", "define") and isinstance(target, Name):
                self._bind(scope, target, quiet=quiet, value=node.items[-1])
            elif head == "define" and isinstance(target, Form) and target.items and isinstance(target.items[0], Name):
                self._bind(scope, target.items[0], quiet=quiet, params=len(target.items) - 1)
                continue
            if head == "let" and isinstance(target, Form):
                waiting += [pair[1] for binding in reversed(target.items) if (pair := pair_of(binding))]
            elif head not in ("quote", "lambda", "let", "let*", "catch", "defatom"):
                waiting += reversed(node.items)
        self._wait(reversed(nodes), scope)

    def _visit(self, node: Node, scope: LintScope) -> None:
        if isinstance(node, Name):
            self._use(node, scope)
        if not isinstance(node, Form) or not node.items:
            return
        self.evaluated.append(node)
        head, args = node.items[0], node.items[1:]
        if not isinstance(head, Name):
            if not isinstance(head, Form) or not head.items:
                self._error(node, "unknown operator", "a value stands where a function is called", scope)
            elif name_of(head.items[0]) in ("lambda", "quote"):
                self._applied(head, len(args), node, scope)
            self._wait(node.items, scope)
            return
        name = head.name
        if name in OPERATORS and name not in ADDITIONS:
            self._operator(node, name, scope)
        elif name in self._tasks or self._is_tool(name):
            self._invocation(node, name, scope)
        elif (bound := scope.find(name)) is not None:
            bound.used = True
            self._applied(head, len(args), node, scope)
            self._wait(args, scope)
        elif name in ADDITIONS and name not in self._around.names:
            self._operator(node, name, scope)
        else:
            if name not in self._around.names:
                self._unknown_operator(head, name, scope)
            self._wait([pair[1] if (pair := pair_of(item)) else item for item in args], scope)

    def _is_result(self, node: Node | None, scope: LintScope) -> bool:
        """Return whether the value of a node is the result of a task or tool."""
        if isinstance(node, Form) and node.items and isinstance(node.items[0], Name):
            name = node.items[0].name
            return not (name in OPERATORS and name not in ADDITIONS) and (name in self._tasks or self._is_tool(name))
        return isinstance(node, Name) and (bound := scope.find(node.name)) is not None and bound.is_result

    def _is_tool(self, name: str) -> bool:
        return plain_name(name) in PARAMETERS or plain_name(name) in self._around.tools

    def _unknown_operator(self, head: Name, name: str, scope: LintScope) -> None:
        self.free.setdefault(name, head)
        candidates = {*OPERATORS, *self._tasks, *PARAMETERS, *self._around.names, *self._around.tools}
        bound = (each for scope in self._scopes for each in scope.names)
        hint = operator_hint(name, chain(candidates, bound) if len(self.free) <= _MAX_SUGGESTED else ())
        message = f"nothing here binds '{name}'{hint}"
        if self._around.is_whole and "__" not in name:  # tools of a server are named SERVER__TOOL
            self._error(head, "unknown operator", message, scope)
        else:
            self._warn(head, "unknown operator", message)

    def _use(self, node: Name, scope: LintScope) -> None:
        bound = scope.find(node.name)
        name = node.name
        if bound is not None:
            bound.used = True
        elif not self._is_global(name) and name not in self._around.names and name != "*loop-config*":
            self._unbound(node, node, scope)

    def _unbound(self, name: Name, node: Node, scope: LintScope) -> None:
        self.free.setdefault(name.name, name)
        if not scope.caught and self._around.is_whole:
            self.needed.setdefault(name.name, node)
        self._warn(node, "unbound", f"'{name.name}' is not bound here; pass it with --input")

    def _applied(self, function: Node, count: int, form: Form, scope: LintScope, *, name: str = "") -> None:
        """Check a call of a function with ``count`` arguments.

        ``name`` is the form that makes the call, such as ``map``, if it is not a direct call.
        """
        value = literal(function)
        takes: tuple[int, int] | None = None
        called = function.name if isinstance(function, Name) else "the lambda"
        if value is not UNKNOWN:
            if not isinstance(value, str) or (name in SHAPES and not isinstance(value, Symbol)):
                got = to_source(value, 80)
                self._error(function, "clause", f"'{name or 'a call'}' wants a function, got {got}", scope)
                return
            called = str.__str__(value)
            takes = self._global_takes(called)
            if self._around.is_whole and not self._is_global(called) and called not in self._around.names:
                self._error(function, "unknown operator", f"'{called[:80]}' names no function, task or tool", scope)
        elif isinstance(function, Form):
            params = lambda_count(function)
            takes = None if params is None else (params, params)
        elif isinstance(function, Name):
            bound = scope.find(called)
            params = bound.params if bound else None
            takes = (params, params) if params is not None else None if bound else self._global_takes(called)
        if takes is not None and not takes[0] <= count <= takes[1]:
            label = f"'{called}'" if called != "the lambda" else called
            by = f", and '{name}' gives it {count}" if name else f", got {count}"
            self._error(function if name else form, "arity", f"{label} takes {counted(*takes)}{by}", scope)

    def _is_global(self, name: str) -> bool:
        """Return whether a name refers to a function even without a variable."""
        return name in DOCUMENT or name in ADDED or name in self._tasks or self._is_tool(name)

    def _global_takes(self, name: str) -> tuple[int, int] | None:
        """Return how many positional arguments a name accepts if it is not a variable."""
        if name in self._tasks:
            task = self._tasks[name]
            names = tuple(task.params) if task else ()
            return (least_count(names, optional_params(task.params)), len(names)) if task else None
        parameters = PARAMETERS.get(plain_name(name))
        if parameters is not None:
            return 0, len(parameters)
        if name in self._around.names or plain_name(name) in self._around.tools:
            return None
        return ARITY.get(name, (0, ANY)) if name in DOCUMENT or name in ADDED else None

    def _operator(self, node: Form, name: str, scope: LintScope) -> None:
        args = node.items[1:]
        message = arity_fault(name, len(args))
        if message:
            self._error(node, "arity", message, scope)
            return
        match name:
            case "quote":
                return
            case "defatom":
                self._definition(node, scope)
            case "let" | "let*":
                self._let(node, name, scope)
            case "lambda":
                self._function(args[0], args[1:], scope, node)
            case "define" if isinstance(args[0], Form):
                if not args[0].items or not isinstance(args[0].items[0], Name):
                    self._error(node, "clause", "'define' takes a symbol, or (symbol params...)", scope)
                    return
                self._function(Form(args[0].items[1:], args[0].at, args[0].end, args[0].source), args[1:], scope, node)
            case "bind" | "define" | "set!":
                self._assignment(node, name, scope)
            case "cond":
                self._cond(args, scope)
            case "try":
                self._try(node, scope)
            case "log-message":
                self._wait(args, self._scope(scope, caught=True))
            case "director-evaluator-loop" | "iterative-loop":
                self._phases(node, SHAPES[name], scope)
            case "get_context" | "get-context":
                self._report(context_faults(self._pairs(node, name, scope)), node, scope)
            case _:
                self._plain_operator(node, name, scope)

    def _plain_operator(self, node: Form, name: str, scope: LintScope) -> None:
        """Check a primitive, or a form that evaluates all its arguments in the current scope."""
        args = node.items[1:]
        if name in ("map", "filter", "reduce"):
            count = len(args) - 1 if name == "map" else 2 if name == "reduce" else 1
            self._applied(args[0], count, node, scope, name=name)
        elif message := value_fault(name, args) or form_value_fault(name, args):
            self._error(node, "value", message, scope)
        if message := result_misuse(name, args, [at for at, arg in enumerate(args) if self._is_result(arg, scope)]):
            self._warn(node, "task result", message)
        self._wait(args, scope)

    def _definition(self, node: Form, scope: LintScope) -> None:
        definition = definition_of(node)
        self._report(((at, "clause", error.message) for at, error in definition.faults), node, scope)
        for kind in definition.types:
            if message := type_warning(kind):
                self._warn(kind, "unknown type", message)
        for slot, param in definition.slots.items():
            if not param:
                allowed = ", ".join(definition.params) or "none"
                self._error(node, "slot", f"no parameter fills the slot '{{{{{slot}}}}}'; known: {allowed}", scope)
        name = definition.template.get("name", "")
        if name in OPERATORS:
            effect = "it hides the task" if name not in ADDITIONS else "the task replaces it"
            self._warn(node, "shadowed addition", f"'{name}' is a function of the language; {effect}")
        elif self._is_tool(name):
            self._warn(node, "shadowed tool", f"'{name}' is a tool; the task replaces it")
        schema_name = definition.schema_name
        if schema_name and scope.find(schema_name) is None and schema_name not in self._around.names:
            self._unbound(Name(schema_name, node.at, node.source), node, scope)
        elif schema_name and (bound := scope.find(schema_name)):
            bound.used = True

    def _let(self, node: Form, name: str, scope: LintScope) -> None:
        bindings, body = node.items[1], node.items[2:]
        inner = self._scope(scope)
        if not isinstance(bindings, Form):
            self._error(bindings, "clause", f"the bindings of '{name}' are a list of (symbol expression)", scope)
            return
        for binding in bindings.items:
            pair = pair_of(binding)
            if pair is None:
                self._error(binding, "clause", f"a binding of '{name}' is (symbol expression)", scope)
                continue
            self._bind(inner, pair[0], quiet=False, value=pair[1])
            self._wait([pair[1]], inner if name == "let*" else scope)
        self._body(body, inner)

    def _function(self, params: Node, body: list[Node], scope: LintScope, node: Form) -> None:
        if not isinstance(params, Form) or not all(isinstance(item, Name) for item in params.items):
            self._error(node, "clause", "parameters are a list of symbols", scope)
            return
        inner = self._scope(scope)
        for item in params.items:
            if isinstance(item, Name):
                if item.name in inner.names:
                    self._error(item, "clause", f"the parameter '{item.name}' is there twice", scope)
                self._bind(inner, item, quiet=True)
        self._body(body, inner)

    def _assignment(self, node: Form, name: str, scope: LintScope) -> None:
        target = node.items[1]
        if not isinstance(target, Name) or len(node.items) != 3:
            self._error(node, "clause", f"'{name}' takes a symbol and an expression", scope)
            return
        if name == "set!" and scope.find(target.name) is None:
            self._unbound(target, target, scope)
        self._wait([node.items[2]], scope)

    def _cond(self, clauses: list[Node], scope: LintScope) -> None:
        for clause in clauses:
            if not isinstance(clause, Form) or not clause.items:
                self._error(clause, "clause", "a clause of 'cond' is (test expression...)", scope)
                continue
            self._wait(clause.items[1 if name_of(clause.items[0]) == "else" else 0 :], scope)

    def _try(self, node: Form, scope: LintScope) -> None:
        clause = node.items[2]
        items = clause.items if isinstance(clause, Form) else []
        names = items[1].items if len(items) > 2 and isinstance(items[1], Form) else []
        if len(names) != 1 or not isinstance(names[0], Name) or name_of(items[0]) != "catch":
            self._error(clause, "clause", "'try' ends with (catch (name) expression...)", scope)
            return
        inner = self._scope(scope)
        self._bind(inner, names[0], quiet=True)
        self._wait([node.items[1]], self._scope(scope, caught=True))
        self._body(items[2:], inner)

    def _phases(self, node: Form, shape: LoopShape, scope: LintScope) -> None:
        self._report(clause_faults(shape, node), node, scope)
        for clause in node.items[1:]:
            pair = pair_of(clause)
            if pair is None:
                continue
            if pair[0].name in shape.phases:
                self._applied(pair[1], len(shape.phases[pair[0].name]) + 1, node, scope, name=shape.name)
            self._wait([pair[1]], scope)

    def _invocation(self, node: Form, name: str, scope: LintScope) -> None:
        """Check a call of a task or tool with named arguments."""
        arguments = self._pairs(node, name, scope)
        if name in self._tasks:
            task = self._tasks[name]
            self._report(task_faults(task, arguments) if task else setting_faults(arguments, history=True), node, scope)
        elif plain_name(name) in self._around.tools:
            self._report(setting_faults(arguments, history=False), node, scope)
        else:
            self._report(tool_faults(name, PARAMETERS[plain_name(name)] or (), arguments), node, scope)
            for key, value in arguments:
                if key.name in KINDS and self._is_result(value, scope):
                    self._warn(value, "task result", f"'{key.name}' gets a task's result; {CONTENT}")

    def _pairs(self, node: Form, name: str, scope: LintScope) -> NamedArguments:
        """Return the arguments of a call that are pairs, each name once. The others are faults."""
        by_name: dict[str, tuple[Name, Node]] = {}
        for item in node.items[1:]:
            pair = pair_of(item)
            if pair is None:
                got = source_of(item, 80) if isinstance(item, Form | Name) else "a value"
                self._error(item, "clause", f"an argument of '{name}' is (key expression), got {got}", scope)
                continue
            if pair[0].name in by_name:
                self._error(item, "clause", f"the argument '{pair[0].name}' of '{name}' is there twice", scope)
            by_name.setdefault(pair[0].name, pair)
            self._wait([pair[1]], scope)
        return list(by_name.values())
