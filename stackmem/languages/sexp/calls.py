"""Calls of tasks and tools, ``(name (key expression)…)``, and the parameter types of ``defatom``.

Type names are case-insensitive. A type that ends with ``?`` also accepts ``nil``. Values are not checked against other
type names, which only inform the reader; the linter reports them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from .errors import SexpEvaluationError
from .interpreter import Doing, Env, Machine
from .requests import ContextManagement, HistoryConfigSettings, SubtaskRequest, ToolRequest
from .tree import Form, datum, name_of, pair_of
from .values import Closure, as_mapping, containers, from_python, is_null, to_source

_SOURCE_CHARS = 80


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_object(value: Any) -> bool:
    """Return whether a value is a mapping or a list of pairs."""
    return isinstance(value, Mapping) or as_mapping(value) is not None


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_whole,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "list": _is_list,
    "object": _is_object,
    "null": is_null,
    "any": lambda _: True,
}
_SPELLED = {
    "str": "string", "text": "string", "int": "integer", "float": "number", "bool": "boolean", "array": "list",
    "dict": "object", "map": "object", "mapping": "object", "alist": "object",
}  # fmt: skip
TYPE_NAMES = ", ".join(_CHECKS)


def typed_params(params: Any) -> dict[str, str]:
    """Return the typed parameters of a template. A template from another program may contain anything."""
    entries = params.items() if isinstance(params, Mapping) else ()
    return {
        str(name): param["type"]
        for name, param in entries
        if isinstance(param, Mapping) and isinstance(param.get("type"), str) and param["type"] != "any"
    }


def optional_params(params: Any) -> frozenset[str]:
    """Return the parameters that a call may omit."""
    entries = params.items() if isinstance(params, Mapping) else ()
    return frozenset(
        str(name) for name, param in entries if isinstance(param, Mapping) and param.get("optional") is True
    )


def least_count(names: tuple[str, ...], optional: frozenset[str]) -> int:
    """Return the minimum number of positional arguments."""
    return max((number for number, name in enumerate(names, 1) if name not in optional), default=0)


def known_type(kind: str) -> bool:
    return _plain(kind) in _CHECKS


def fits(value: Any, kind: str) -> bool:
    """Return whether a value has the type. An unknown type name accepts any value."""
    check = _CHECKS.get(_plain(kind))
    return check is None or check(value) or (kind.endswith("?") and is_null(value))


def misfit(task: str, name: str, kind: str, value: Any) -> str:
    """Return the message for a value that does not have its parameter's type."""
    source = "a function" if isinstance(value, Closure) else to_source(value, _SOURCE_CHARS)
    return f"Task '{task}' takes '{name}' as {kind}, got: {source}"


def _plain(kind: str) -> str:
    name = kind.lower().removesuffix("?")
    return _SPELLED.get(name, name)


_INHERIT = ("none", "full", "subset")
_FORMATS = ("full_output", "notes_only")


