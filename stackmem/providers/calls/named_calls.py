"""Finds calls with the tool's name before or around the arguments: XML, ReAct, Mistral, DeepSeek, Harmony, Python."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

from stackmem.core.text import whole_value

from .found import MAX_TRIES, FoundCall
from .loose_json import JsonText, read_object

_PREFIX = r"(?:\w{1,20}:|[|｜]\w{1,20}[|｜])?"
"""Prefix of a tag's name, as in ``<minimax:invoke>`` and DeepSeek's ``<｜DSML｜invoke>``."""
# Text that may appear between a tool's name and its arguments object.
_BETWEEN = re.compile(
    r"(?::\d+)?(?:\s|</?(?:name|tool|tool_name|args|arguments|parameters|input|params)>|<[|｜][^<>]{1,40}[|｜]>|```\w*"
    r"|json\b|commentary\b|\[CALL_ID\][\w-]{1,64}|\[ARGS\]|action[ _]input|arguments|parameters|args|[:=>\"'`*])*+",
    re.IGNORECASE,
)
_LINE_START = re.compile(
    r"(?:^|\n|>|\]|[|｜]>)[-*#>\[`( \t]*+(?:\w+ *= *)?(?:await +)?(?:print\()?"
    r"(?:(?:tool|action|call|function|name|recipient|to|assistant) *+[:=]? *+){0,3}[\"'`*<]*+"
    r"(?:functions?[.=]|default_api\.|tools?\.)?\Z",
    re.IGNORECASE,
)
_TAG_BEFORE = re.compile(
    rf"(?:<{_PREFIX}(?:(?:function|tool)(?:_call|_use)?|invoke)(?:=| name=)[\"']?"
    r"|<\|channel\|>commentary to=|\)\s*[,;]\s*)\Z",
    re.IGNORECASE,
)
_OPENING_TAG = re.compile(rf"<{_PREFIX}(?:function|invoke|tool)(?:=| name=)[\"']?\Z")
_NEXT_TAG = re.compile(rf"<{_PREFIX}(?:function|invoke|tool)(?:=| name=)")
_PARAMETER = re.compile(
    rf"<{_PREFIX}param(?:eter)?(?:=| name=)[\"']?([\w.-]+)[\"']?[^>]*>\n?"
    rf"(.*?)\n?(?:</{_PREFIX}param(?:eter)?>|(?=<{_PREFIX}param(?:eter)?\b)|(?=</function)|(?=</{_PREFIX}invoke)|\Z)",
    re.DOTALL,
)
_FIELD = re.compile(r"<([\w-]+)>\n?(.*?)\n?</\1>", re.DOTALL)
_ARGUMENT_PAIR = re.compile(r"\s*<arg_key>([^<>]{1,200})</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_COLON = re.compile(r"\(\s*\w+\s*:")
_PYTHON_TOKEN = re.compile(
    r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[()\[\]{}\"']",
    re.DOTALL,
)


def named_calls(read: JsonText, offered: frozenset[str]) -> Iterator[FoundCall]:
    """Yield the calls of offered tools in a text, in order and without overlaps."""
    text = read.text
    names = "|".join(map(re.escape, sorted(offered, key=len, reverse=True)))
    position = 0
    for number, match in enumerate(
        re.finditer(rf"(?<![\w./-])(?:functions?[.=]|default_api\.|tools?\.)?({names})(?![\w-])", text)
    ):
        if number >= MAX_TRIES:
            return
        if match.start() < position:
            continue
        line = text[max(text.rfind("\n", max(0, match.start() - 200), match.start()), match.start() - 200, 0) :]
        line = line[: match.start() - (len(text) - len(line))]
        if _LINE_START.search("\n" + line.removeprefix("\n")) or _TAG_BEFORE.search(line):
            call = _after_name(read, match.start(1), match[1], match.end())
            if call is not None:
                position = call.end
                yield call


def _after_name(read: JsonText, start: int, name: str, end: int) -> FoundCall | None:
    text = read.text
    if bracket := re.compile(r"(?:\.call)?\s*\(").match(text, end):
        return _pythonic(text, start, name, bracket.end() - 1)
    if text.startswith("<arg_key>", _past_blanks(text, end)) and "</arg_value>" in text[end:]:
        arguments: dict[str, Any] = {}
        while pair := _ARGUMENT_PAIR.match(text, end):
            arguments[pair[1].strip()] = pair[2]
            end = pair.end()
        return FoundCall(start, end, name, arguments, "tagged arguments") if arguments else None
    if tag := re.compile(r"[\"']?\s*/?>").match(text, end):
        tagged = _tagged(read, start, name, tag.end())
        if tagged is not None:
            return tagged
    between = _BETWEEN.match(text, end)
    position = between.end() if between else end
    if position < len(text) and text[position] == "{" and (parsed := read.object_at(position)) is not None:
        value, end, _ = parsed
        return FoundCall(start, end, name, value, "a name before its arguments")
    return None


def _past_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _tagged(read: JsonText, start: int, name: str, begin: int) -> FoundCall | None:
    """Parse ``<function=NAME><parameter=KEY>VALUE`` and its variants, or ``<NAME><KEY>VALUE</KEY></NAME>``.

    Values stay text; the tool's schema determines their types later.
    """
    text = read.text
    opening = text[max(0, start - 40) : start]
    closing = re.compile(rf"</{_PREFIX}(?:function|invoke|tool|{re.escape(name)})>").search(text, begin)
    if _OPENING_TAG.search(opening):
        following = _NEXT_TAG.search(text, begin, closing.start() if closing else len(text))
        if following:
            closing = None
        end = closing.start() if closing else following.start() if following else len(text)
        body = text[begin:end]
        parameters: dict[str, Any] = {match[1]: match[2] for match in _PARAMETER.finditer(body)}
        if not parameters and body.lstrip().startswith("{"):
            parsed = read.object_at(begin + body.index("{"))
            parameters = parsed[0] if parsed is not None else {}
        if parameters or closing:
            return FoundCall(start, closing.end() if closing else end, name, parameters, "XML")
    elif opening.endswith("<") and closing and closing[0] == f"</{name}>":
        body = text[begin : closing.start()]
        fields = {match[1]: match[2] for match in _FIELD.finditer(body)}
        return FoundCall(start, closing.end(), name, fields, "XML") if fields or not body.strip() else None
    return None


def _pythonic(text: str, start: int, name: str, bracket: int) -> FoundCall | None:
    end, missing = _closing_bracket(text, bracket)
    if end is None:
        return None
    spelled = text[bracket:end] + missing
    if _COLON.match(spelled):
        parsed = read_object("{" + spelled[1:-1] + "}", 0)
        return FoundCall(start, end, name, parsed[0], "a Python call with colons") if parsed is not None else None
    call = _parsed(spelled) or _parsed(_PYTHON_TOKEN.sub(_on_one_line, spelled))
    if call is None or any(word.arg is None for word in call.keywords):
        return None
    try:
        arguments = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        loose = [ast.literal_eval(argument) for argument in call.args]
        if len(loose) == 1 and isinstance(loose[0], dict) and not arguments:
            arguments, loose = loose[0], []
        value = whole_value(json.loads(json.dumps(arguments)))
        if loose:
            # The caller knows the order of the parameters.
            value = {**value, "": whole_value(json.loads(json.dumps(loose)))}
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
    return FoundCall(start, end, name, value, "a Python call")


def _parsed(brackets: str) -> ast.Call | None:
    """Parse ``f(...)`` with these brackets."""
    try:
        with warnings.catch_warnings():  # invalid escapes such as \d, which models write
            warnings.simplefilter("ignore")
            call = ast.parse("f" + brackets, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return call if isinstance(call, ast.Call) else None


def _on_one_line(token: re.Match[str]) -> str:
    """Escape line breaks in a string, which Python requires; return other tokens unchanged."""
    string = token[0]
    return string if string.startswith(('"""', "'''")) else string.replace("\n", "\\n")


def _closing_bracket(text: str, start: int) -> tuple[int | None, str]:
    """Return the end of the bracket at ``start`` and what is missing there; None if the text ends inside a string."""
    waiting: list[str] = []
    for match in _PYTHON_TOKEN.finditer(text, start):
        sign = match[0]
        if sign in "([{":
            waiting.append({"(": ")", "[": "]", "{": "}"}[sign])
        elif sign in ")]}":
            if not waiting or waiting.pop() != sign:
                return None, ""
            if not waiting:
                return match.end(), ""
        elif sign in "\"'":
            return None, ""
    return (len(text.rstrip()), "".join(reversed(waiting))) if len(waiting) < 4 else (None, "")
