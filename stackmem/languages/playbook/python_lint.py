"""Checks an agent's Python before it runs: undefined names, and calls with wrong arguments."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator

from .calls import BUILT_IN_CALLS, bind_arguments, find_target
from .literals import CallTo
from .tree import PlaybookAgent, PlaybookProgram

_PREDEFINED = {*dir(builtins), *BUILT_IN_CALLS, "Exit", "agent", "playbook", "__name__", "__file__", "__doc__"}


def python_faults(program: PlaybookProgram, agent: PlaybookAgent) -> Iterator[tuple[int, str, str]]:
    """Yield ``(line, title, message)`` of each fault. The reader has already checked the syntax of each block."""
    if not agent.python:
        return
    tree = ast.parse(agent.python)
    try:
        top = symtable.symtable(agent.python, agent.name, "exec")
    except SyntaxError as error:  # each block is valid Python, but the combined source is not
        yield (
            agent.python_line + (error.lineno or 1) - 1,
            "Invalid Python",
            f"the blocks together are not valid Python: {error.msg}",
        )
        return
    own = _module_names(top)
    stars = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree))
    names = set() if stars else _global_names(top) - own - _PREDEFINED
    for node in ast.walk(tree):
        line = agent.python_line + getattr(node, "lineno", 1) - 1
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in names and not find_target(program, agent.name, name):
                yield (
                    line,
                    "Unknown Name",
                    f"the name {name} is not defined; define or import it, or give a playbook that name",
                )
            case ast.Call(func=ast.Name(id=name)) if name not in own and (text := _mismatch(program, agent, node)):
                yield line, "Argument Mismatch", text


def _module_names(table: symtable.SymbolTable) -> set[str]:
    """Return the names that a source sets at module level, including through ``global`` in functions."""
    top = table.get_type() == "module"
    own = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if (symbol.is_assigned() or symbol.is_imported()) and (top or symbol.is_declared_global())
    }
    return own.union(*map(_module_names, table.get_children()))


def _global_names(table: symtable.SymbolTable) -> set[str]:
    """Return the names that a source looks up at module level, including names that it sets itself."""
    top = table.get_type() == "module"
    own = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and (top or symbol.is_global())
    }
    return own.union(*map(_global_names, table.get_children()))


def _mismatch(program: PlaybookProgram, agent: PlaybookAgent, node: ast.Call) -> str:
    """Return what is wrong with the arguments of a call to a playbook or built-in tool, if all are spelled out."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    target = find_target(program, agent.name, name)
    if target is None or any(isinstance(each, ast.Starred) for each in node.args):
        return ""
    keywords = tuple((word.arg or "", None) for word in node.keywords)
    if any(not word for word, _ in keywords):
        return ""
    values = tuple(each.value if isinstance(each, ast.Constant) else "" for each in node.args)
    arguments = bind_arguments(target, CallTo(name, values, keywords))
    return arguments if isinstance(arguments, str) else ""
