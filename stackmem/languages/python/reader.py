"""Reads a program without running it: its steps, the step to begin with, and the schema of its inputs and value."""

from __future__ import annotations

import ast
import symtable
from typing import Any

from msgspec import Struct

from stackmem.core.errors import Halted, UsageError
from stackmem.core.schemas.json_schema import first_fault

from ..frame.bounds import TEXT_CHARS

MODULE = "stackmem"
_PLAIN: dict[str, dict[str, Any]] = {
    "str": {"type": "string"}, "int": {"type": "integer"}, "float": {"type": "number"}, "bool": {"type": "boolean"},
    "None": {"type": "null"}, "list": {"type": "array"}, "dict": {"type": "object"}, "tuple": {"type": "array"},
    "Any": {}, "object": {}, "Sequence": {"type": "array"}, "Mapping": {"type": "object"},
}  # fmt: skip


class ProgramFault(Exception):  # noqa: N818 - one finding; ``Halted`` is what stops a run
    """A fault of the program's text, at a line and a column that count from 1."""

    def __init__(self, code: str, message: str, line: int, column: int = 1) -> None:
        super().__init__(message)
        self.code, self.line, self.column = code, line, column


class InputParameter(Struct, frozen=True):
    """An input of the program."""

    name: str
    schema: dict[str, Any]
    required: bool


class EntryStep(Struct, frozen=True):
    """The step that a program begins with."""

    name: str
    line: int
    description: str
    parameters: tuple[InputParameter, ...]
    returns: dict[str, Any] | None  # JSON Schema of the value; None if the step does not say


class PythonProgram(Struct, frozen=True):
    """A program's syntax tree and its steps."""

    tree: ast.Module
    steps: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
    names: dict[str, str]  # names of the file that mean something of ``stackmem``; ``""`` is the module itself

    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}


def parse(text: str) -> PythonProgram:
    """Parse a program. Raise ProgramFault if it is not Python."""
    if len(text) > TEXT_CHARS:
        raise ProgramFault("long-program", f"the program has over {TEXT_CHARS:,} characters; split it into modules", 1)
    try:
        tree = ast.parse(text)
        symtable.symtable(text, "program", "exec")  # reports errors that the parser accepts
    except SyntaxError as error:
        raise ProgramFault("syntax-error", error.msg, error.lineno or 1, error.offset or 1) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProgramFault("syntax-error", f"it cannot be parsed: {error}", 1) from error
    names = _names(tree)
    steps = tuple(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(meaning(mark, names) == "step" for mark in node.decorator_list)
    )
    return PythonProgram(tree, steps, names)


def _names(tree: ast.Module) -> dict[str, str]:
    """Return the names by which a file knows ``stackmem`` and its functions."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name: "" for each in node.names if each.name == MODULE}
        elif isinstance(node, ast.ImportFrom) and node.module == MODULE:
            names |= {each.asname or each.name: each.name for each in node.names}
    return names


def meaning(node: ast.expr, names: dict[str, str]) -> str:
    """Return which name of ``stackmem`` an expression is; empty if it is none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    is_module = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
    return node.attr if is_module and isinstance(node, ast.Attribute) and names[node.value.id] == "" else ""  # type: ignore[attr-defined]


def find_entry(program: PythonProgram, entry: str = "") -> EntryStep:
    """Return the step to begin with: the one that is named, ``main``, or the only one.

    Raise ProgramFault if there is none, or its signature cannot be used.
    """
    steps = {node.name: node for node in program.steps}
    if not steps:
        raise ProgramFault("no-step", "the program has no step; mark a function with @stackmem.step", 1)
    name = entry or ("main" if "main" in steps or len(steps) > 1 else next(iter(steps)))
    if name not in steps:
        line = program.steps[0].lineno
        problem = f"no step {entry!r}" if entry else "several steps and none is called main"
        raise ProgramFault("no-entry", f"{problem}; name one of {', '.join(steps)} with --entry", line)
    node = steps[name]
    if isinstance(node, ast.AsyncFunctionDef):
        raise ProgramFault("async-step", f"{name} is a coroutine; a step is a plain function", node.lineno)
    return _entry(program, node)


