"""Interprets a model's reply.

| reply | result |
|---|---|
| empty | ``Failed`` |
| not one JSON object, or with an invalid member | ``Malformed``: the model is asked again and reads the position |
| ``nextStep.type`` is Chat | ``Chat``, even if complete; without a message its reasoning, else ``Malformed`` |
| ``taskComplete`` is true | ``Success``; any other step is dropped with a warning |
| no step; a form or actionable commands | ``Chat`` with the message, else the form's title or the first label |
| no step; a message | ``Chat`` |
| no step; a payload change or automatic commands | ``Again``: it is carried out and the loop continues |
| no step; only a reasoning | ``Chat`` with the reasoning |
| none of these | ``Malformed`` |
| a step without a type | the type whose member is present |

The functions that read a part of a reply raise ``Misfit`` if a member of it is invalid.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.strict_json import line_and_column, offset_of

from ..frame.bounds import ROUNDS
from . import commands, payload
from .forms import ResponseForm, read_form
from .reply_json import Misfit, count, kind_of, member, read_object, required_member, word
from .writes import mapping_fault

MAX_DELAY_MS = 3_600_000
_RESERVED = ("payload", "results", "errors", "data")


class ActionCall(Struct, frozen=True):
    """An action with its parameters. ``mapping`` is the ``outputMapping`` of a loop."""

    name: str
    params: dict[str, Any] = {}
    mapping: Any = None


class Ask(Struct, frozen=True):
    """A request to a sub-agent."""

    name: str
    message: str
    template: dict[str, Any] = {}
    context: Any = None
    terminate_after: bool = False


class ForEach(Struct, frozen=True):
    """Does one thing for every item of a list."""

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
    """Does one thing for as long as a condition is true."""

    condition: str
    does: ActionCall | Ask
    item: str = "attempt"
    most: int = 100
    continue_on_error: bool = False
    delay_ms: int = 0


def read_for_each(value: dict[str, Any], path: str) -> ForEach:
    """Read a ForEach."""
    item, index = _variable(value, "itemVariable", path, "item"), _variable(value, "indexVariable", path, "index")
    if item.lower() == index.lower():
        raise Misfit(f"{path}.indexVariable must not be the item variable")
    return ForEach(
        collection=required_member(value, "collectionPath", str, path),
        does=_does(value, path),
        item=item,
        index=index,
        most=count(value, "maxIterations", path, 1_000, 0, ROUNDS),
        continue_on_error=member(value, "continueOnError", bool, path, default=False),
        delay_ms=count(value, "delayBetweenIterationsMs", path, 0, 0, MAX_DELAY_MS),
        parallel=word(value, "executionMode", path, ("sequential", "parallel"), "sequential") == "parallel",
        width=count(value, "maxConcurrency", path, 10, 1, 64),
    )


def read_while(value: dict[str, Any], location: str) -> While:
    """Read a While. Its condition is checked when the loop starts."""
    item = _variable(value, "itemVariable", location, "attempt")
    if item.lower() == "index":
        raise Misfit(f"{location}.itemVariable must not be index, which counts the iterations")
    return While(
        condition=required_member(value, "condition", str, location),
        does=_does(value, location),
        item=item,
        most=count(value, "maxIterations", location, 100, 0, ROUNDS),
        continue_on_error=member(value, "continueOnError", bool, location, default=False),
        delay_ms=count(value, "delayBetweenIterationsMs", location, 0, 0, MAX_DELAY_MS),
    )


def read_action_call(value: Any, path: str) -> ActionCall:
    """Read one action."""
    if not isinstance(value, dict):
        raise Misfit(f"{path} must be an object")
    mapping = value.get("outputMapping")
    text = "" if mapping is None else mapping_fault(mapping)
    if text:
        raise Misfit(f"{path}.outputMapping: {text}")
    return ActionCall(required_member(value, "name", str, path), member(value, "params", dict, path, {}), mapping)


def read_ask(value: dict[str, Any], location: str) -> Ask:
    """Read a request to a sub-agent."""
    return Ask(
        required_member(value, "name", str, location),
        required_member(value, "message", str, location),
        member(value, "templateParameters", dict, location, {}),
        value.get("context"),
        member(value, "terminateAfter", bool, location, default=False),
    )


def _does(value: dict[str, Any], location: str) -> ActionCall | Ask:
    action, sub = (member(value, name, dict, location, None) for name in ("action", "subAgent"))
    if (action is None) == (sub is None):
        raise Misfit(f"{location} must have either action or subAgent")
    return (
        read_action_call(action, f"{location}.action") if action is not None else read_ask(sub, f"{location}.subAgent")
    )


def _variable(value: dict[str, Any], name: str, location: str, default: str) -> str:
    variable = str(member(value, name, str, location, default)).strip()
    if not (variable.isidentifier() and variable.isascii()) or variable.lower() in _RESERVED:
        raise Misfit(f"{location}.{name} must be a plain name other than {', '.join(_RESERVED)}, is {variable[:80]!r}")
    return variable


_TYPES = {
    "actions": "actions", "sub-agent": "subAgent", "chat": "", "retry": "", "foreach": "forEach", "while": "while",
}  # fmt: skip
_MEMBERS = (
    "taskComplete", "message", "responseForm", "actionableCommands", "automaticCommands", "payloadChangeRequest",
    "reasoning", "confidence", "nextStep", "scratchpad",
)  # fmt: skip
_STEP_KNOWN = ("type", "actions", "subAgent", "subAgents", "forEach", "while", "messageIndex", "reason")
_LOOP_KNOWN = (
    "action", "subAgent", "itemVariable", "maxIterations", "continueOnError", "delayBetweenIterationsMs",
)  # fmt: skip
_ACTION_KNOWN = ("name", "params", "outputMapping")
_ASK_KNOWN = ("name", "message", "templateParameters", "context", "terminateAfter")
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nextStep": (_STEP_KNOWN, ("actions", "subAgent", "subAgents", "forEach", "while")),
    "forEach": (
        (*_LOOP_KNOWN, "collectionPath", "indexVariable", "executionMode", "maxConcurrency"),
        ("action", "subAgent"),
    ),
    "while": ((*_LOOP_KNOWN, "condition"), ("action", "subAgent")),
    "action": (_ACTION_KNOWN, ()),
    "actions": (_ACTION_KNOWN, ()),
    "subAgent": (_ASK_KNOWN, ()),
    "subAgents": (_ASK_KNOWN, ()),
}
"""Each part of a reply with its members, and the members that are themselves such parts."""
_NOTHING = "it asks for nothing: give a nextStep, or set taskComplete to true"


class Success(Struct, frozen=True):
    message: str


class Chat(Struct, frozen=True):
    message: str
    form: ResponseForm | None = None


class Actions(Struct, frozen=True):
    calls: tuple[ActionCall, ...]


class SubAgents(Struct, frozen=True):
    """Requests to several sub-agents, which run in parallel if allowed."""

    asks: tuple[Ask, ...]


class ExpandResult(Struct, frozen=True):
    """A request to show the result with this number in full."""

    index: int
    reason: str


class Again(Struct, frozen=True):
    """A request for another turn without any action."""


class Malformed(Struct, frozen=True):
    """An invalid reply. The model is asked again."""

    fault: str


class Failed(Struct, frozen=True):
    fault: str


Step = Success | Chat | Actions | Ask | SubAgents | ForEach | While | ExpandResult | Again | Malformed | Failed


class Response(Struct, frozen=True):
    """An interpreted reply."""

    step: Step
    message: str = ""
    change: dict[str, Any] | None = None  # the payload change request, if there is one
    actionable: tuple[commands.Command, ...] = ()
    automatic: tuple[commands.Command, ...] = ()
    scratchpad: Any = None
    warnings: tuple[str, ...] = ()  # what was dropped or repaired
    repairs: tuple[str, ...] = ()  # the warnings about what was removed from the reply before parsing


def read_response(text: str) -> Response:
    """Interpret a reply."""
    if not text.strip():
        return Response(Failed("the reply is empty"))
    reply = read_object(text)
    if reply.value is None:
        return Response(Malformed(reply.fault))
    try:
        return replace(_response(reply.value, list(reply.repairs)), repairs=reply.repairs)
    except Misfit as misfit:
        location = line_and_column(reply.text, offset_of(reply.text, misfit.path))
        return Response(Malformed(f"{misfit} ({location})"), warnings=reply.repairs, repairs=reply.repairs)


def _response(value: dict[str, Any], warnings: list[str]) -> Response:
    strange = list(islice(_unknown_members(value), 10))
    if strange:
        warnings.append(f"not known and passed over: {', '.join(strange)}")
    message = member(value, "message", str, "", "").strip()
    reasoning = member(value, "reasoning", str, "", "").strip()
    if not isinstance(value.get("confidence", 0), int | float | None):
        warnings.append("confidence is not a number")
    change = value.get("payloadChangeRequest")
    text = payload.fault_of(change) if change is not None else ""
    if text:
        raise Misfit(text)
    form = read_form(value["responseForm"]) if value.get("responseForm") is not None else None
    actionable = commands.read_actionable(value.get("actionableCommands"))
    automatic = commands.read_automatic(value.get("automaticCommands"))
    next_step = member(value, "nextStep", dict, "", None)
    complete = member(value, "taskComplete", bool, "", default=False)
    if next_step is not None and _type_of(next_step, complete=complete) == "chat":
        step: Step = _chat(message or (form.says if form else "") or reasoning, form)
    elif complete:
        if next_step is not None:
            warnings.append(
                f"taskComplete is true, so the step {str(next_step.get('type') or '(no type)')[:40]!r} was dropped"
            )
        step = Success(message or reasoning)
    elif next_step is not None:
        step = _step(next_step)
    else:
        step = _without_step(message, reasoning, form, actionable, acts=bool(change or automatic))
    if form is not None and not isinstance(step, Chat):
        warnings.append("the form was dropped: it goes with a Chat, or with no step at all")
    return Response(step, message, change, actionable, automatic, value.get("scratchpad"), tuple(warnings))


def _unknown_members(value: dict[str, Any]) -> Iterator[str]:
    """Yield the places of unknown members of the reply, its step, and the parts of the step."""
    yield from (name[:40] for name in value if name not in _MEMBERS)
    waiting: list[tuple[str, str, Any]] = [("nextStep", "nextStep", value.get("nextStep"))]
    while waiting:
        location, part, item = waiting.pop(0)
        if isinstance(item, list):
            waiting += [(f"{location}[{index}]", part, each) for index, each in enumerate(item)]
        elif isinstance(item, dict):
            members, parts = _PARTS[part]
            yield from (f"{location}.{name[:40]}" for name in item if name not in members)
            waiting += [(f"{location}.{name}", name, item.get(name)) for name in parts]


def _chat(message: str, form: ResponseForm | None) -> Step:
    if not message:
        raise Misfit("a Chat needs a message", "nextStep")
    return Chat(message, form)


def _without_step(
    message: str, reasoning: str, form: ResponseForm | None, actionable: tuple[commands.Command, ...], *, acts: bool
) -> Step:
    if form is not None:
        return Chat(message or form.says, form)
    if message or actionable:
        return Chat(message or actionable[0].label)
    if acts:
        return Again()
    if not reasoning:
        raise Misfit(_NOTHING, "")
    return Chat(reasoning)


def _type_of(step: dict[str, Any], *, complete: bool) -> str:
    """Return the type in lower case. If it is missing, it is derived from the only member present."""
    kind = step.get("type")
    if kind is not None and not isinstance(kind, str):
        if complete:
            return ""
        raise Misfit(f"nextStep.type must be a text, is {kind_of(kind)}")
    if kind is not None and kind.strip():
        word = kind.strip().lower()
        return "sub-agent" if word in ("subagent", "subagents", "sub-agents") else word
    kinds = [name for name, key in _TYPES.items() if key and step.get(key) is not None]
    if step.get("subAgents") is not None and "sub-agent" not in kinds:
        kinds.append("sub-agent")
    if step.get("messageIndex") is not None and not kinds:
        kinds = ["retry"]
    if len(kinds) == 1 or complete:
        return kinds[0] if kinds else ""
    raise Misfit("nextStep.type is missing" + (f" and {' and '.join(kinds)} are all there" if kinds else ""))


def _step(step: dict[str, Any]) -> Step:
    type_ = _type_of(step, complete=False)
    match type_:
        case "actions":
            calls = member(step, "actions", list, "nextStep", [])
            if not calls:
                raise Misfit("Actions not specified for action type", "nextStep.actions")
            return Actions(
                tuple(read_action_call(each, f"nextStep.actions[{index}]") for index, each in enumerate(calls))
            )
        case "sub-agent" if step.get("subAgents") is not None:
            return _sub_agents(step)
        case "sub-agent":
            return read_ask(_detail(step, "subAgent"), "nextStep.subAgent")
        case "foreach":
            return read_for_each(_detail(step, "forEach"), "nextStep.forEach")
        case "while":
            return read_while(_detail(step, "while"), "nextStep.while")
        case "retry":
            return _retry(step)
        case _:
            types = "Actions, Sub-Agent, Chat, Retry, ForEach, While"
            raise Misfit(f"nextStep.type {type_[:80]!r} is not known; known: {types}")


def _sub_agents(step: dict[str, Any]) -> SubAgents:
    sub_agents = member(step, "subAgents", list, "nextStep", [])
    if not sub_agents or step.get("subAgent") is not None:
        raise Misfit("nextStep.subAgents must be a list that is not empty, without a subAgent as well")
    for index, each in enumerate(sub_agents):
        if not isinstance(each, dict):
            raise Misfit(f"nextStep.subAgents[{index}] must be an object")
    return SubAgents(tuple(read_ask(each, f"nextStep.subAgents[{index}]") for index, each in enumerate(sub_agents)))


def _detail(step: dict[str, Any], name: str) -> dict[str, Any]:
    detail = member(step, name, dict, "nextStep", None)
    if detail is None:
        raise Misfit(f"nextStep.{name} is missing")
    return dict(detail)


def _retry(step: dict[str, Any]) -> Step:
    index = step.get("messageIndex")
    if index is None:
        return Again()
    if isinstance(index, bool) or not isinstance(index, int):
        raise Misfit(f"nextStep.messageIndex must be a whole number, is {kind_of(index)}")
    return ExpandResult(index, member(step, "reason", str, "nextStep", ""))
