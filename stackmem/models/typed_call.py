"""A call as a person types it: forgiving in form, exact in what it makes of it."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from typing import Any, Protocol

from msgspec import Struct

from stackmem.core.messages import ToolSpec
from stackmem.core.text import whole

from .json_text import parse_arguments

BLOCK_END = "."
_BLOCK = "<<"
_NAMED = re.compile(r"([a-z_]+)=(.*)", re.DOTALL)


class Lines(Protocol):
    """Where lines are typed; "" is the end of input."""

    def readline(self) -> str: ...


class Typed(Struct, frozen=True):
    """A call to make; ``arguments`` are checked where every model's are."""

    name: str
    arguments: dict[str, Any]


def usage_of(tool: ToolSpec) -> str:
    """One line: the tool's name and its parameters, optional ones in brackets."""
    schema = json.loads(tool.schema)
    required = schema.get("required", [])
    optional = [f"[{name}]" for name in schema.get("properties", {}) if name not in required]
    return " ".join([tool.name, *required, *optional])


def read_typed(line: str, more: Lines, tools: tuple[ToolSpec, ...]) -> Typed | str:
    """The call that ``line`` spells, or one sentence that says what is wrong with it.

    A value of ``<<`` is read from ``more``: the lines up to one that is only a dot; ``..`` there stands for a dot.
    """
    if line.startswith("{"):
        return _whole_call(line, tools)
    name, _, rest = line.partition(" ")
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return _unknown(name, tools)
    rest = rest.strip()
    if rest.startswith("{"):
        value, malformed = parse_arguments(rest)
        if malformed is None and isinstance(value, dict):
            return Typed(name, value)
        return f"what stands after {name} is no JSON object"
    schema = json.loads(tool.schema)
    return _spelled(name, rest, schema, more)


def _whole_call(line: str, tools: tuple[ToolSpec, ...]) -> Typed | str:
    value, malformed = parse_arguments(line)
    if malformed is not None or not isinstance(value, dict):
        return "this is no JSON object"
    arguments = value.get("arguments", value.get("args", {}))
    name = value.get("name", value.get("call"))
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return 'a call in JSON looks like {"name": "read_file", "arguments": {"path": "spec.md"}}'
    return Typed(name, arguments) if any(tool.name == name for tool in tools) else _unknown(name, tools)


def _spelled(name: str, rest: str, schema: dict[str, Any], more: Lines) -> Typed | str:
    """``key=value`` pairs; a text that does not begin with one is the first parameter, whole."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    first = _NAMED.match(rest)
    if rest and (first is None or first.group(1) not in properties):
        if not required and not properties:
            return f"{name} takes no parameters"
        only = (required or list(properties))[0]
        return Typed(name, {only: _typed(whole(rest), properties[only])})
    try:
        words = shlex.split(rest)
    except ValueError as error:
        return f"{error}: put a value with quotes in it between the other kind of quotes, or give it with <<"
    arguments: dict[str, Any] = {}
    for word in words:
        pair = _NAMED.fullmatch(word)
        if pair is None or pair.group(1) not in properties:
            return f"{word[:80]!r} is no parameter of {name}: {', '.join(properties)}; quote a value with blanks in it"
        key, value = pair.groups()
        text = _block(more) if value == _BLOCK else value
        if text is None:
            return f"the input ended before the line with only a dot that ends {key}"
        arguments[key] = _typed(whole(text), properties[key])
    return Typed(name, arguments)


def _block(more: Lines) -> str | None:
    lines: list[str] = []
    while line := more.readline():
        if line.rstrip("\r\n") == BLOCK_END:
            return "".join(lines)
        lines.append(line[1:] if line.rstrip("\r\n") == BLOCK_END * 2 else line)
    return None


def _typed(text: str, schema: dict[str, Any]) -> Any:
    """The value a parameter of this type has; text that is none stays text, for the rules to refuse."""
    if schema.get("type") == "string":
        return text
    value, malformed = parse_arguments(text)
    return text if malformed is not None else value


def _unknown(name: str, tools: tuple[ToolSpec, ...]) -> str:
    names = [tool.name for tool in tools]
    near = difflib.get_close_matches(name, names, 1)
    return f"there is no tool {name[:80]!r}; " + (
        f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    )
