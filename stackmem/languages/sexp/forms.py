"""The special forms that need no requests to the host."""

from __future__ import annotations

from typing import Any

from .errors import SexpEvaluationError, UnboundSymbolError
from .interpreter import Doing, Env, FunctionCall, Handler, Machine, Tail, body, source_of, values_of
from .requests import Breath
from .tree import Form, Name, Node, Symbol, datum, name_of, pair_of, size_of
from .values import Closure, SexpEnvironment, from_python, to_source, truthy


def if_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) != 4:
        raise machine.fault("'if' requires 3 arguments: (if condition then_branch else_branch)", form)
    branch = form.items[2] if truthy((yield (form.items[1], env))) else form.items[3]
    return Tail(branch, env)


def let_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Bind in parallel: the values do not see each other's names."""
    return (yield from _let(machine, form, env, "let"))


def let_star_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Bind in sequence: each value sees the earlier names."""
    return (yield from _let(machine, form, env, "let*"))


def _let(machine: Machine, form: Form, env: Env, name: str) -> Doing:
    if len(form.items) < 2 or not isinstance(form.items[1], Form):
        raise machine.fault(f"'{name}' requires a list of bindings: ({name} ((symbol expression) ...) body...)", form)
    if len(form.items) < 3:
        raise machine.fault(f"'{name}' requires at least one body expression.", form)
    scope = SexpEnvironment(None, env)
    bindings: dict[str, Any] = scope.bindings if name == "let*" else {}
    for binding in form.items[1].items:
        pair = pair_of(binding)
        if pair is None:
            got = _datum_source(binding)
            raise machine.fault(f"Invalid '{name}' binding format: expected (symbol expression), got {got}", form)
        try:
            bindings[pair[0].name] = yield (pair[1], scope if name == "let*" else env)
        except SexpEvaluationError as error:
            reason = error.error_details or error.message
            text = f"Error evaluating value for '{name}' binding '{pair[0].name}': {_source(pair[1])}"
            outer = SexpEvaluationError(text, error.expression, reason)
            outer.position = error.position
            raise machine.locate(outer, form) from error
    scope.bindings = bindings
    for expression in form.items[2:-1]:  # same as body(), without the cost of another generator for every `let`
        yield (expression, scope)
    return Tail(form.items[-1], scope)


def bind_form(machine: Machine, form: Form, env: Env) -> Doing:
    name = form.items[1] if len(form.items) == 3 else None
    if not isinstance(name, Name):
        raise machine.fault("'bind' requires a symbol and an expression: (bind symbol expression)", form)
    value = yield (form.items[2], env)
    env.define(name.name, value)
    return value


def define_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Handle ``(define x v)`` or ``(define (f p…) b…)``. A function sees its own name."""
    usage = "'define' requires (define symbol expression) or (define (symbol params...) body...)"
    target = form.items[1] if len(form.items) > 2 else None
    if isinstance(target, Name) and len(form.items) == 3:
        value = yield (form.items[2], env)
        if isinstance(value, Closure) and not value.name:
            value.name = target.name
        env.define(target.name, value)
        return Symbol(target.name)
    if isinstance(target, Form) and target.items and all(isinstance(item, Name) for item in target.items):
        names = [item.name for item in target.items if isinstance(item, Name)]
        if len(set(names[1:])) != len(names) - 1:
            raise machine.fault("The parameters of a function must have different names.", form)
        env.define(names[0], Closure(names[1:], form.items[2:], env, form, names[0]))
        return Symbol(names[0])
    raise machine.fault(usage, form)


def progn_form(machine: Machine, form: Form, env: Env) -> Doing:
    return (yield from body(form.items[1:], env))


def quote_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) != 2:
        raise machine.fault("'quote' requires exactly one argument: (quote expression)", form)
    machine.meter.charge(size_of(form.items[1]))
    return datum(form.items[1], machine.meter.budget)
    yield  # type: ignore[unreachable]  # makes the handler a generator


def lambda_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) < 3:
        raise machine.fault("'lambda' requires a parameter list and at least one body expression.", form)
    params = form.items[1]
    if not isinstance(params, Form) or not all(isinstance(item, Name) for item in params.items):
        raise machine.fault("Lambda parameter definition must be a list of symbols.", form)
    names = [item.name for item in params.items if isinstance(item, Name)]
    if len(set(names)) != len(names):
        raise machine.fault("Lambda parameters must have different names.", form)
    return Closure(names, form.items[2:], env, form)
    yield  # type: ignore[unreachable]  # makes the handler a generator


def and_form(machine: Machine, form: Form, env: Env) -> Doing:
    value: Any = True
    for item in form.items[1:]:
        value = yield (item, env)
        if not truthy(value):
            break
    return value


def or_form(machine: Machine, form: Form, env: Env) -> Doing:
    value: Any = False
    for item in form.items[1:]:
        value = yield (item, env)
        if truthy(value):
            break
    return value


