"""The ``@playbook`` functions of a fenced block: their signatures, read and never run here."""

from __future__ import annotations

import ast
from typing import Any

from .faults import PlaybookError
from .nodes import Param, Playbook, Required, Trigger
from .step_lines import trigger_line

_MOST_CHARS = 200_000


def functions_of(block: str, first_line: int) -> tuple[Playbook, ...]:
    """The functions of a block whose first line is ``first_line`` of the file.

    Raises:
        PlaybookError: It is no Python, or a function cannot be called by name with JSON values.

    """
    if len(block) > _MOST_CHARS:
        raise PlaybookError("Long Block", f"the block has over {_MOST_CHARS:,} characters; split it", first_line)
    try:
        tree = ast.parse(block)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        told = getattr(error, "msg", None) or "it is nested too deeply or holds a NUL"
        raise PlaybookError("Invalid Python", f"the block is no Python: {told}", first_line + line - 1) from error
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [mark for mark in node.decorator_list if _name(mark) == "playbook"]
            if marks:
                found.append(_function(node, marks[0], block, first_line))
    return tuple(found)


def _name(mark: ast.expr) -> str:
    inner = mark.func if isinstance(mark, ast.Call) else mark
    return inner.id if isinstance(inner, ast.Name) else ""


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, mark: ast.expr, block: str, first_line: int) -> Playbook:
    line = first_line + node.lineno - 1
    given = node.args
    if given.vararg or given.kwarg or given.posonlyargs:
        message = f"{node.name} takes *args, **kwargs or positional-only arguments; name each one"
        raise PlaybookError("Bad Signature", message, line)
    params = []
    missing: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    named = [*zip(given.args, [*missing, *given.defaults], strict=True)]
    for arg, default in [*named, *zip(given.kwonlyargs, given.kw_defaults, strict=True)]:
        kind = ast.unparse(arg.annotation) if arg.annotation else ""
        params.append(Param(arg.arg, kind, Required if default is None else _literal(default)))
    marks = {word.arg: word.value for word in mark.keywords} if isinstance(mark, ast.Call) else {}
    says = ast.get_docstring(node) or ""
    return Playbook(
        node.name,
        tuple(params),
        ast.unparse(node.returns) if node.returns else "",
        says.strip().split("\n")[0],
        line,
        triggers=_triggers(marks.get("triggers"), line),
        public=isinstance(marks.get("public"), ast.Constant) and bool(_literal(marks["public"])),
        python=block,
        python_line=first_line,
    )


def _triggers(node: ast.expr | None, line: int) -> tuple[Trigger, ...]:
    texts = _literal(node) if node is not None else []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PlaybookError("Bad Trigger", "triggers of a function are a list of texts", line)
    made = []
    for place, text in enumerate(texts, 1):
        try:
            made.append(trigger_line(text, line, place))
        except PlaybookError:
            made.append(Trigger(place, f"T{place}", "CND", text, line))
    return tuple(made)


def _literal(node: ast.expr) -> Any:
    """A literal's value; anything else is computed where the function runs, and None here."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
