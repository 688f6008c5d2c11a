"""Reads the YAML block at the start of a Markdown file (front matter), as skills and commands have it."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from .yaml_depth import bounded_scanner

MAX_CHARS = 16_384
_MAX_DEPTH = 20
_BLOCK = re.compile(r"---[ \t]*\r?\n(?P<head>.*?)(?:\r?\n)?^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"([A-Za-z][\w-]*)[ \t]*:[ \t]+(.*\S)[ \t]*")


class FrontMatter(Struct, frozen=True):
    """A Markdown file."""

    values: dict[str, str]  # the texts at the top level of its front matter; other kinds of values are left out
    body: str  # the text after it
    fault: str = ""  # why the front matter cannot be read; empty if it can


def read_front_matter(text: str) -> FrontMatter:
    """Split a Markdown file. Never raises.

    Many files in use are not valid YAML, because a description contains ``: ``. Their plain ``key: value`` lines are
    read one by one.
    """
    text = text.removeprefix("\ufeff")
    block = _BLOCK.match(text)
    if block is None:
        fault = "its front matter has no end; add a line with ---" if text.startswith("---\n") else "no front matter"
        return FrontMatter({}, text, fault)
    head, body = block["head"], text[block.end() :]
    if len(head) > MAX_CHARS:
        return FrontMatter({}, body, f"its front matter has {len(head):,} characters; at most {MAX_CHARS:,}")
    values = _parsed(head)
    if values is None:
        values = {match[1]: match[2] for line in head.splitlines() if (match := _LINE.fullmatch(line))}
    texts = {str(key): value for key, value in values.items() if isinstance(value, str)}
    return FrontMatter(texts, body, "" if texts else "its front matter is not a YAML mapping")


def _parsed(head: str) -> dict[Any, Any] | None:
    """Return the mapping, or None if the text is not valid YAML or another kind of value."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.scanner import Scanner

    reader = YAML(typ="safe", pure=True)
    reader.Scanner = bounded_scanner(Scanner, _MAX_DEPTH)
    try:
        value = reader.load(head)
    except (YAMLError, RecursionError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return None  # the parser raises Python's own errors for some invalid scalars, tags and keys
    return value if isinstance(value, dict) else None