def cond_form(machine: Machine, form: Form, env: Env) -> Doing:
    for clause in form.items[1:]:
        if not isinstance(clause, Form) or not clause.items:
            raise machine.fault("'cond' requires clauses: (cond (test expression...) ... (else expression...))", form)
        test = clause.items[0]
        is_else = isinstance(test, Name) and test.name == "else" and "else" not in env
        value = True if is_else else (yield (test, env))
        if truthy(value):
            return (yield from body(clause.items[1:], env)) if len(clause.items) > 1 else value
    return []


def when_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) < 3:
        raise machine.fault("'when' requires a test and at least one expression: (when test expression...)", form)
    if truthy((yield (form.items[1], env))):
        return (yield from body(form.items[2:], env))
    return []


def set_form(machine: Machine, form: Form, env: Env) -> Doing:
    name = form.items[1] if len(form.items) == 3 else None
    if not isinstance(name, Name):
        raise machine.fault("'set!' requires a symbol and an expression: (set! symbol expression)", form)
    value = yield (form.items[2], env)
    try:
        env.set_value_in_scope(name.name, value)
    except UnboundSymbolError as error:
        raise machine.locate(error, form) from None
    return value


def loop_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) != 3:
        got = len(form.items) - 1
        raise machine.fault(
            f"Loop requires exactly 2 arguments: count_expression and body_expression. Got {got}.", form
        )
    try:
        count = yield (form.items[1], env)
    except SexpEvaluationError as error:
        raise machine.around("Error in the count of 'loop': ", error, form) from error
    if isinstance(count, bool) or not isinstance(count, int):
        raise machine.fault(f"Loop count must evaluate to an integer. Got: {to_source(count, 80)}", form)
    if count < 0:
        raise machine.fault("Loop count must be non-negative.", form)
    value: Any = []
    compiled = machine.compile(form.items[2])
    done = 0
    try:
        for done in range(count):  # noqa: B007 - used in the error message
            if compiled is None:
                value = yield (form.items[2], env)
            else:
                machine.meter.charge(compiled[1])
                if machine.meter.needs_breath():
                    yield Breath()
                value = compiled[0](env)
    except SexpEvaluationError as error:
        before = f"Error in the body of 'loop' (iteration {done + 1} of {count}): "
        raise machine.around(before, error, form) from error
    return value


def map_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) < 3:
        raise machine.fault("'map' requires a function and at least one list: (map function list...)", form)
    function, *lists = yield from values_of(form.items[1:], env)
    columns = [_as_list(machine, form, "map", each) for each in lists]
    results = []
    for row in zip(*columns, strict=False):
        results.append((yield FunctionCall(function, list(row), form)))  # noqa: PERF401 - a comprehension cannot yield
    return results


def filter_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) != 3:
        raise machine.fault("'filter' requires a function and a list: (filter function list)", form)
    function, items = yield from values_of(form.items[1:], env)
    matches = []
    for item in _as_list(machine, form, "filter", items):
        if truthy((yield FunctionCall(function, [item], form))):
            matches.append(item)  # noqa: PERF401 - a comprehension cannot yield
    return matches


def reduce_form(machine: Machine, form: Form, env: Env) -> Doing:
    if len(form.items) != 4:
        raise machine.fault(
            "'reduce' requires a function, a first value and a list: (reduce function initial list)", form
        )
    function, value, items = yield from values_of(form.items[1:], env)
    for item in _as_list(machine, form, "reduce", items):
        value = yield FunctionCall(function, [value, item], form)
    return value


def try_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Handle ``(try e (catch (err) h…))``. Budgets, limits and errors of collaborators are not caught."""
    clause = form.items[2] if len(form.items) == 3 else None
    if not isinstance(clause, Form) or len(clause.items) < 3 or name_of(clause.items[0]) != "catch":
        raise machine.fault("'try' requires (try expression (catch (name) expression...))", form)
    names = clause.items[1].items if isinstance(clause.items[1], Form) else []
    if len(names) != 1 or not isinstance(names[0], Name):
        raise machine.fault("'catch' binds one name: (catch (name) expression...)", form)
    try:
        return (yield (form.items[1], env))
    except SexpEvaluationError as error:
        position = error.position
        caught = {
            "type": type(error).__name__,
            "message": error.message,
            "line": position.line if position else 0,
            "column": position.column if position else 0,
        }
    return (yield from body(clause.items[2:], SexpEnvironment({names[0].name: caught}, env)))


def _as_list(machine: Machine, form: Form, name: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise machine.fault(f"'{name}' takes a list, got {to_source(value, 80)}", form)
    return list(value)


def _source(node: Node) -> str:
    return source_of(node, 80) if isinstance(node, Form | Name) else _datum_source(node)


def _datum_source(node: Node) -> str:
    return to_source(from_python(datum(node)), 80)


DOCUMENT_FORMS: dict[str, Handler] = {
    "if": if_form, "let": let_form, "bind": bind_form, "progn": progn_form, "quote": quote_form,
    "lambda": lambda_form, "loop": loop_form, "and": and_form, "or": or_form, "set!": set_form,
}  # fmt: skip

ADDED_FORMS: dict[str, Handler] = {
    "define": define_form, "let*": let_star_form, "cond": cond_form, "when": when_form, "begin": progn_form,
    "map": map_form, "filter": filter_form, "reduce": reduce_form, "try": try_form,
}  # fmt: skip