class Calls:
    """Makes the requests of one evaluation. ``kind`` returns the kind of a name; see ``requests.Host``."""

    def __init__(self, host: Any) -> None:
        self._host = host
        self._count = 0

    def knows(self, name: str) -> bool:
        return bool(self._host.kind(name))

    def invoke(self, machine: Machine, form: Form, env: Env) -> Doing:
        """Call a task or tool whose arguments are not evaluated yet."""
        name = name_of(form.items[0])
        kind = self._host.kind(name)
        arguments: dict[str, Any] = {}
        for item in form.items[1:]:
            pair = pair_of(item)
            if pair is None:
                got = to_source(datum(item), 80)
                raise machine.fault(
                    f"Invalid argument format for {kind} '{name}'. Expected (key_symbol value_expression), got: {got}",
                    form,
                )
            key = pair[0].name
            if key in arguments:
                raise machine.fault(f"Duplicate argument '{key}' for {kind} '{name}'.", form)
            arguments[key] = yield (pair[1], env)
        return (yield from self._request(machine, name, kind, arguments, form))

    def apply_named(self, machine: Machine, name: str, args: list[Any], form: Form) -> Doing:
        """Call a task or tool with positional arguments, as ``map`` does."""
        kind, names = self._host.kind(name), self._host.parameters(name)
        if names is None or (kind == "tool" and len(args) == 1 and isinstance(args[0], dict)):
            mapping = as_mapping(args[0]) if len(args) == 1 else None
            if mapping is None:
                raise machine.fault(
                    f"The parameters of {kind} '{name}' have no known order; give one list of (key value) pairs", form
                )
            return (yield from self._request(machine, name, kind, mapping, form))
        least = least_count(names, self._host.optional(name)) if kind == "task" else 0
        if not least <= len(args) <= len(names):
            takes = ", ".join(names) or "none"
            raise machine.fault(f"{kind.capitalize()} '{name}' takes {takes}; got {len(args)} arguments", form)
        return (yield from self._request(machine, name, kind, dict(zip(names, args, strict=False)), form))

    def _request(self, machine: Machine, name: str, kind: str, arguments: dict[str, Any], form: Form) -> Doing:
        for value in arguments.values():
            list(containers(value, machine.meter.budget))
        try:
            files = files_of(arguments.get("files"))
            context = context_of(arguments.get("context"))
            history = history_of(arguments.get("history_config")) if kind == "task" else None
            if kind == "task":
                self._check_types(name, arguments)
        except SexpEvaluationError as error:
            raise machine.locate(error, form) from None
        line = form.source.text.count("\n", 0, form.at) + 1
        column = form.at - (form.source.text.rfind("\n", 0, form.at) + 1) + 1
        location, file = f"{line}:{column}", posixpath.basename(form.source.path)
        self._count += 1
        if kind == "tool":
            if context is not None:
                arguments = {**arguments, "context": as_mapping(arguments["context"])}
            request: Any = ToolRequest(name, arguments, location, file)
        else:
            inputs = {
                key: value for key, value in arguments.items() if key not in ("files", "context", "history_config")
            }
            request = SubtaskRequest(
                f"{name}-{self._count}",
                name,
                inputs,
                file_paths=files,
                context_management=context,
                history_config=history,
                position=location,
                file=file,
            )
        try:
            answer = yield request
        except SexpEvaluationError as error:
            raise machine.locate(error, form) from None
        return from_python(answer, machine.meter.budget)

    def _check_types(self, task: str, arguments: dict[str, Any]) -> None:
        for name, kind in self._host.types(task).items():
            if name in arguments and not fits(arguments[name], kind):
                raise SexpEvaluationError(misfit(task, name, kind, arguments[name]))


def files_of(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SexpEvaluationError(f"'files' must be a list of texts, got: {to_source(value, 80)}")
    return [str.__str__(item) for item in value]


def _settings(value: Any, name: str, choices: dict[str, Any]) -> dict[str, Any]:
    """Return settings by name after checking them."""
    settings = as_mapping(value)
    if settings is None:
        raise SexpEvaluationError(f"'{name}' must be a mapping or a list of pairs, got: {to_source(value, 80)}")
    for key, item in settings.items():
        if key not in choices:
            raise SexpEvaluationError(f"Unknown setting '{key}' of '{name}'. Known: {', '.join(choices)}")
        allowed = choices[key]
        fits = item in allowed if isinstance(allowed, tuple) else isinstance(item, allowed)
        if not fits:
            expected = " or ".join(map(repr, allowed)) if isinstance(allowed, tuple) else "true or false"
            raise SexpEvaluationError(f"'{key}' of '{name}' must be {expected}, got: {to_source(item, 80)}")
    return {key: str.__str__(item) if isinstance(item, str) else item for key, item in settings.items()}


def context_of(value: Any) -> ContextManagement | None:
    if value is None:
        return None
    settings = _settings(
        value,
        "context",
        {
            "inheritContext": _INHERIT,
            "accumulateData": bool,
            "accumulationFormat": _FORMATS,
            "freshContext": ("enabled", "disabled"),
        },
    )
    inherits = settings.get("inheritContext", "none") != "none"
    if inherits and settings.get("freshContext") == "enabled":
        raise SexpEvaluationError("'context' with freshContext enabled inherits nothing; set inheritContext to none")
    return ContextManagement(**{"freshContext": "disabled" if inherits else "enabled", **settings})


def history_of(value: Any) -> HistoryConfigSettings | None:
    """Return the settings of ``history_config``; None if it is not given."""
    if value is None:
        return None
    pairs = as_mapping(value) or {}
    turns = pairs.pop("history_turns_to_include", None)
    if (
        turns is not None
        and not is_null(turns)
        and (isinstance(turns, bool) or not isinstance(turns, int) or turns < 0)
    ):
        got = to_source(turns, 80)
        raise SexpEvaluationError(f"'history_turns_to_include' of 'history_config' must be a count, got: {got}")
    rest = value if as_mapping(value) is None else pairs
    settings = _settings(rest, "history_config", {"use_session_history": bool, "record_in_session_history": bool})
    return HistoryConfigSettings(**settings, history_turns_to_include=None if is_null(turns) else turns)
