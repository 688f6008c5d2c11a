"""Renders texts with ``{{ }}``, evaluates conditions, and finds the variables they mention."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.parser import Parser
from msgspec import Struct

from ..frame.bounds import TEXT_CHARS
from .command_output import storable
from .template_language import Missing, MissingError, TemplateEnvironment, plain_json, text_of

_LANGUAGE = TemplateEnvironment()
_SINGLE_HOLE = re.compile(r"\{\{[-+]?((?:(?!\{\{|\}\}).)*?)[-+]?\}\}", re.DOTALL)
_HOLE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_FAULTS = (TemplateError, ArithmeticError, TypeError, ValueError, LookupError, RecursionError, MemoryError)


class TemplateFault(Exception):  # noqa: N818 - it becomes the halt of that name
    """A template that cannot be rendered."""

    def __init__(self, reason: str, missing: str = "", *, is_field: bool = False, container: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing  # the missing variable or field; empty for other faults
        self.is_field = is_field
        self.container = container  # the value in which the field was looked up


class Mention(Struct, frozen=True):
    """A variable that a template needs."""

    name: str
    path: tuple[str, ...] = ()  # the constant part of the lookup path in the variable
    guarded: bool = False  # whether the variable may be missing
    quoted: bool = False  # whether the value passes the ``quote`` filter


def render(text: str, scope: Mapping[str, Any], results: Container[str] = ()) -> Any:
    """Fill the holes in a text. A text that consists of a single hole keeps the type of its value.

    ``results`` are variables that also support ``.result``. Raise TemplateFault if the template is not valid, a
    variable is missing, or the text is too long. Raise MalformedOutputError if the template reads a field of an output
    that is not JSON.
    """
    if "{" not in text:
        return text
    single_hole = _SINGLE_HOLE.fullmatch(text)
    if single_hole:
        value = evaluate(single_hole[1], scope, results)
        return str.__str__(value) if isinstance(value, str) else value
    try:
        template = _compile(text)
        _LANGUAGE.rounds, _LANGUAGE.results = 0, results
        pieces, size = [], 0
        for piece in template.generate(scope):
            size += len(piece)
            if size > TEXT_CHARS:
                raise TemplateFault(f"The template makes more than {TEXT_CHARS:,} characters.")
            pieces.append(piece)
        whole_text = "".join(pieces)
        return storable(whole_text) if "\\" in text else whole_text
    except _FAULTS as error:
        raise _fault(error) from error


def evaluate(expression: str, scope: Mapping[str, Any], results: Container[str] = ()) -> Any:
    """Evaluate an expression without braces.

    Raises:
        TemplateFault, MalformedOutputError: As ``render``.
    """
    try:
        _LANGUAGE.rounds, _LANGUAGE.results = 0, results
        template, looked_up = _compile_expression(expression.strip())
        context = template.new_context(dict(scope))
        list(template.root_render_func(context))
        value = context.vars["result"]
        if looked_up and not isinstance(value, Missing) and not callable(value):
            return value
        return storable(plain_json(value)) if "\\" in expression else plain_json(value)
    except _FAULTS as error:
        raise _fault(error) from error


def holds(condition: str, scope: Mapping[str, Any], results: Container[str] = ()) -> bool:
    """Return whether the condition of an ``if`` or ``while`` is true.

    Braces around the whole condition are optional.

    Raises:
        TemplateFault, MalformedOutputError: As ``render``.
    """
    return bool(evaluate(bare(condition), scope, results))


def bare(condition: str) -> str:
    single_hole = _SINGLE_HOLE.fullmatch(condition.strip())
    return single_hole[1] if single_hole else condition


def literal_stretches(command: str) -> tuple[tuple[int, int], ...]:
    """Return the start and end of the single-quoted parts of a shell command that contain another language's braces.

    Such a part contains a ``{{…}}`` that is not a valid expression here (``{{range .}}``, ``{{.url}}``). The whole part
    is left unchanged, because an ``{{end}}`` next to it does not belong to APL either.
    """
    stretches = []
    for start, end in _single_quoted(command):
        holes = _HOLE.findall(command[start:end])
        if any(not is_expression(hole[2:-2]) for hole in holes):
            stretches.append((start, end))
    return tuple(stretches)


def render_command(command: str, scope: Mapping[str, Any], results: Container[str] = ()) -> str:
    """Fill the holes in a shell command, except in its literal parts.

    Raises:
        TemplateFault, MalformedOutputError: As ``render``.
    """
    stretches = literal_stretches(command)
    if not stretches:
        return text_of(render(command, scope, results))
    pieces, done = [], 0
    for start, end in stretches:
        pieces += [text_of(render(command[done:start], scope, results)), command[start:end]]
        done = end
    return "".join([*pieces, text_of(render(command[done:], scope, results))])


def is_expression(text: str) -> bool:
    """Return whether a text can be parsed as an expression. Its variables need not exist."""
    try:
        _compile_expression(text.strip(" -+\t\n"))
    except _FAULTS:
        return False
    return True


def fault_of(text: str, *, expression: bool = False) -> str:
    """Return why a template or condition cannot be parsed; empty if it can."""
    try:
        if expression:
            _compile_expression(bare(text).strip())
        else:
            _compile(text)
    except _FAULTS as error:
        return _fault(error).reason
    return ""


def defined_by(condition: str) -> frozenset[str]:
    """Return the variables that are certain to be set if a condition is true."""
    try:
        return _defined_in(Parser(_LANGUAGE, bare(condition).strip(), state="variable").parse_expression())
    except _FAULTS:
        return frozenset()


def mentions(text: str, *, expression: bool = False) -> tuple[Mention, ...]:
    """Return the variables that a template or condition needs, in order; empty if it cannot be parsed."""
    try:
        if expression:
            tree: nodes.Node = Parser(_LANGUAGE, bare(text).strip(), state="variable").parse_expression()
        else:
            tree = _LANGUAGE.parse(text)
    except _FAULTS:
        return ()
    return tuple(_mentions_in(tree, frozenset(), guarded=False, quoted=False))


@lru_cache(maxsize=2048)
def _compile(text: str) -> Template:
    return _LANGUAGE.from_string(_LANGUAGE.bound(_LANGUAGE.parse(text)))


_FOREIGN_SIGNS = {
    "{{": "an expression has no braces; write `x == 1`, not `{{ x }} == 1`",
    "{%": "an expression has no braces; write `x == 1`",
    "&&": "write `and` instead of `&&`",
    "||": "write `or` instead of `||`",
    "===": "write `==` instead of `===`",
    "!": "write `not` instead of `!`",
}
"""Signs of other languages in an expression that cannot be parsed, and what to write instead."""


@lru_cache(maxsize=2048)
def _compile_expression(text: str) -> tuple[Template, bool]:
    """Compile an expression to a template that sets ``result``. Also returns whether it is only a lookup."""
    try:
        parser = Parser(_LANGUAGE, text, state="variable")
        parsed = parser.parse_expression()
        if not parser.stream.eos:
            raise TemplateSyntaxError("more follows where the expression should end", parser.stream.current.lineno)
    except TemplateSyntaxError as error:
        foreign = next((hint for sign, hint in _FOREIGN_SIGNS.items() if sign in text), "")
        raise TemplateSyntaxError(foreign or str(error.message), error.lineno) from error
    parsed.set_environment(_LANGUAGE)
    body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store"), parsed, lineno=1)]
    looks_up = isinstance(parsed, nodes.Name | nodes.Getattr | nodes.Getitem)
    return _LANGUAGE.from_string(_LANGUAGE.bound(nodes.Template(body, lineno=1))), looks_up


def _fault(error: BaseException) -> TemplateFault:
    if isinstance(error, MissingError):
        return TemplateFault(
            "A required variable was not found.", error.name, is_field=error.is_field, container=error.container
        )
    lines = str(error).strip().splitlines()
    return TemplateFault((lines or [type(error).__name__])[0][:300])


def _single_quoted(command: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end, including quotes, of each single-quoted part as a shell reads it."""
    at, in_double = 0, False
    while at < len(command):
        char = command[at]
        if char == "\\":
            at += 2
            continue
        if command.startswith("{{", at):
            end = command.find("}}", at)
            if end >= 0 and is_expression(command[at + 2 : end]):
                at = end + 2
                continue
        if char == '"':
            in_double = not in_double
        elif char == "'" and not in_double:
            end = command.find("'", at + 1)
            if end < 0:
                return
            yield at, end + 1
            at = end
        at += 1


