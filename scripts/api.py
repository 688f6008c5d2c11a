"""Render the public Python API as a page: every name in ``stackmem.__all__`` with its signature and docstring.

``scripts/reference.py`` writes the page to ``docs/api.md``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import fields

import stackmem

_NO_DOCSTRING = {
    "Event": "The union of all facts in a trace: [the trace](trace.md) lists them.",
    "RULES": "The version of the rules for recording runs. Replay is strict between equal versions.",
    "STRATEGIES": "The [memory strategies](strategies.md) by name. `open_strategy` also reads parameters.",
}
_PART = re.compile(r"^(Args|Attributes|Raises|Returns):\n((?: {4}.*\n?|\n)+)", re.M)
_ITEM = re.compile(r"^ {4}([A-Za-z_0-9, ]+): (.*(?:\n {8,}.*)*)", re.M)


class _Bare(NamedTuple):
    """An annotation that is printed without quotes."""

    text: str

    def __repr__(self) -> str:
        return self.text


def page() -> str:
    """Return the page: the names grouped by kind, in alphabetical order."""
    names: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": [], "Values": []}
    for name in stackmem.__all__:
        names[_group(getattr(stackmem, name))].append(name)
    return "\n\n".join(f"## {group}\n\n" + "\n\n".join(map(_entry, held)) for group, held in names.items())


def _group(value: object) -> str:
    if inspect.isfunction(value):
        return "Functions"
    if not isinstance(value, type):
        return "Values"
    return "Errors" if issubclass(value, Exception) else "Classes"


def _entry(name: str) -> str:
    value = getattr(stackmem, name)
    if name in _NO_DOCSTRING:
        return f"### {name}\n\n{_NO_DOCSTRING[name]}"
    if isinstance(value, type) and issubclass(value, Exception):
        above = value.__mro__[1].__name__
        said = inspect.cleandoc(value.__dict__.get("__doc__") or "")
        return f"### {name}\n\nA `{above}`. {_marked(said)}".rstrip() + f" Exit code {value.exit_code}.\n".rstrip()
    parts = [f"### {name}"]
    if inspect.isfunction(value):
        parts.append(f"```text\n{_signature(name, value)}\n```")
    parts.append(_told(inspect.getdoc(value) or ""))
    if isinstance(value, type):
        parts += [_fields(value)] if issubclass(value, Struct) else []
        parts += [_methods(value)]
    return "\n\n".join(part for part in parts if part)


def _told(doc: str) -> str:
    """Convert a docstring to Markdown, with its arguments and attributes as lists."""

    def listed(found: re.Match[str]) -> str:
        items = [f"- `{names}`: {' '.join(text.split())}" for names, text in _ITEM.findall(found[2])]
        return f"{found[1]}:\n\n" + "\n".join(items or [" ".join(found[2].split())]) + "\n\n"

    return _marked(_PART.sub(listed, f"{doc}\n")).strip()


def _marked(text: str) -> str:
    return text.replace("``", "`")


def _signature(name: str, function: Callable[..., Any]) -> str:
    """Return the call as code, with one argument per line if it is long."""
    signature = inspect.signature(function)
    shown = [
        one.replace(annotation=_Bare(one.annotation) if isinstance(one.annotation, str) else one.annotation)
        for one in signature.parameters.values()
        if one.name != "self"
    ]
    returned = signature.return_annotation
    back = f" -> {returned}" if isinstance(returned, str) else ""
    whole = f"{name}{inspect.Signature(shown)}{back}"
    return whole if len(whole) <= 100 else whole.replace("(", "(\n    ", 1).replace(", *, ", ",\n    *, ", 1)


def _fields(kind: type[Struct]) -> str:
    """Return a table of the fields, with their defaults if these can be written as code."""
    rows = ["| field | type | default |", "|---|---|---|"]
    for field in fields(kind):
        annotated = str(kind.__annotations__.get(field.name, "")).replace("|", "\\|")
        default = "required" if field.required else "left out" if field.default is UNSET else "a new value"
        if field.default not in (NODEFAULT, UNSET):
            default = f"`{field.default!r}`"
        rows.append(f"| `{field.name}` | `{annotated}` | {default} |")
    return "\n".join(rows)


def _methods(kind: type) -> str:
    found = []
    for name, member in vars(kind).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        says = _marked(" ".join((inspect.getdoc(function) or "").split("\n\n")[0].split()))
        call = name if isinstance(member, property) else _signature(name, function).replace("\n    ", "")
        found.append(f"- `{call}`" + (f": {says}" if says else ""))
    return "\n".join(found)
