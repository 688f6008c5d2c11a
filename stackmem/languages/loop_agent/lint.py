"""Everything that can be known of an agent before it runs, the examples in its prompt included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stackmem.core.json_schema import first_fault
from stackmem.core.requests import LoadSource
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.language import Finding, Reading
from stackmem.languages.operations import Source

from .conditions.evaluator import syntax_fault
from .paths import parse_path
from .prompt import SLOTS
from .reader import load_agent, named_files
from .reply_json import read_object
from .response import ActionCall, Actions, Ask, ForEach, Malformed, While, read_response
from .tools import BUILT_IN, nearest_name
from .tree import Agent, DefinitionFault, SubAgent

_EXAMPLE = re.compile(r"```json[^\n]*\n(.*?)```", re.DOTALL)
_FENCE = "```json"
_MOST_SLOTS = 100
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def lint(path: str, text: str) -> Reading:
    """The findings on a definition, in the order of its lines."""
    agent, faults = load_agent(text)
    gathered = list(faults)
    if agent is not None:
        gathered += _check_agent(agent, text.splitlines())
        for sub in named_files(agent):
            source: Source = yield LoadSource(sub.file, path)
            if source.failed:
                told = f"the file {sub.file} of {sub.name} cannot be read ({source.failed})"
                gathered.append(DefinitionFault(sub.place, "unknown-sub-agent", told))
            else:
                gathered += _broken_sub_agent(sub, source.text)
    return tuple(sorted((_finding(path, each) for each in gathered), key=lambda each: (each.line, each.column)))


def _broken_sub_agent(sub: SubAgent, text: str) -> Iterator[DefinitionFault]:
    """A fault in the file of a sub-agent, without which this agent does not run either."""
    wrong = next((fault for fault in load_agent(text)[1] if not fault.warning), None)
    if wrong is not None:
        told = f"{sub.file}:{wrong.place.line}:{wrong.place.column}: {wrong.message}"
        yield DefinitionFault(sub.place, "broken-sub-agent", told)


def _finding(path: str, fault: DefinitionFault) -> Finding:
    severity: Any = "warning" if fault.warning else "error"
    return Finding(path, fault.place.line, fault.place.column, severity, f"agent/{fault.code}", fault.message)


def _check_agent(agent: Agent, lines: list[str]) -> Iterator[DefinitionFault]:
    for action in agent.actions:
        if action.tool not in BUILT_IN:
            meant = nearest_name(action.tool, BUILT_IN)
            hint = f"; did you mean {meant}?" if meant else "; it must be one of your own"
            told = f"{action.name} needs the tool {action.tool}, which is not built in{hint}"
            yield DefinitionFault(action.places.get("tool", Place(1, 1)), "unknown-tool", told, warning=True)
    yield from _prompt(agent, lines)
    fault = first_fault(agent.payload, {**agent.payload_schema, "required": []}) if agent.payload_schema else ""
    if fault:
        told = f"the payload does not fit `payload_schema`, so that an input has to: {fault}"
        yield DefinitionFault(agent.places.get("payload", Place(1, 1)), "payload", told, warning=True)
    for sub in agent.sub_agents:
        if sub.inline is not None:
            yield from _check_agent(sub.inline, lines)


def _prompt(agent: Agent, lines: list[str]) -> Iterator[DefinitionFault]:
    """What is wrong with the slots and the examples in a prompt, each at its own line where that can be found."""
    place = agent.places.get("prompt", Place(1, 1))
    for slot in list(dict.fromkeys(_SLOT.findall(agent.prompt)))[:_MOST_SLOTS]:
        meant = nearest_name(slot, SLOTS) if slot not in SLOTS else ""
        if meant:
            told = f"the prompt names {{{{{slot}}}}}; did you mean {{{{{meant}}}}}?"
            yield DefinitionFault(next(_where(lines, place, slot), place), "unknown-slot", told, warning=True)
    fences = _where(lines, place, _FENCE)
    for example in _EXAMPLE.findall(agent.prompt):
        here = next(fences, place)
        found = read_object(example)
        if found.value is not None and "nextStep" in found.value:
            yield from _example(agent, example, here)
        elif found.value is None and '"nextStep"' in example:
            told = f"an example in the prompt cannot be used: {found.fault}"
            yield DefinitionFault(here, "bad-example", told, warning=True)


def _where(lines: list[str], place: Place, words: str) -> Iterator[Place]:
    """Where the words stand in the file, from a place on."""
    for at in range(place.line - 1, len(lines)):
        if words in lines[at]:
            yield Place(at + 1, lines[at].index(words) + 1)


def _example(agent: Agent, text: str, place: Place) -> Iterator[DefinitionFault]:
    """What is wrong with a response that the prompt shows."""
    step = read_response(text).step
    match step:
        case Malformed():
            yield DefinitionFault(place, "bad-example", f"an example in the prompt cannot be used: {step.fault}")
        case Actions():
            for call in step.calls:
                yield from _unknown_names(agent, call, place)
        case Ask():
            yield from _unknown_names(agent, step, place)
        case ForEach() | While():
            yield from _unknown_names(agent, step.does, place)
            if isinstance(step, While) and (fault := syntax_fault(step.condition)):
                yield DefinitionFault(place, "bad-condition", f"a condition in the prompt: {fault}")
            if isinstance(step, ForEach) and not _is_collection(step.collection):
                yield DefinitionFault(place, "bad-path", f"{step.collection[:80]!r} in the prompt is no path")
        case _:
            return


def _is_collection(text: str) -> bool:
    return text.lower().startswith("static:") or bool(parse_path(text))


def _unknown_names(agent: Agent, call: ActionCall | Ask, place: Place) -> Iterator[DefinitionFault]:
    if isinstance(call, ActionCall):
        action = agent.action(call.name)
        if isinstance(action, str):
            yield DefinitionFault(place, "unknown-action", f"an example in the prompt: {action}")
    else:
        sub = agent.sub_agent(call.name)
        if isinstance(sub, str):
            yield DefinitionFault(place, "unknown-sub-agent", f"an example in the prompt: {sub}")
