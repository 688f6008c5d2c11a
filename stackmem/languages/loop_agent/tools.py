"""Runs actions (tools under names chosen by the agent), in parallel if allowed, and with retries."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import ToolSpec
from stackmem.core.requests import InvokeTool
from stackmem.core.schemas.json_schema import first_fault
from stackmem.languages.operations import Group, Routine, ToolAnswer

from .references import excess
from .response import ActionCall
from .results import ActionOutcome
from .session import AgentSession, pause
from .tree import Agent, AgentAction

_TEXT = {"type": "string"}


def _takes(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "shell": (
        "Runs a command in the workspace; gives stdout, stderr and exit_code.",
        _takes({"command": _TEXT}, working_directory=_TEXT, env={"type": "object"}, timeout_seconds={"type": "number"}),
    ),
    "read_file": ("Gives the text of a file of the workspace.", _takes({"path": _TEXT})),
    "write_file": (
        "Writes a file of the workspace; parents: true makes its directories.",
        _takes({"path": _TEXT, "content": _TEXT}, parents={"type": "boolean"}),
    ),
    "list_files": ("Gives the paths of the workspace, or of one of its directories.", _takes({}, path=_TEXT)),
    "make_directory": ("Makes a directory in the workspace.", _takes({"path": _TEXT})),
}


def with_tools(agent: Agent, tools: tuple[ToolSpec, ...]) -> Agent:
    """Fill in the tools' descriptions and schemas for actions without their own, including inline agents."""
    own = {tool.name: (tool.description, tool.parameters) for tool in tools}
    return _with(agent, {**BUILT_IN, **own})


def _with(agent: Agent, interfaces: dict[str, tuple[str, dict[str, Any]]]) -> Agent:
    return replace(
        agent,
        actions=tuple(_describe(action, interfaces) for action in agent.actions),
        sub_agents=tuple(
            replace(sub, inline=_with(sub.inline, interfaces)) if sub.inline else sub for sub in agent.sub_agents
        ),
    )


def _describe(action: AgentAction, interfaces: dict[str, tuple[str, dict[str, Any]]]) -> AgentAction:
    description, schema = interfaces.get(action.tool, ("", {}))
    return replace(action, description=action.description or description, params=action.params or schema)


def nearest_name(name: str, candidates: Collection[str]) -> str:
    """Return the known name that was probably meant; empty if none is similar."""
    matches = difflib.get_close_matches(name[:100].lower(), [each.lower() for each in candidates], n=1, cutoff=0.75)
    return next((each for each in candidates if each.lower() == matches[0]), "") if matches else ""


MAX_TOGETHER = 10
_LONGEST_WAIT = 60.0
NOT_RUN = ("UNKNOWN_ACTION", "MAX_RUNS", "BAD_PARAMETERS")
"""Codes of actions for which no tool was called, so that no other event records them."""
_HOPELESS = ("bad_arguments", "unknown_tool")


class ReadyAction(Struct, frozen=True):
    """An action that is ready to run."""

    action: AgentAction
    effect: InvokeTool


def prepare(session: AgentSession, call: ActionCall) -> ReadyAction | ActionOutcome:
    """Check the parameters of an action. Returns the prepared action, or the outcome if it cannot run."""
    action = session.agent.action(call.name)
    if isinstance(action, str):
        return ActionOutcome(call.name[:80], ok=False, code="UNKNOWN_ACTION", note=action)
    if action.max_runs is not None and session.runs.get(action.name, 0) >= action.max_runs:
        return ActionOutcome(
            action.name, ok=False, code="MAX_RUNS", note=f"it may run {action.max_runs} times, and has"
        )
    fault = excess(call.params) or (first_fault(call.params, action.params) if action.params else "")
    if fault:
        return ActionOutcome(action.name, ok=False, code="BAD_PARAMETERS", note=fault)
    arguments = dict(call.params)
    seconds = arguments.pop("timeout_seconds", None) if action.tool == "shell" else None
    timeout = float(seconds) if isinstance(seconds, int | float) else None
    return ReadyAction(action, InvokeTool(action.tool, arguments, timeout))


def run_actions(session: AgentSession, calls: tuple[ActionCall, ...]) -> Routine:
    """Run calls and return their outcomes in order. Adjacent calls run in parallel if all of them may."""
    outcomes: list[ActionOutcome] = []
    at = 0
    while at < len(calls):
        upto = at + 1
        while upto < len(calls) and may_join(session, calls[at]) and may_join(session, calls[upto]):
            upto += 1
        outcomes += yield from run_batch(session, calls[at:upto], MAX_TOGETHER)
        at = upto
    return outcomes


def may_join(session: AgentSession, call: ActionCall) -> bool:
    action = session.agent.action(call.name)
    return not isinstance(action, str) and action.parallel and action.max_runs is None


def run_batch(session: AgentSession, calls: tuple[ActionCall, ...], most: int) -> Routine:
    """Run calls in parallel and return their outcomes. Failed ones are retried as their definitions say."""
    outcomes: dict[int, ActionOutcome] = {}
    waiting: list[tuple[int, ReadyAction]] = []
    for index, call in enumerate(calls):
        prepared = prepare(session, call)
        if isinstance(prepared, ReadyAction) and (position := prepared.action.places.get("name")):
            session.notify_debugger("line", f"action {prepared.action.name}", position.line)
        if isinstance(prepared, ActionOutcome):
            outcomes[index] = prepared
            if prepared.code == "BAD_PARAMETERS":
                session.failures[prepared.name] = session.failures.get(prepared.name, 0) + 1
        else:
            waiting.append((index, prepared))
    attempt = 0
    while waiting:
        answers = yield from _call_tools(tuple(prepared.effect for _, prepared in waiting), most)
        retries: list[tuple[int, ReadyAction]] = []
        for (index, prepared), answer in zip(waiting, answers, strict=True):
            outcomes[index] = outcome = _outcome(prepared.action.name, answer)
            session.ran(prepared.action, ok=outcome.ok)
            allowed = prepared.action.max_runs
            exhausted = allowed is not None and session.runs[prepared.action.name] >= allowed
            if (
                not outcome.ok
                and attempt < prepared.action.retries
                and not exhausted
                and answer.failed not in _HOPELESS
            ):
                retries.append((index, prepared))
        if retries:
            yield from pause(session, min(2.0**attempt, _LONGEST_WAIT))
        waiting, attempt = retries, attempt + 1
    return [outcomes[index] for index in range(len(calls))]


def _call_tools(effects: tuple[InvokeTool, ...], most: int) -> Routine:
    if len(effects) == 1:
        return ((yield effects[0]),)
    return (yield Group(effects, most))


def _outcome(name: str, answer: ToolAnswer) -> ActionOutcome:
    if answer.failed:
        return ActionOutcome(name, ok=False, value=answer.value, code=answer.failed.upper(), note=answer.detail)
    return ActionOutcome(name, ok=True, value=answer.value)


def mapping_of(session: AgentSession, call: ActionCall) -> Any:
    """Return the output mapping of a call, or else that of the action's definition."""
    if call.mapping is not None:
        return call.mapping
    action = session.agent.action(call.name)
    return None if isinstance(action, str) else action.output_mapping
