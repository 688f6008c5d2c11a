"""Calls of tasks and tools: ``(name (key expression)…)``, with the keys that the document reserves."""

from __future__ import annotations

from typing import Any

from .asks import ContextManagement, HistoryConfigSettings, SubtaskRequest, ToolRequest
from .errors import SexpEvaluationError
from .machine import Doing, Env, Machine
from .nodes import Form, Name, datum
from .param_types import fits, misfit
from .values import as_mapping, contained, entered, is_null, written

_INHERIT = ("none", "full", "subset")
_FORMATS = ("full_output", "notes_only")


class Invoking:
    """Makes the requests of one evaluation.

    Attributes:
        kind: What a name is, see ``asks.Host``.

    """

    def __init__(self, host: Any) -> None:
        self._host = host
        self._count = 0

    def knows(self, name: str) -> bool:
        return bool(self._host.kind(name))

    def invoke(self, machine: Machine, form: Form, env: Env) -> Doing:
        """A call whose arguments are not evaluated yet."""
        head = form.items[0]
        name = head.name if isinstance(head, Name) else ""
        kind = self._host.kind(name)
        arguments: dict[str, Any] = {}
        for item in form.items[1:]:
            pair = item.items if isinstance(item, Form) else []
            if len(pair) != 2 or not isinstance(pair[0], Name):
                got = written(datum(item), 80)
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
        """A call by position, as ``map`` makes it."""
        kind, names = self._host.kind(name), self._host.parameters(name)
        if names is None or (kind == "tool" and len(args) == 1 and isinstance(args[0], dict)):
            mapping = as_mapping(args[0]) if len(args) == 1 else None
            if mapping is None:
                raise machine.fault(
                    f"The parameters of {kind} '{name}' have no known order; give one list of (key value) pairs", form
                )
            return (yield from self._request(machine, name, kind, mapping, form))
        if len(args) > len(names) or (kind == "task" and len(args) != len(names)):
            told = ", ".join(names) or "none"
            raise machine.fault(f"{kind.capitalize()} '{name}' takes {told}; got {len(args)} arguments", form)
        return (yield from self._request(machine, name, kind, dict(zip(names, args, strict=False)), form))

    def _request(self, machine: Machine, name: str, kind: str, arguments: dict[str, Any], form: Form) -> Doing:
        for value in arguments.values():
            list(contained(value, machine.meter.budget))
        try:
            files = _files(arguments.get("files"))
            context = _context(arguments.get("context"))
            history = history_of(arguments.get("history_config")) if kind == "task" else None
            if kind == "task":
                self._check_types(name, arguments)
        except SexpEvaluationError as error:
            raise machine.located(error, form) from None
        line = form.source.text.count("\n", 0, form.at) + 1
        column = form.at - (form.source.text.rfind("\n", 0, form.at) + 1) + 1
        place = f"{line}:{column}"
        self._count += 1
        if kind == "tool":
            request: Any = ToolRequest(name, arguments, place)
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
                place=place,
            )
        try:
            answer = yield request
        except SexpEvaluationError as error:
            raise machine.located(error, form) from None
        return entered(answer, machine.meter.budget)

    def _check_types(self, task: str, arguments: dict[str, Any]) -> None:
        for name, kind in self._host.types(task).items():
            if name in arguments and not fits(arguments[name], kind):
                raise SexpEvaluationError(misfit(task, name, kind, arguments[name]))


def _files(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SexpEvaluationError(f"'files' must be a list of texts, got: {written(value, 80)}")
    return [str.__str__(one) for one in value]


def _settings(value: Any, name: str, known: dict[str, Any]) -> dict[str, Any]:
    """Settings by their names, checked."""
    found = as_mapping(value)
    if found is None:
        raise SexpEvaluationError(f"'{name}' must be a mapping or a list of pairs, got: {written(value, 80)}")
    for key, item in found.items():
        if key not in known:
            raise SexpEvaluationError(f"Unknown setting '{key}' of '{name}'. Known: {', '.join(known)}")
        allowed = known[key]
        fits = item in allowed if isinstance(allowed, tuple) else isinstance(item, allowed)
        if not fits:
            told = " or ".join(map(repr, allowed)) if isinstance(allowed, tuple) else "true or false"
            raise SexpEvaluationError(f"'{key}' of '{name}' must be {told}, got: {written(item, 80)}")
    return {key: str.__str__(item) if isinstance(item, str) else item for key, item in found.items()}


def _context(value: Any) -> ContextManagement | None:
    if value is None:
        return None
    found = _settings(
        value,
        "context",
        {
            "inheritContext": _INHERIT,
            "accumulateData": bool,
            "accumulationFormat": _FORMATS,
            "freshContext": ("enabled", "disabled"),
        },
    )
    inherits = found.get("inheritContext", "none") != "none"
    if inherits and found.get("freshContext") == "enabled":
        raise SexpEvaluationError("'context' with freshContext enabled inherits nothing; set inheritContext to none")
    return ContextManagement(**{"freshContext": "disabled" if inherits else "enabled", **found})


def history_of(value: Any) -> HistoryConfigSettings | None:
    """The settings of ``history_config``; None where it is not given."""
    if value is None:
        return None
    pairs = as_mapping(value) or {}
    turns = pairs.pop("history_turns_to_include", None)
    if (
        turns is not None
        and not is_null(turns)
        and (isinstance(turns, bool) or not isinstance(turns, int) or turns < 0)
    ):
        told = written(turns, 80)
        raise SexpEvaluationError(f"'history_turns_to_include' of 'history_config' must be a count, got: {told}")
    rest = value if as_mapping(value) is None else pairs
    found = _settings(rest, "history_config", {"use_session_history": bool, "record_in_session_history": bool})
    return HistoryConfigSettings(**found, history_turns_to_include=None if is_null(turns) else turns)
