"""Find the tool calls that a model wrote into its text instead of calling natively.

Rule 1: a call names an offered tool. A well-known tool of another agent, or any name in explicit call markup, counts
    too: the machine then refuses it and names our tool.
Rule 2: where a plain answer would end the turn, an answer that only quotes a call stays an answer. A call counts there
    only in explicit call markup, or if the reply ends with it.
Rule 3: a call inside a thought never counts, and a reply that was cut inside a string makes no call.

Covers JSON objects in OpenAI's and similar shapes, bare or in a fence, Hermes and Qwen (``<tool_call>``), Qwen-Coder
and Anthropic XML, GLM, Llama (``<|python_tag|>``, ``<function=name>``), Mistral (``[TOOL_CALLS]``), DeepSeek, Kimi,
Granite, Harmony, ReAct (``Action:``), and pythonic calls.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.guidance.lessons import FOREIGN_NAMES
from stackmem.core.text import whole_value

from .loose_json import read_object

MOST_CHARS = 400_000
"""Only so many last characters of a reply are searched."""
MOST_CALLS = 50
_MOST_TRIES = 400
_MOST_MENDINGS = 20

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_OPENER = re.compile(
    r"^[ \t]*(?:<tool_calls?>|<function_calls?>|<functioncall>|<tools>|<\|tool_calls?\|>|<\|python_tag\|>"
    r"|\[TOOL_CALLS\]|<｜tool▁calls?▁begin｜>|<\|tool_calls?_section_begin\|>|<\|tool_call_begin\|>|<\w+:tool_call>"
    r"|<\|channel\|>commentary|<invoke\b|<function[= ]|<\|tool_call_start\|>)",
    re.IGNORECASE | re.MULTILINE,
)
# What may follow the last call of a reply that ends with it: closing tags and brackets, fences, and marks of an end.
# The quantifier is possessive, here and below: without it, hostile text takes exponential time.
_CLOSING = re.compile(r"(?:\s|</?[\w:|=]+>|<[|｜][^<>]{1,40}[|｜]>|```\w*|[\])};,.`]|\[/\w+\])*+")
# What may stand between a tool's name and the object of its arguments.
_BETWEEN = re.compile(
    r"(?::\d+)?(?:\s|</?name>|<[|｜][^<>]{1,40}[|｜]>|```\w*|json\b|\[ARGS\]|action[ _]input|arguments|parameters|args"
    r"|[:=>\"'`*])*+",
    re.IGNORECASE,
)
_LINE_START = re.compile(
    r"(?:^|\n|>|\]|[|｜]>)[-*>\[`( \t]*+(?:\w+ *= *)?(?:await +)?(?:print\()?"
    r"(?:(?:tool|action|call|function|name|recipient|to|assistant) *+[:=]? *+){0,3}[\"'`*<]*+"
    r"(?:functions?[.=]|default_api\.|tools?\.)?\Z",
    re.IGNORECASE,
)
_TAG_BEFORE = re.compile(
    r"(?:<(?:function|invoke|tool)(?:=| name=)[\"']?|<\|channel\|>commentary to=|\)\s*[,;]\s*)\Z", re.IGNORECASE
)
_PARAMETER = re.compile(
    r"<parameter(?:=| name=)[\"']?([\w.-]+)[\"']?[^>]*>\n?"
    r"(.*?)\n?(?:</parameter>|(?=<parameter\b)|(?=</function)|(?=</invoke)|\Z)",
    re.DOTALL,
)
_ARGUMENT_PAIR = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]{1,200})"')
_CLOSING_TAG = re.compile(r"(?:</\w+>\s*)+\Z")
_MOST_MALFORMED = 20_000
_NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
_ARGUMENT_KEYS = (
    "arguments",
    "parameters",
    "args",
    "input",
    "params",
    "kwargs",
    "action_input",
    "tool_input",
    "inputs",
)
_WRAPPERS = ("function", "tool_call", "function_call", "call", "tool_calls", "tool_use", "function_calls", "calls")
_EXTRA_KEYS = {"type", "id", "index", "thought", "thoughts", "reasoning", "explanation", "description", "call_id"}


class FoundCall(Struct, frozen=True):
    """A call in a text.

    Attributes:
        start, end: Where it is.
        form: In what form it was written, as the trace notes it.
        arguments: An object, or what stood in its place.
        malformed: The text of a call that cannot be read; None for all others.
    """

    start: int
    end: int
    name: str
    arguments: Any
    form: str
    malformed: str | None = None


class FoundCalls(Struct, frozen=True):
    """What a reply says beside its calls, and the calls in their order."""

    text: str
    calls: tuple[FoundCall, ...]


def find_calls(text: str, offered: Collection[str], *, answers: bool) -> FoundCalls | None:
    """The calls that ``text`` makes; None if it makes none.

    Args:
        offered: Names of the tools that the model was shown.
        answers: Whether a plain answer would be accepted in place of a call (rule 2).
    """
    if not offered:
        return None
    beginning = max(0, len(text) - MOST_CHARS)
    searched = _THOUGHT.sub(lambda thought: " " * len(thought[0]), text[beginning:])
    opener = _OPENER.search(searched)
    named = opener is not None or any(name in searched for name in (*offered, *FOREIGN_NAMES))
    if not named and (answers or not any(f'"{key}"' in searched for key in _ARGUMENT_KEYS)):
        return None
    reader = _TextReader(searched, frozenset(offered), any_name=opener is not None or not answers)
    calls = _without_overlaps(reader.all_calls())
    if not calls:
        return _unreadable(text, searched, beginning, opener) or (None if answers else _broken(text, offered))
    rest = searched[calls[-1].end :]
    ends_with_it = _CLOSING.fullmatch(rest) is not None
    if answers and opener is None and not ends_with_it:
        return None
    first = opener.start() if opener is not None and opener.start() < calls[0].start else calls[0].start
    said = text[: beginning + first]
    said = re.sub(r"(?:```\w*|[\[<(`\"'])\s*\Z", "", said.rstrip()).rstrip()
    return FoundCalls(said, tuple(calls[:MOST_CALLS]))


def _unreadable(text: str, searched: str, beginning: int, opener: re.Match[str] | None) -> FoundCalls | None:
    """Call markup around what is not a call: a malformed call, so that the model learns what is wrong with it."""
    body = "" if opener is None else _CLOSING_TAG.sub("", searched[opener.end() :].strip()).strip()
    if opener is None or not body:
        return None
    name = _NAME.search(body)
    call = FoundCall(beginning + opener.start(), len(text), plain_name(name[1]) if name else "", None, "markup")
    return FoundCalls(text[: beginning + opener.start()].rstrip(), (replace(call, malformed=body[:_MOST_MALFORMED]),))


def _broken(text: str, offered: Collection[str]) -> FoundCalls | None:
    """JSON that names an offered tool and its arguments, and cannot be read: quotes inside a string, for example."""
    for match in _NAME.finditer(text[-MOST_CHARS:]):
        place = text.rfind("{", 0, len(text) - len(text[-MOST_CHARS:]) + match.start())
        body = text[place:] if place >= 0 else ""
        if plain_name(match[1]) in offered and any(f'"{key}"' in body for key in _ARGUMENT_KEYS):
            call = FoundCall(place, len(text), plain_name(match[1]), None, "JSON that cannot be read")
            said = re.sub(r"```\w*\s*\Z", "", text[:place].rstrip()).rstrip()
            return FoundCalls(said, (replace(call, malformed=body[:_MOST_MALFORMED]),))
    return None


def _without_overlaps(calls: list[FoundCall]) -> list[FoundCall]:
    kept: list[FoundCall] = []
    for call in sorted(calls, key=lambda one: (one.start, -one.end)):
        if not kept or call.start >= kept[-1].end:
            kept.append(call)
    return kept


class _TextReader:
    """One pass over a text."""

    def __init__(self, text: str, offered: frozenset[str], *, any_name: bool) -> None:
        self._text, self._offered, self._any_name = text, offered, any_name
        self._mendings_left = _MOST_MENDINGS

    def all_calls(self) -> list[FoundCall]:
        named = list(self._named_calls())
        taken = [(call.start, call.end) for call in named]
        return [*named, *self._objects(taken)]

    def _object_at(self, place: int) -> tuple[dict[str, Any], int, bool] | None:
        read = read_object(self._text, place, mend=self._mendings_left > 0)
        self._mendings_left -= read is None or read[2]
        return read

    def _objects(self, taken: list[tuple[int, int]]) -> Iterator[FoundCall]:
        """Calls as JSON objects that name their tool."""
        place, tries = self._text.find("{"), 0
        while place >= 0 and tries < _MOST_TRIES:
            inside = next((end for start, end in taken if start <= place < end), None)
            if inside is not None:
                place = self._text.find("{", inside)
                continue
            tries += 1
            read = self._object_at(place)
            if read is None:
                place = self._text.find("{", place + 1)
                continue
            value, end, mended = read
            found = list(self._in_object(value))
            form = "JSON with mended syntax" if mended else "JSON"
            for name, arguments in found:
                yield FoundCall(place, end, name, arguments, form)
                break  # an object that lists several makes its first; the machine takes one call a reply
            if len(found) > 1:
                for number, (name, arguments) in enumerate(found[1:], 1):
                    yield FoundCall(end, end + number, name, arguments, form)
            place = self._text.find("{", end)

    def _in_object(self, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
        if isinstance(value, list):
            for one in value[:MOST_CALLS]:
                yield from self._in_object(one, depth + 1)
            return
        if not isinstance(value, dict) or depth > 3:
            return
        shaped = self._shaped(value)
        if shaped is not None:
            yield shaped
            return
        for key in _WRAPPERS:
            if isinstance(value.get(key), dict | list):
                yield from self._in_object(value[key], depth + 1)
                return
        if len(value) == 1:
            ((key, inner),) = value.items()
            if key in self._offered and isinstance(inner, dict):
                yield key, inner

    def _shaped(self, value: dict[str, Any]) -> tuple[str, Any] | None:
        """The name and the arguments of an object that has a call's shape."""
        key = next((key for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
        if key is None:
            return None
        name = plain_name(value[key])
        arguments = next((field for field in _ARGUMENT_KEYS if field in value), None)
        if arguments is not None and isinstance(value[arguments], dict | str | None):
            exact = {key, arguments} >= value.keys() - _EXTRA_KEYS
            if name in self._offered or name in FOREIGN_NAMES or (self._any_name and exact and key != "action"):
                return name, {} if value[arguments] is None else value[arguments]
            return None
        if name not in self._offered:
            return None
        return name, {field: inner for field, inner in value.items() if field != key and field not in {"type", "id"}}

    def _named_calls(self) -> Iterator[FoundCall]:
        """Calls whose tool's name stands before or around the arguments."""
        if not self._offered:
            return
        names = "|".join(map(re.escape, sorted(self._offered, key=len, reverse=True)))
        for number, match in enumerate(
            re.finditer(rf"(?<![\w./-])(?:functions?[.=]|default_api\.|tools?\.)?({names})(?![\w-])", self._text)
        ):
            if number >= _MOST_TRIES:
                return
            line = self._text[max(0, self._text.rfind("\n", 0, match.start()), match.start() - 200) : match.start()]
            if not (_LINE_START.search("\n" + line.removeprefix("\n")) or _TAG_BEFORE.search(line)):
                continue
            call = self._after_name(match.start(1), match[1], match.end())
            if call is not None:
                yield call

    def _after_name(self, start: int, name: str, end: int) -> FoundCall | None:
        text = self._text
        if re.compile(r"\s*\(").match(text, end):
            return self._pythonic(start, name, text.index("(", end))
        if pair := _ARGUMENT_PAIR.match(text, end):
            arguments: dict[str, Any] = {}
            while pair:
                arguments[pair[1].strip()] = _scalar(pair[2])
                end, pair = pair.end(), _ARGUMENT_PAIR.match(text, pair.end())
            return FoundCall(start, end, name, arguments, "tagged arguments")
        if tag := re.compile(r"[\"']?\s*/?>").match(text, end):
            tagged = self._tagged(start, name, tag.end())
            if tagged is not None:
                return tagged
        between = _BETWEEN.match(text, end)
        place = between.end() if between else end
        if place < len(text) and text[place] == "{" and (read := self._object_at(place)) is not None:
            value, end, _ = read
            return FoundCall(start, end, name, value, "a name before its arguments")
        return None

    def _tagged(self, start: int, name: str, begin: int) -> FoundCall | None:
        """``<function=NAME><parameter=KEY>VALUE`` and its relatives; ``<NAME><KEY>VALUE</KEY></NAME>``."""
        text = self._text
        opening = text[max(0, start - 20) : start]
        closing = re.compile(rf"</(?:function|invoke|tool|{re.escape(name)})>").search(text, begin)
        end = closing.start() if closing else len(text)
        body = text[begin:end]
        if re.search(r"<(?:function|invoke|tool)(?:=| name=)[\"']?\Z", opening):
            parameters = {one[1]: _scalar(one[2]) for one in _PARAMETER.finditer(body)}
            if not parameters and (place := body.find("{")) >= 0 and not body[:place].strip():
                read = self._object_at(begin + place)
                parameters = read[0] if read is not None else {}
            if parameters or closing:
                return FoundCall(start, closing.end() if closing else end, name, parameters, "XML")
        elif opening.endswith("<") and closing and closing[0] == f"</{name}>":
            fields = {one[1]: _scalar(one[2]) for one in re.finditer(r"<([\w-]+)>\n?(.*?)\n?</\1>", body, re.DOTALL)}
            return FoundCall(start, closing.end(), name, fields, "XML") if fields or not body.strip() else None
        return None

    def _pythonic(self, start: int, name: str, bracket: int) -> FoundCall | None:
        end = _closing_bracket(self._text, bracket)
        if end is None:
            return None
        try:
            with warnings.catch_warnings():  # of escapes like \d, which models write
                warnings.simplefilter("ignore")
                call = ast.parse("f" + self._text[bracket:end], mode="eval").body
            if not isinstance(call, ast.Call) or any(word.arg is None for word in call.keywords):
                return None
            arguments = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
            loose = [ast.literal_eval(one) for one in call.args]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if len(loose) == 1 and isinstance(loose[0], dict) and not arguments:
            arguments, loose = loose[0], []
        try:
            value = whole_value(json.loads(json.dumps(arguments)))
        except (TypeError, ValueError, RecursionError):
            return None
        if loose:
            value = {**value, "": loose}  # the caller knows the order of the parameters
        return FoundCall(start, end, name, value, "a Python call")


def plain_name(name: str) -> str:
    """A tool's name without what some models put around it: ``functions.read_file:0``."""
    bare = name.strip().strip("`\"'<>")
    bare = re.sub(r"\A(?:functions?|default_api|tools?)[.=/]", "", bare)
    return re.sub(r":\d+\Z", "", bare)


def _scalar(text: str) -> Any:
    """The value of an XML parameter: a number, a list or an object if it reads as one, else the text."""
    if text[:1] in "[{" or text in {"true", "false", "null"} or re.fullmatch(r"-?\d{1,15}", text):
        try:
            return whole_value(json.loads(text))
        except (ValueError, RecursionError):
            return text
    return text


def _closing_bracket(text: str, place: int) -> int | None:
    """Behind the bracket that closes the one at ``place``, strings of Python passed over; None if there is none."""
    depth = 0
    token = re.compile(
        r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[()\[\]{}]",
        re.DOTALL,
    )
    for match in token.finditer(text, place):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
            if depth == 0:
                return match.end()
    return None
