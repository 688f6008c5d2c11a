"""Everything that can be known of an agent before it runs, the examples in its prompt included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..effects import LoadSource, Source
from ..language import Finding, Reading
from ..yaml_tree import Place
from .conditions import unparsable
from .definition import Agent, Fault
from .family import BUILT_IN, named_files
from .json_text import read_object
from .loader import load_agent
from .naming import found
from .operations import ActionCall, Ask, ForEach, While
from .paths import parsed
from .response import Actions, Malformed, understood

_EXAMPLE = re.compile(r"```json[^\n]*\n(.*?)```", re.DOTALL)


def lint(path: str, text: str) -> Reading:
    """The findings on a definition, in the order of its lines."""
    agent, faults = load_agent(text)
    gathered = list(faults)
    if agent is not None:
        gathered += _checked(agent)
        for sub in named_files(agent):
            source: Source = yield LoadSource(sub.file, path)
            if source.failed:
                told = f"the file {sub.file} of {sub.name} cannot be read ({source.failed})"
                gathered.append(Fault(sub.place, "unknown-sub-agent", told))
    return tuple(sorted((_finding(path, each) for each in gathered), key=lambda each: (each.line, each.column)))


def _finding(path: str, fault: Fault) -> Finding:
    severity: Any = "warning" if fault.warning else "error"
    return Finding(path, fault.place.line, fault.place.column, severity, f"agent/{fault.code}", fault.message)


def _checked(agent: Agent) -> Iterator[Fault]:
    for action in agent.actions:
        if action.tool not in BUILT_IN:
            told = f"{action.name} needs the tool {action.tool}, which is not built in; it must be one of your own"
            yield Fault(agent.places.get("actions", Place(1, 1)), "unknown-tool", told, warning=True)
    place = agent.places.get("prompt", Place(1, 1))
    for example in _EXAMPLE.findall(agent.prompt):
        value = read_object(example).value
        if value is not None and "nextStep" in value:
            yield from _example(agent, example, place)
    for sub in agent.sub_agents:
        if sub.inline is not None:
            yield from _checked(sub.inline)


def _example(agent: Agent, text: str, place: Place) -> Iterator[Fault]:
    """What is wrong with a response that the prompt shows."""
    step = understood(text).step
    match step:
        case Malformed():
            yield Fault(place, "bad-example", f"an example in the prompt cannot be used: {step.fault}")
        case Actions():
            for call in step.calls:
                yield from _named(agent, call, place)
        case Ask():
            yield from _named(agent, step, place)
        case ForEach() | While():
            yield from _named(agent, step.does, place)
            if isinstance(step, While) and (fault := unparsable(step.condition)):
                yield Fault(place, "bad-condition", f"a condition in the prompt: {fault}")
            if isinstance(step, ForEach) and not _is_collection(step.collection):
                yield Fault(place, "bad-path", f"{step.collection[:80]!r} in the prompt is no path")
        case _:
            return


def _is_collection(text: str) -> bool:
    return text.lower().startswith("static:") or bool(parsed(text))


def _named(agent: Agent, call: ActionCall | Ask, place: Place) -> Iterator[Fault]:
    if isinstance(call, ActionCall):
        action = found(call.name, agent.actions, "action")
        if isinstance(action, str):
            yield Fault(place, "unknown-action", f"an example in the prompt: {action}")
    else:
        sub = found(call.name, agent.sub_agents, "sub-agent")
        if isinstance(sub, str):
            yield Fault(place, "unknown-sub-agent", f"an example in the prompt: {sub}")