def _mentions_in(node: nodes.Node, local: frozenset[str], *, guarded: bool, quoted: bool) -> Iterator[Mention]:
    match node:
        case nodes.Name(name=str() as name, ctx="load"):
            if name not in local and name not in _LANGUAGE.globals:
                yield Mention(name, (), guarded, quoted)
        case nodes.Getattr() | nodes.Getitem():
            yield from _path(node, local, guarded=guarded, quoted=quoted)
        case nodes.Test(name="defined" | "undefined"):
            yield from _mentions_in(node.node, local, guarded=True, quoted=quoted)
        case nodes.Or():
            yield from _mentions_in(node.left, local, guarded=True, quoted=quoted)
            yield from _mentions_in(
                node.right, local | _defined_in(node.left, negated=True), guarded=guarded, quoted=quoted
            )
        case nodes.And():
            yield from _mentions_in(node.left, local, guarded=guarded, quoted=quoted)
            yield from _mentions_in(node.right, local | _defined_in(node.left), guarded=guarded, quoted=quoted)
        case nodes.If() | nodes.CondExpr():
            yield from _choice(node, local, guarded, quoted)
        case nodes.Filter(node=nodes.Node() as inner):
            softened = guarded or node.name in ("default", "d")
            yield from _mentions_in(inner, local, guarded=softened, quoted=quoted or node.name == "quote")
            for argument in (*node.args, *(pair.value for pair in node.kwargs)):
                yield from _mentions_in(argument, local, guarded=guarded, quoted=quoted)
        case nodes.For():
            yield from _mentions_in(node.iter, local, guarded=guarded, quoted=quoted)
            inside = local | {"loop"} | {name.name for name in node.target.find_all(nodes.Name)}
            inside |= {name.name for name in ([node.target] if isinstance(node.target, nodes.Name) else [])}
            yield from _in_order(
                [*node.body, *node.else_, *([node.test] if node.test else [])], inside, guarded, quoted
            )
        case nodes.Template():
            yield from _in_order(node.body, local, guarded, quoted)
        case _:
            yield from _in_order(list(node.iter_child_nodes()), local, guarded, quoted)


