"""Texts with ``{{ }}`` and conditions: rendering them, and what they mention."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.parser import Parser
from msgspec import Struct

from .template_language import MOST_CHARS, Missing, MissingError, TemplateEnvironment, storable, whole

_LANGUAGE = TemplateEnvironment()
_WHOLE = re.compile(r"\{\{[-+]?((?:(?!\{\{|\}\}).)*?)[-+]?\}\}", re.DOTALL)
_HOLE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_FAULTS = (TemplateError, ArithmeticError, TypeError, ValueError, LookupError, RecursionError, MemoryError)


class TemplateFault(Exception):  # noqa: N818 - it becomes the halt of that name
    """A template that cannot be rendered.

    Attributes:
        missing: The variable or field that is not there; empty where something else is wrong.

    """

    def __init__(self, reason: str, missing: str = "", *, is_field: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing
        self.is_field = is_field


class Mention(Struct, frozen=True):
    """A variable that a template needs.

    Attributes:
        path: What is looked up in it, as far as it is written out.
        guarded: It may be missing.
        quoted: It passes the ``quote`` filter.

    """

    name: str
    path: tuple[str, ...] = ()
    guarded: bool = False
    quoted: bool = False


def render(text: str, scope: Mapping[str, Any]) -> Any:
    """The text with its holes filled; a text that is one hole and nothing else is that value, its type kept.

    Raises:
        TemplateFault: It is no template, or a variable is missing, or it makes too much.
        MalformedOutputError: A field is asked of an output that is not JSON.

    """
    if "{" not in text:
        return text
    whole = _WHOLE.fullmatch(text)
    if whole:
        value = evaluate(whole[1], scope)
        return str.__str__(value) if isinstance(value, str) else value
    try:
        template = _compile(text)
        _LANGUAGE.rounds = 0
        made, size = [], 0
        for piece in template.generate(scope):
            size += len(piece)
            if size > MOST_CHARS:
                raise TemplateFault(f"The template makes more than {MOST_CHARS:,} characters.")
            made.append(piece)
        whole_text = "".join(made)
        return storable(whole_text) if "\\" in text else whole_text
    except _FAULTS as error:
        raise _fault(error) from error


def evaluate(expression: str, scope: Mapping[str, Any]) -> Any:
    """The value of an expression without braces.

    Raises:
        TemplateFault, MalformedOutputError: As ``render``.

    """
    try:
        _LANGUAGE.rounds = 0
        template, looked_up = _compile_expression(expression.strip())
        context = template.new_context(dict(scope))
        list(template.root_render_func(context))
        value = context.vars["result"]
        if looked_up and not isinstance(value, Missing) and not callable(value):
            return value
        return storable(whole(value)) if "\\" in expression else whole(value)
    except _FAULTS as error:
        raise _fault(error) from error


def holds(condition: str, scope: Mapping[str, Any]) -> bool:
    """Whether an ``if`` or ``while`` holds; braces around the whole of it do not matter.

    Raises:
        TemplateFault, MalformedOutputError: As ``render``.

    """
    return bool(evaluate(bare(condition), scope))


def bare(condition: str) -> str:
    whole = _WHOLE.fullmatch(condition.strip())
    return whole[1] if whole else condition


def literal_stretches(command: str) -> tuple[tuple[int, int], ...]:
    """The single-quoted stretches of a shell command that hold another language's braces: start and end of each.

    Such a stretch has a ``{{…}}`` that is no expression of ours (``{{range .}}``, ``{{.url}}``). It is left alone as a
    whole, since ``{{end}}`` next to it is not ours either.
    """
    found = []
    for start, end in _single_quoted(command):
        holes = _HOLE.findall(command[start:end])
        if any(not is_expression(hole[2:-2]) for hole in holes):
            found.append((start, end))
    return tuple(found)


def render_command(command: str, scope: Mapping[str, Any]) -> str:
    """A shell command with its holes filled and its literal stretches left alone.

    Raises:
        TemplateFault, MalformedOutputError: As ``render``.

    """
    stretches = literal_stretches(command)
    if not stretches:
        return str(render(command, scope))
    made, done = [], 0
    for start, end in stretches:
        made += [str(render(command[done:start], scope)), command[start:end]]
        done = end
    return "".join([*made, str(render(command[done:], scope))])


def is_expression(text: str) -> bool:
    """Whether it can be parsed; what it mentions need not be there."""
    try:
        _compile_expression(text.strip(" -+\t\n"))
    except _FAULTS:
        return False
    return True


def fault_of(text: str, *, expression: bool = False) -> str:
    """Why a template, or a condition, cannot be parsed; empty where it can."""
    try:
        if expression:
            _compile_expression(bare(text).strip())
        else:
            _compile(text)
    except _FAULTS as error:
        return _fault(error).reason
    return ""


def mentions(text: str, *, expression: bool = False) -> tuple[Mention, ...]:
    """The variables that a template or a condition needs, in their order; none where it cannot be parsed."""
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


@lru_cache(maxsize=2048)
def _compile_expression(text: str) -> tuple[Template, bool]:
    """The expression as a template that sets ``result``, and whether it only looks something up."""
    parser = Parser(_LANGUAGE, text, state="variable")
    parsed = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError("more follows where the expression should end", parser.stream.current.lineno)
    parsed.set_environment(_LANGUAGE)
    body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store"), parsed, lineno=1)]
    looks_up = isinstance(parsed, nodes.Name | nodes.Getattr | nodes.Getitem)
    return _LANGUAGE.from_string(_LANGUAGE.bound(nodes.Template(body, lineno=1))), looks_up


def _fault(error: BaseException) -> TemplateFault:
    if isinstance(error, MissingError):
        return TemplateFault("A required variable was not found.", error.name, is_field=error.is_field)
    said = str(error).strip().splitlines()
    return TemplateFault((said or [type(error).__name__])[0][:300])


def _single_quoted(command: str) -> Iterator[tuple[int, int]]:
    """Start and end, quotes included, of each single-quoted stretch as a shell reads it."""
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
            yield from _mentions_in(node.right, local, guarded=guarded, quoted=quoted)
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


def _in_order(body: list[nodes.Node], local: frozenset[str], guarded: bool, quoted: bool) -> Iterator[Mention]:
    """What ``set`` names is known from there on."""
    for node in body:
        yield from _mentions_in(node, local, guarded=guarded, quoted=quoted)
        if isinstance(node, nodes.Assign):
            target = node.target
            named = [target] if isinstance(target, nodes.Name) else list(target.find_all(nodes.Name))
            local |= {name.name for name in named}


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