def _entry(program: PythonProgram, node: ast.FunctionDef) -> EntryStep:
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        fault = f"{node.name} takes *args, **kwargs or positional-only arguments; name each input"
        raise ProgramFault("bad-signature", fault, node.lineno)
    missing: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    pairs = [
        *zip(arguments.args, [*missing, *arguments.defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    parameters = []
    for arg, default in pairs:
        schema = schema_of(arg.annotation, program) if arg.annotation else {}
        if default is not None and (value := _literal(default)) is not default:
            schema = {**schema, "default": value}
        parameters.append(InputParameter(arg.arg, schema, default is None))
    described = ast.get_docstring(node) or ast.get_docstring(program.tree) or ""
    returns = schema_of(node.returns, program) if node.returns else None
    return EntryStep(node.name, node.lineno, " ".join(described.split("\n\n")[0].split()), tuple(parameters), returns)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return node


def schema_of(node: ast.expr | None, program: PythonProgram, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the JSON Schema of an annotation. Raise ProgramFault if no JSON value has this type."""
    match node:
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Constant(value=str() as text):
            try:
                return schema_of(ast.parse(text, mode="eval").body, program, path)
            except SyntaxError:
                pass
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return {"anyOf": [schema_of(left, program, path), schema_of(right, program, path)]}
        case ast.Name(id=name) | ast.Attribute(attr=name):
            if name in _PLAIN:
                return _PLAIN[name]
            if name in program.classes() and name not in path:
                return _class_schema(program.classes()[name], program, (*path, name))
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            return _generic_schema(name, inner, program, path)
    annotation = ast.unparse(node) if node is not None else "nothing"
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
    allowed = (
        "str, int, float, bool, list, dict, None, Literal, Optional, Any, or a TypedDict or dataclass of this file"
    )
    raise ProgramFault("bad-annotation", f"{annotation} is not the type of a JSON value; use {allowed}", line, column)


def _generic_schema(name: str, inner: ast.expr, program: PythonProgram, path: tuple[str, ...]) -> dict[str, Any]:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name == "Literal":
        return {"enum": [_literal(each) if _literal(each) is not each else None for each in parts]}
    schemas = [schema_of(each, program, path) for each in parts if not _is_dots(each)]
    match name:
        case "list" | "List" | "Sequence" | "Iterable" | "set" | "frozenset" if len(schemas) == 1:
            return {"type": "array", "items": schemas[0]}
        case "tuple" | "Tuple" if any(_is_dots(each) for each in parts):
            return {"type": "array", "items": schemas[0]}
        case "tuple" | "Tuple":
            return {"type": "array", "prefixItems": schemas, "minItems": len(schemas), "maxItems": len(schemas)}
        case "dict" | "Dict" | "Mapping" if len(schemas) == 2 and schemas[0] == _PLAIN["str"]:
            return {"type": "object", "additionalProperties": schemas[1]}
        case "Optional" if len(schemas) == 1:
            return {"anyOf": [schemas[0], {"type": "null"}]}
        case "Union":
            return {"anyOf": schemas}
        case "Annotated" | "Required" | "NotRequired" if schemas:
            return schemas[0]
    raise ProgramFault("bad-annotation", f"{name}[…] is not the type of a JSON value; the keys of a dict are str",
                inner.lineno, inner.col_offset + 1)  # fmt: skip


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _class_schema(node: ast.ClassDef, program: PythonProgram, path: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a TypedDict or a dataclass."""
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    properties = {each.target.id: schema_of(each.annotation, program, path) for each in fields}  # type: ignore[union-attr]
    partial = any(word.arg == "total" and _literal(word.value) is False for word in node.keywords)
    optional = {each.target.id for each in fields if each.value or "NotRequired" in ast.unparse(each.annotation)}  # type: ignore[union-attr]
    needed = [] if partial else [name for name in properties if name not in optional]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": needed} if needed else {})


def checked_inputs(entry: EntryStep, inputs: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the inputs if they fit the entry's parameters."""
    parameters = {each.name: each for each in entry.parameters}
    for name, value in inputs.items():
        if name not in parameters:
            raise UsageError(f"{file} has no input {name[:80]!r}; known: {', '.join(parameters) or 'none'}")
        if fault := first_fault(value, parameters[name].schema):
            raise UsageError(f"the input {name} of {file} does not fit: {fault}; give JSON with {name}:=VALUE")
    if missing := [each.name for each in entry.parameters if each.required and each.name not in inputs]:
        name = missing[0]
        report = f"{file}:{entry.line}: {entry.name} needs the input {name}; give it with --input {name}=TEXT"
        raise Halted("Missing Input", report, f"{file}:{entry.line}")
    return inputs
