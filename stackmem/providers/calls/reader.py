"""Finds tool calls that a model wrote in its text and did not make natively.

Rule 1: a call must name an offered tool. A well-known tool of other agents, or any name in explicit call markup,
counts too: the machine then refuses the call and names the right tool.
Rule 2: if a plain answer would end the turn, an answer that only quotes a call stays an answer. A call then counts
only in explicit call markup, at the end of the reply, or as JSON at its beginning. Answers that quote a call start
with text, and small models add text or another call after the intended one.
Rule 3: a call inside a thought never counts, and a reply cut inside a string makes no call.
Rule 4: text that is a call by these rules but cannot be parsed is a malformed call, so that the model learns what
is wrong. It is never an answer.
Rule 5: copies of tool schemas that a model lists before a call are not calls.

Supports JSON objects in OpenAI's and similar shapes, bare or fenced, Hermes and Qwen (``<tool_call>``), Qwen-Coder
and Anthropic XML, GLM, Llama (``<|python_tag|>``, ``<function=name>``), Mistral (``[TOOL_CALLS]``), DeepSeek, Kimi,
Granite, Harmony, ReAct (``Action:``), and Python-style calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from msgspec.structs import replace

from stackmem.core.guidance.lessons import FOREIGN_NAMES

from .found import MAX_TRIES, FoundCall, FoundCalls, offered_name, plain_name
from .json_calls import ARGUMENT_KEYS, MAX_CALLS, NAME_KEYS, json_calls
from .loose_json import JsonText
from .named_calls import named_calls

MAX_CHARS = 400_000
"""Only this many characters at the end of a reply are searched."""

# Thoughts count only at the start of a reply. Later tags are content: a file may contain these words.
_THOUGHTS = re.compile(
    r"\A(?:\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z))+|\A(?:(?!<think).)*?^[ \t]*</think>[ \t]*$",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
OPENER = re.compile(
    r"^[ \t]*(?:<tool_(?:calls?|use)\b[^>\n]{0,200}>|<function_calls?\b[^>\n]{0,200}>|<functioncall>|<tools>"
    r"|<\|tool_calls?\|>|<\|python_(?:tag|start)\|>|<\|START_ACTION\|>|<TOOLCALL>|<start_function_call>"
    r"|\[TOOL_CALLS\]|<[|｜]tool▁calls?▁begin[|｜]>|<\|tool_calls?_begin\|>|<\|tool_calls?_section_begin\|>"
    r"|<\w+:(?:tool_call|function_calls|invoke\b)|<｜DSML｜|<\|channel\|>commentary|<invoke\b|<function[= ]"
    r"|<\|tool_call_start\|>)",
    re.IGNORECASE | re.MULTILINE,
)
# Text that may follow the last call of a reply: closing tags and brackets, fences, and end markers. The quantifier
# is possessive, because without it hostile text takes exponential time.
_CLOSING = re.compile(r"(?:\s|</?[\w:|=｜]+>|<[|｜][^<>]{1,40}[|｜]>|```\w*|[\])};,.`]|\[/\w+\])*+")
_NAME = re.compile(rf"""["'](?:{"|".join(NAME_KEYS)})["']\s*:\s*["']([^"'\\\n]{{1,200}})["']""")
_ARGUMENTS = re.compile(rf"""["'](?:{"|".join(ARGUMENT_KEYS)})["']\s*:""")
_CLOSING_TAG = re.compile(r"(?:</\w+>\s*)+\Z")
_FENCE_BEFORE = re.compile(r"```\w*[ \t]*\s*\Z")
_OBJECT_AROUND = re.compile(r"\{[^{}]{0,200}:\s*\[?\s*\Z")
_SCHEMA_WORDS = frozenset({"type", "properties", "required", "additionalProperties", "description", "title", "$schema"})
_MAX_MALFORMED = 20_000
_MAX_BEFORE_NAME = 2_000


def find_calls(text: str, offered: Collection[str], *, answers: bool) -> FoundCalls | None:
    """Find the calls in a text; return None if there are none.

    ``offered`` are names of the tools that the model was shown. ``answers`` says whether a plain answer would be
    accepted in place of a call (rule 2).
    """
    if not offered:
        return None
    beginning = max(0, len(text) - MAX_CHARS)
    searched = text[beginning:]
    if thoughts := _THOUGHTS.match(searched):
        searched = " " * thoughts.end() + searched[thoughts.end() :]
    quoted = _unquoted(searched)
    if quoted is not None:
        inner = find_calls(quoted, offered, answers=answers)
        return replace(inner, text="") if inner is not None else None
    opener = OPENER.search(searched)
    mentions_tool = opener is not None or any(name in searched for name in (*offered, *FOREIGN_NAMES))
    if not mentions_tool and not any(key in searched for key in ARGUMENT_KEYS):
        return None
    names, read = frozenset(offered), JsonText(searched)
    by_name = list(named_calls(read, names))
    spans = [(call.start, call.end) for call in by_name]
    any_name = opener is not None or not answers
    calls = _without_overlaps([*by_name, *json_calls(read, names, spans, any_name=any_name)])
    if not calls:
        return _unreadable(text, searched, beginning, opener) or _broken(text, searched, beginning, names, answers)
    ends_with_it = _CLOSING.fullmatch(searched, calls[-1].end) is not None
    begins_with_it = calls[0].form.startswith("JSON") and _begins(_FENCE_BEFORE.sub("", searched[: calls[0].start]))
    if answers and opener is None and not (ends_with_it or begins_with_it):
        return None
    first = opener.start() if opener is not None and opener.start() < calls[0].start else calls[0].start
    remaining = text[: beginning + first]
    remaining = re.sub(r"(?:```\w*|[\[<(`\"'])\s*\Z", "", remaining.rstrip()).rstrip()
    real = [call for call in calls if not _is_schema(call.arguments)] or calls
    return FoundCalls(remaining, tuple(real[:MAX_CALLS]), len(calls) - len(real))


def _is_schema(arguments: object) -> bool:
    """Return whether a model copied a tool's schema in place of arguments."""
    return (
        isinstance(arguments, dict)
        and arguments.keys() <= _SCHEMA_WORDS
        and isinstance(arguments.get("properties"), dict)
    )


def _unquoted(searched: str) -> str | None:
    """Decode a reply that is one JSON string with an object inside; None for other replies."""
    bare = searched.strip()
    if not (bare.startswith('"') and bare.endswith('"') and '\\"' in bare and "{" in bare[:20]):
        return None
    try:
        value = json.loads(bare)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _unreadable(text: str, searched: str, beginning: int, opener: re.Match[str] | None) -> FoundCalls | None:
    """Return a malformed call for call markup around unparsable text.

    The model then learns what is wrong with its call.
    """
    body = "" if opener is None else _CLOSING_TAG.sub("", searched[opener.end() :].strip()).strip()
    if opener is None or not body:
        return None
    name = _NAME.search(body)
    call = FoundCall(beginning + opener.start(), len(text), plain_name(name[1]) if name else "", None, "markup")
    return FoundCalls(text[: beginning + opener.start()].rstrip(), (replace(call, malformed=body[:_MAX_MALFORMED]),))


def _broken(text: str, searched: str, beginning: int, offered: frozenset[str], answers: bool) -> FoundCalls | None:
    """Return a malformed call for unparsable JSON (such as unescaped quotes) with an offered tool and arguments.

    If a plain answer is accepted (rule 2), the JSON must begin on its own line, and the reply must begin or end
    with it.
    """
    last_arguments = max((match.start() for match in _ARGUMENTS.finditer(searched)), default=-1)
    for number, match in enumerate(_NAME.finditer(searched)):
        name = offered_name(match[1], offered)
        position = searched.rfind("{", max(0, match.start() - _MAX_BEFORE_NAME), match.start())
        if number >= MAX_TRIES or position < 0 or last_arguments < position or name not in offered:
            continue
        while outer := _OBJECT_AROUND.search(searched, max(0, position - _MAX_BEFORE_NAME), position):
            position = outer.start()
        before = _FENCE_BEFORE.sub("", searched[:position].rstrip(" \t"))
        if answers and not (_begins(before) or (before.endswith("\n") and _ends_with_json(searched, position))):
            continue
        body = searched[position : position + _MAX_MALFORMED]
        call = FoundCall(beginning + position, len(text), name, None, "JSON that cannot be read", malformed=body)
        remaining = re.sub(r"```\w*\s*\Z", "", text[: beginning + position].rstrip()).rstrip()
        return FoundCalls(remaining, (call,))
    return None


def _begins(before: str) -> bool:
    return not before.strip("{[ \t\n")


def _ends_with_json(searched: str, position: int) -> bool:
    """Return whether only closing characters follow the last bracket; also true if no bracket closes anything."""
    last = max(searched.rfind("}", position), searched.rfind("]", position))
    return last < 0 or _CLOSING.fullmatch(searched, last + 1) is not None


def _without_overlaps(calls: list[FoundCall]) -> list[FoundCall]:
    result: list[FoundCall] = []
    for call in sorted(calls, key=lambda each: (each.start, -each.end)):
        if not result or call.start >= result[-1].end:
            result.append(call)
    return result
