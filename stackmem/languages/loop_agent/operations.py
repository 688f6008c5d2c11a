"""ForEach and While as a model asks for them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .mapping import mapping_fault
from .reading import Misfit, count, member, needed, word

MOST_ROUNDS = 100_000
MOST_DELAY_MS = 3_600_000
_TAKEN = ("payload", "results", "errors", "data")


class ActionCall(Struct, frozen=True):
    """An action with its parameters; ``mapping`` is a loop's ``outputMapping``."""

    name: str
    params: dict[str, Any] = {}
    mapping: Any = None


class Ask(Struct, frozen=True):
    """A sub-agent with what it is asked."""

    name: str
    message: str
    template: dict[str, Any] = {}
    context: Any = None
    terminate_after: bool = False


class ForEach(Struct, frozen=True):
    """Do one thing for every item."""

    collection: str
    does: ActionCall | Ask
    item: str = "item"
    index: str = "index"
    most: int = 1_000
    continue_on_error: bool = False
    delay_ms: int = 0
    parallel: bool = False
    width: int = 10


class While(Struct, frozen=True):
    """Do one thing for as long as a condition holds."""

    condition: str
    does: ActionCall | Ask
    item: str = "attempt"
    most: int = 100
    continue_on_error: bool = False
    delay_ms: int = 0


def for_each(value: dict[str, Any], place: str) -> ForEach:
    """Read one.

    Raises:
        Misfit: Something in it does not fit.

    """
    item, index = _variable(value, "itemVariable", place, "item"), _variable(value, "indexVariable", place, "index")
    if item.lower() == index.lower():
        raise Misfit(f"{place}.indexVariable must not be the item variable")
    return ForEach(
        collection=needed(value, "collectionPath", str, place),
        does=_does(value, place),
        item=item,
        index=index,
        most=count(value, "maxIterations", place, 1_000, 0, MOST_ROUNDS),
        continue_on_error=member(value, "continueOnError", bool, place, default=False),
        delay_ms=count(value, "delayBetweenIterationsMs", place, 0, 0, MOST_DELAY_MS),
        parallel=word(value, "executionMode", place, ("sequential", "parallel"), "sequential") == "parallel",
        width=count(value, "maxConcurrency", place, 10, 1, 64),
    )


def while_(value: dict[str, Any], place: str) -> While:
    """Read one; its condition is looked at when it begins.

    Raises:
        Misfit: Something in it does not fit.

    """
    item = _variable(value, "itemVariable", place, "attempt")
    if item.lower() == "index":
        raise Misfit(f"{place}.itemVariable must not be index, which counts the iterations")
    return While(
        condition=needed(value, "condition", str, place),
        does=_does(value, place),
        item=item,
        most=count(value, "maxIterations", place, 100, 0, MOST_ROUNDS),
        continue_on_error=member(value, "continueOnError", bool, place, default=False),
        delay_ms=count(value, "delayBetweenIterationsMs", place, 0, 0, MOST_DELAY_MS),
    )


def action_call(value: Any, place: str) -> ActionCall:
    """Read one action.

    Raises:
        Misfit: Something in it does not fit.

    """
    if not isinstance(value, dict):
        raise Misfit(f"{place} must be an object")
    mapping = value.get("outputMapping")
    told = "" if mapping is None else mapping_fault(mapping)
    if told:
        raise Misfit(f"{place}.outputMapping: {told}")
    return ActionCall(needed(value, "name", str, place), member(value, "params", dict, place, {}), mapping)


def ask(value: dict[str, Any], place: str) -> Ask:
    """Read a request to a sub-agent.

    Raises:
        Misfit: Something in it does not fit.

    """
    return Ask(
        needed(value, "name", str, place),
        needed(value, "message", str, place),
        member(value, "templateParameters", dict, place, {}),
        value.get("context"),
        member(value, "terminateAfter", bool, place, default=False),
    )


def _does(value: dict[str, Any], place: str) -> ActionCall | Ask:
    action, sub = (member(value, name, dict, place, None) for name in ("action", "subAgent"))
    if (action is None) == (sub is None):
        raise Misfit(f"{place} must have either action or subAgent")
    return action_call(action, f"{place}.action") if action is not None else ask(sub, f"{place}.subAgent")


def _variable(value: dict[str, Any], name: str, place: str, default: str) -> str:
    found = str(member(value, name, str, place, default)).strip()
    if not (found.isidentifier() and found.isascii()) or found.lower() in _TAKEN:
        raise Misfit(f"{place}.{name} must be a plain name other than {', '.join(_TAKEN)}, is {found[:80]!r}")
    return found
