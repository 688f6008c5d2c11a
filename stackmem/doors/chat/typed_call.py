"""Parses calls typed by the user: lenient about the form, exact about the result."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from stackmem.core.messages import ToolSpec
from stackmem.core.tool_schemas import shown_schema
from stackmem.providers.json_text import parse_arguments

BLOCK_END = "."
MAX_CALL_CHARS = 10_000_000
TOO_LONG = f"over {MAX_CALL_CHARS:,} characters; write a file in parts"
NO_TEXT = "the call contains bytes that are not UTF-8; type it again"
_BLOCK = "<<"
_BLOCKS = re.compile(r"=<<(?=\s|$)")
_TOKENS = re.compile(r'\\.|["{}\[\]]')
_ASSIGNMENT = re.compile(r"([a-z_]+)=(.*)", re.DOTALL)


class Lines(Protocol):
    """A source of typed lines; "" is the end of input."""

    def readline(self) -> str: ...


class TypedCall(Struct, frozen=True):
    """A call to make; ``arguments`` are checked like any model's."""

    name: str
    arguments: dict[str, Any]


class BlockValue(Struct, frozen=True):
    """A value that follows as a block of lines."""

    schema: dict[str, Any]


def usage_of(tool: ToolSpec) -> str:
    """Format one line: the tool's name and its parameters, optional ones in brackets."""
    schema = shown_schema(tool)
    required = schema.get("required", [])
    optional = [f"[{name}]" for name in schema.get("properties", {}) if name not in required]
    return " ".join([tool.name, *required, *optional])


def read_typed(
    line: str, more: Lines, tools: tuple[ToolSpec, ...], tell: Callable[[str], object] = id
) -> TypedCall | str:
    """Parse a typed call, or return a sentence that says what is wrong with it.

    A value of ``<<`` is read from ``more``, up to a line with only a dot; ``..`` there means a dot. JSON continues over
    lines until its brackets close, or until an empty line. The lines of a refused call are skipped, so that they are
    not taken for calls. ``tell`` receives a message about the lines that are still needed.
    """
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    if line.startswith("{"):
        text = _closed(line, more, tell)
        return _unfit("the call", text) or _whole_call(text, tools)
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is not None and rest.startswith("{"):
        text = _closed(rest, more, tell)
        return _unfit(f"the call of {name}", text) or _with_object(name, text)
    refused = NO_TEXT if not is_text(line) else _unknown(name, tools) if tool is None else ""
    spelled = refused or _spelled(name, rest, shown_schema(tool) if tool else {})
    if isinstance(spelled, dict):
        return _with_blocks(name, spelled, more)
    for _ in _BLOCKS.findall(line):
        tell(f"{spelled}; the lines up to the dot are ignored")
        _block(more)
    return spelled


def _whole_call(line: str, tools: tuple[ToolSpec, ...]) -> TypedCall | str:
    value, malformed = parse_arguments(line)
    if malformed is not None or not isinstance(value, dict):
        return "not a JSON object"
    arguments = value.get("arguments", value.get("args", {}))
    name = value.get("name", value.get("call"))
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return 'a call in JSON looks like {"name": "read_file", "arguments": {"path": "spec.md"}}'
    return TypedCall(name, arguments) if any(tool.name == name for tool in tools) else _unknown(name, tools)


def _with_object(name: str, text: str) -> TypedCall | str:
    value, malformed = parse_arguments(text)
    if malformed is None and isinstance(value, dict):
        return TypedCall(name, value)
    return f"the text after {name} is not a JSON object"


def _spelled(name: str, rest: str, schema: dict[str, Any]) -> dict[str, Any] | str:
    """Parse ``key=value`` pairs, with ``<<`` for blocks; other text is the value of the first parameter."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    first = _ASSIGNMENT.match(rest)
    if rest and (first is None or first.group(1) not in properties):
        if not required and not properties:
            return f"{name} takes no parameters"
        only = (required or list(properties))[0]
        return {only: _typed(rest, properties[only])}
    try:
        words = shlex.split(rest)
    except ValueError as error:
        return f"{error}: put a value that contains quotes in the other kind of quotes, or use <<"
    arguments: dict[str, Any] = {}
    for word in words:
        pair = _ASSIGNMENT.fullmatch(word)
        if pair is None or pair.group(1) not in properties:
            return (
                f"{word[:80]!r} is not a parameter of {name}: {', '.join(properties)}; quote values that contain blanks"
            )
        key, value = pair.groups()
        arguments[key] = BlockValue(properties[key]) if value == _BLOCK else _typed(value, properties[key])
    return arguments


def _with_blocks(name: str, arguments: dict[str, Any], more: Lines) -> TypedCall | str:
    """Read the call's blocks in order; all of them are read, even if one is refused."""
    problem = ""
    for key, value in arguments.items():
        if not isinstance(value, BlockValue):
            continue
        text = _block(more)
        if text is None:
            return f"the input ended before the closing dot of {key}"
        problem = problem or _unfit(key, text)
        arguments[key] = _typed(text, value.schema)
    return problem or TypedCall(name, arguments)


def is_text(text: str) -> bool:
    """Return whether a text is valid UTF-8; invalid bytes were read as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unfit(label: str, text: str) -> str:
    """Return why a text cannot be part of a call; empty if it can."""
    if len(text) > MAX_CALL_CHARS:
        return f"{label} has {TOO_LONG}"
    return "" if is_text(text) else NO_TEXT


def _block(more: Lines) -> str | None:
    """Read lines up to the dot; of too many lines, keep only enough to detect that."""
    lines: list[str] = []
    chars = 0
    while line := more.readline():
        if line.rstrip("\r\n") == BLOCK_END:
            return "".join(lines)
        if chars <= MAX_CALL_CHARS:
            lines.append(line[1:] if line.rstrip("\r\n") == BLOCK_END * 2 else line)
        chars += len(line)
    return None


def _closed(text: str, more: Lines, tell: Callable[[str], object]) -> str:
    """Read JSON up to its closing bracket or an empty line."""
    parts, chars = [text], len(text)
    depth, in_text = _depth(text, 0, in_text=False)
    if depth > 0 or in_text:
        tell("the JSON continues until its brackets close; an empty line ends it")
    while depth > 0 or in_text:
        line = more.readline()
        if not line.strip():
            break
        if chars <= MAX_CALL_CHARS:
            parts.append(line)
        chars += len(line)
        depth, in_text = _depth(line, depth, in_text=in_text)
    return "\n".join(part.rstrip("\r\n") for part in parts)


def _depth(line: str, depth: int, *, in_text: bool) -> tuple[int, bool]:
    """Return the number of open brackets after a line, and whether a string is open."""
    for match in _TOKENS.finditer(line):
        mark = match[0]
        if mark == '"':
            in_text = not in_text
        elif not in_text and len(mark) == 1:
            depth += 1 if mark in "[{" else -1
    return depth, in_text


def _typed(text: str, schema: dict[str, Any]) -> Any:
    """Parse a value for a parameter's type; text that does not fit stays text, and the machine refuses it."""
    if schema.get("type") == "string":
        return text
    value, malformed = parse_arguments(text)
    return text if malformed is not None else value


def _unknown(name: str, tools: tuple[ToolSpec, ...]) -> str:
    names = [tool.name for tool in tools]
    near = difflib.get_close_matches(name, names, 1)
    return f"no tool {name[:80]!r}; " + (f"did you mean {near[0]}?" if near else f"available: {', '.join(names)}")
