"""Reads refusals that a changed request would avoid: of a tool's schema, of thoughts, of ids, of fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stackmem.core.messages import ToolSpec
from stackmem.core.tools import CALLS

_ABOUT_SCHEMA = re.compile(
    r"schema|function_?declarations|\bparameters[.\[:]|grammar|tool (definition|spec)|toolSpec|tools[.\[]\d|"
    r"invalid (tool|function)\b|Property keys should match",
    re.IGNORECASE,
)
_INDEX = re.compile(r"(?:function_declarations|functionDeclarations|\btools)(?:\.|\[)(\d{1,4})\]?", re.IGNORECASE)
_INNERMOST = ("function_declarations", "functionDeclarations")
_THOUGHT = re.compile(r"thinking|signature|reasoning|encrypted[_ ]content|thought", re.IGNORECASE)
_WRONG_THOUGHT = re.compile(
    r"invalid|cannot be modified|field required|must (be|match)|"
    r"not (be )?(found|valid|permitted|allowed|supported|verified)|"
    r"could not|failed|unsupported|expired|unexpected|decrypt|without its required|mismatch|corrupt|unknown|"
    r"extra inputs|unrecognized|required following item",
    re.IGNORECASE,
)
_WANTED_BACK = re.compile(r"passed back|must be (provided|included)|must start with|expected `?thinking|is missing in",
                          re.IGNORECASE)  # fmt: skip
_STARTS = re.compile(r"must start with|expected `?thinking", re.IGNORECASE)
_SHORT_IDS = re.compile(r"a-z, A-Z, 0-9, with a length of 9|length of 9\b")
_REFUSED_FIELD = re.compile(
    r"extra inputs|not (permitted|allowed|supported|recognized)|unsupported|unknown|unrecognized|unexpected|invalid|"
    r"does not support|no additional|not enabled|too many|too complex|compil|input should be",
    re.IGNORECASE,
)
FIELDS = {
    "strict": r"\bstrict\b", "ttl": r"\bttl\b", "disable_parallel_tool_use": r"\bdisable_parallel_tool_use\b",
    "display": r"\bthinking\b.*\bdisplay\b", "adaptive": r"\badaptive\b|\bthinking(\.type)?: ",
}  # fmt: skip
"""Fields of a request to Anthropic's API that some servers refuse, and how their refusals name them."""


def refused_tools(text: str, tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """Return the names of the tools because of which a request was refused; empty if it was not because of tools.

    The tools of stackmem are never among them, because a run needs them. If a refusal is
    about a schema and names no tool, it concerns all others.
    """
    if not _ABOUT_SCHEMA.search(text):
        return ()
    others = [tool.name for tool in tools if tool.name not in CALLS]
    names = [name for name in others if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]
    if names:
        return tuple(names)
    matches = [*_INDEX.finditer(text)]
    inner = [match for match in matches if match[0].startswith(_INNERMOST)] or matches
    places = {int(match[1]) for match in inner}
    listed = [tool.name for position, tool in enumerate(tools) if position in places]
    if listed:
        return tuple(name for name in listed if name in others)
    return tuple(others)


def refuses_thoughts(text: str) -> bool:
    """Return whether a request was refused because of a thought that it sends back."""
    return bool(_THOUGHT.search(text) and _WRONG_THOUGHT.search(text))


def wants_thoughts(text: str) -> bool:
    """Return whether a request was refused because a thought is missing in it."""
    return bool(_THOUGHT.search(text) and _WANTED_BACK.search(text))


def wants_thought_first(text: str) -> bool:
    """Return whether every reply would have to begin with a thought, because thinking is on."""
    return bool(_THOUGHT.search(text) and _STARTS.search(text))


def wants_short_ids(text: str) -> bool:
    return bool(_SHORT_IDS.search(text))


def refused_field(text: str) -> str:
    """Return the field that a server does not accept, or an empty string."""
    if not _REFUSED_FIELD.search(text):
        return ""
    return next((name for name, words in FIELDS.items() if re.search(words, text)), "")