def _choice(node: nodes.If | nodes.CondExpr, local: frozenset[str], guarded: bool, quoted: bool) -> Iterator[Mention]:
    """Yield the mentions in a choice. Variables that its test shows to be defined are known in that branch."""
    yield from _mentions_in(node.test, local, guarded=guarded, quoted=quoted)
    here, there = local | _defined_in(node.test), local | _defined_in(node.test, negated=True)
    if isinstance(node, nodes.If):
        yield from _in_order(node.body, here, guarded, quoted)
        yield from _in_order([*node.elif_, *node.else_], there, guarded, quoted)
        return
    yield from _mentions_in(node.expr1, here, guarded=guarded, quoted=quoted)
    if node.expr2 is not None:
        yield from _mentions_in(node.expr2, there, guarded=guarded, quoted=quoted)


def _defined_in(node: nodes.Node, *, negated: bool = False) -> frozenset[str]:
    """Return the variables that are defined if a test is true, or, with ``negated``, if it is false."""
    match node:
        case nodes.Test(name="defined" | "undefined"):
            inner: nodes.Node = node.node
            while isinstance(inner, nodes.Getattr | nodes.Getitem):
                inner = inner.node
            holds_here = (node.name == "defined") != negated
            return frozenset({inner.name}) if holds_here and isinstance(inner, nodes.Name) else frozenset()
        case nodes.Not():
            return _defined_in(node.node, negated=not negated)
        case nodes.And() if not negated:
            return _defined_in(node.left) | _defined_in(node.right)
        case nodes.Or() if negated:
            return _defined_in(node.left, negated=True) | _defined_in(node.right, negated=True)
        case _:
            return frozenset()


def _in_order(body: list[nodes.Node], local: frozenset[str], guarded: bool, quoted: bool) -> Iterator[Mention]:
    """Yield mentions in order. A name assigned with ``set`` is known from there on."""
    for node in body:
        yield from _mentions_in(node, local, guarded=guarded, quoted=quoted)
        if isinstance(node, nodes.Assign):
            target = node.target
            targets = [target] if isinstance(target, nodes.Name) else list(target.find_all(nodes.Name))
            local |= {name.name for name in targets}


def _path(node: nodes.Node, local: frozenset[str], *, guarded: bool, quoted: bool) -> Iterator[Mention]:
    path: list[str] = []
    inner: nodes.Node = node
    while isinstance(inner, nodes.Getattr | nodes.Getitem):
        if isinstance(inner, nodes.Getattr):
            path.insert(0, inner.attr)
        elif isinstance(inner.arg, nodes.Const):
            path.insert(0, str(inner.arg.value))
        else:
            path.clear()
            yield from _mentions_in(inner.arg, local, guarded=guarded, quoted=quoted)
        inner = inner.node
    if isinstance(inner, nodes.Name):
        if inner.name not in local:
            yield Mention(inner.name, tuple(path), guarded, quoted)
    else:
        yield from _mentions_in(inner, local, guarded=guarded, quoted=quoted)
