"""Checks an agent before it runs, including the examples in its prompt.

Runs use the same ``check_agent``, so an error here also ends a run before its first effect.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stackmem.core.messages import ToolSpec
from stackmem.core.requests import LoadSource
from stackmem.core.schemas.json_schema import first_fault, schema_error
from stackmem.core.text import mark_cut
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.language import Finding, Reading, in_order
from stackmem.languages.operations import Source

from .conditions.evaluator import syntax_fault
from .paths import MISSING, Path, look_up, parse_path, reaches
from .prompt import SLOTS
from .reader import load_agent, named_files
from .references import ReferenceNames, heads
from .reply_json import read_object
from .response import ActionCall, Actions, Ask, ForEach, Malformed, SubAgents, While, read_response
from .schema_keywords import KEYWORDS, constrains, unknown_keywords
from .tools import BUILT_IN, nearest_name, with_tools
from .tree import Agent, AgentAction, DefinitionFault, SubAgent, declared_properties
from .writes import targets_of

_EXAMPLE = re.compile(r"```json[^\n]*\n(.*?)```", re.DOTALL)
_FENCE = "```json"
_BARE = re.compile(r'\{\s*"(?:nextStep|taskComplete|message|reasoning|payloadChangeRequest)"\s*:')
_MAX_SLOTS = 100
_MAX_KEYWORDS = 20  # findings per schema
_MAX_BARE = 100
_NOWHERE = Place(1, 1)
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_INDEX = re.compile(r"\{\{[^{}]*\}\}|(?<=\[)(?:\*|[A-Za-z_]\w*)(?=\])")
_MEMBERS = frozenset(
    ("nextStep", "taskComplete", "payloadChangeRequest", "responseForm", "actionableCommands", "automaticCommands")
)
"""Members that identify a JSON object in a prompt as a response."""


def lint(path: str, text: str, tools: tuple[ToolSpec, ...] | None = None) -> Reading:
    """Return the findings on a definition by line.

    Findings in other files are reported at the line that names the file. ``tools`` are the user's own tools. None means
    unknown; a missing tool is then only a warning.
    """
    agent, faults = load_agent(text)
    gathered = list(faults)
    if agent is not None:
        gathered += check_agent(agent, text, tools)
        gathered += yield from _check_files(agent, path, tools)
    return in_order(_finding(path, each) for each in gathered)


def _check_files(agent: Agent, path: str, tools: tuple[ToolSpec, ...] | None) -> Reading:
    """Return the errors in the files of direct and indirect sub-agents, which also prevent this agent from running."""
    errors = list[DefinitionFault]()
    paths = {path}
    waiting = [(path, sub, sub.position) for sub in named_files(agent)]
    while waiting:
        source, sub, position = waiting.pop(0)
        loaded: Source = yield LoadSource(sub.file, source)
        if loaded.failed:
            message = f"the file {sub.file} of {sub.name} cannot be read ({loaded.failed})"
            errors.append(DefinitionFault(position, "unknown-sub-agent", message))
        elif loaded.path not in paths:
            paths.add(loaded.path)
            inner, faults = load_agent(loaded.text)
            errors += _broken(sub, position, [*faults, *(check_agent(inner, loaded.text, tools) if inner else ())])
            waiting += [(loaded.path, each, position) for each in (named_files(inner) if inner else ())]
    return errors


def _broken(sub: SubAgent, position: Place, faults: list[DefinitionFault]) -> Iterator[DefinitionFault]:
    wrong = next((fault for fault in faults if not fault.warning), None)
    if wrong is not None:
        message = f"{sub.file}:{wrong.position.line}:{wrong.position.column}: {wrong.message}"
        yield DefinitionFault(position, "broken-sub-agent", message)


def _finding(path: str, fault: DefinitionFault) -> Finding:
    severity: Any = "warning" if fault.warning else "error"
    return Finding(path, fault.position.line, fault.position.column, severity, f"agent/{fault.code}", fault.message)


def check_agent(agent: Agent, text: str, tools: tuple[ToolSpec, ...] | None) -> Iterator[DefinitionFault]:
    """Yield the faults of a definition that could be read, including its inline sub-agents."""
    yield from _check(with_tools(agent, tools or ()), text.splitlines(), tools)


def _check(agent: Agent, lines: list[str], tools: tuple[ToolSpec, ...] | None) -> Iterator[DefinitionFault]:
    tool_names = (*BUILT_IN, *(tool.name for tool in tools or ()))
    for action in agent.actions:
        if action.tool not in tool_names:
            meant = nearest_name(action.tool, tool_names)
            hint = f"; did you mean {meant}?" if meant else "; it must be one that you define"
            message = f"{action.name} needs the tool {action.tool}, which is not built in{hint}"
            yield DefinitionFault(action.places.get("tool", _NOWHERE), "unknown-tool", message, warning=tools is None)
        position = action.places.get("params", _NOWHERE)
        yield from _schema_faults(action.params, position, f"the params of {action.name}")
        position = action.places.get("output_mapping", _NOWHERE)
        yield from _not_allowed(agent, action.output_mapping, position, f"the output mapping of {action.name}")
    yield from _prompt(agent, lines)
    yield from _payload(agent)
    for sub in agent.sub_agents:
        if sub.inline is not None:
            yield from _check(sub.inline, lines, tools)


def _payload(agent: Agent) -> Iterator[DefinitionFault]:
    """Yield the faults of the payload's schemas and of the paths that the agent may change."""
    end, start = agent.places.get("payload_schema", _NOWHERE), agent.places.get("start_schema", _NOWHERE)
    yield from _schema_faults(agent.payload_schema, end, "`payload_schema`")
    yield from (unusable := [*_schema_faults(agent.start_schema, start, "`start_schema`")])
    needless = unusable or not agent.start_schema
    fault = "" if needless else first_fault(agent.payload, {**agent.start_schema, "required": []})
    position = agent.places.get("payload", _NOWHERE)
    if fault:
        message = f"the payload does not fit `start_schema`, so inputs must complete it: {fault}"
        yield DefinitionFault(position, "payload", message, warning=True)
    for rule in agent.allowed:
        value = look_up(agent.payload, rule.steps)
        items = value if isinstance(value, list) else []
        if isinstance(value, dict) or any(isinstance(item, dict) for item in items):
            path = ".".join(rule.steps)
            wide = f"{path}[*]" if items else f"{path}.*"
            message = f"`{path}` allows changes of the whole value only; write `{wide}` to allow changes of its members"
            yield DefinitionFault(agent.places.get("allowed_paths", _NOWHERE), "narrow-path", message, warning=True)


def _schema_faults(schema: dict[str, Any], position: Place, subject: str) -> Iterator[DefinitionFault]:
    """Yield what is wrong with a schema. ``subject`` names it in messages."""
    error = schema_error(schema) if schema else ""
    if error:
        yield DefinitionFault(position, "schema", f"{subject} cannot be used as a JSON Schema: {error}")
        return
    for at, word in itertools.islice(unknown_keywords(schema), _MAX_KEYWORDS):
        name = mark_cut(word, 80)
        if not at and not constrains(schema):
            are = "are" if subject.startswith("the params") else "is"
            example = f"{{type: object, properties: {{{name}: ...}}}}"
            message = f"{subject} {are} not a JSON Schema: `{name}` is not a keyword; write {example}"
            yield DefinitionFault(position, "schema", message)
            return
        meant = nearest_name(word, sorted(KEYWORDS))
        hint = f"; did you mean `{meant}`?" if meant else ", so it has no effect; put parameters into `properties`"
        message = f"`{name}` is not a keyword of JSON Schema{hint} ({subject}{mark_cut(at, 200)})"
        yield DefinitionFault(position, "schema", message, warning=True)


def _not_allowed(agent: Agent, mapping: Any, position: Place, says: str) -> Iterator[DefinitionFault]:
    """Yield a fault for each target of a mapping that ``allowed_paths`` does not permit."""
    for target in _targets(mapping) if agent.allowed else ():
        if not reaches(agent.allowed, target):
            message = f"{says} writes outside of `allowed_paths`; allow it, or map the result to what is allowed"
            yield DefinitionFault(position, "not-allowed", message)


def _targets(mapping: Any) -> Iterator[Path]:
    if isinstance(mapping, dict):
        mapping = {name: _INDEX.sub("0", str(target)) for name, target in mapping.items()}
    elif isinstance(mapping, str):
        mapping = _INDEX.sub("0", mapping)
    return targets_of(mapping, ReferenceNames({}))


def _prompt(agent: Agent, lines: list[str]) -> Iterator[DefinitionFault]:
    """Yield the faults of slots and examples in a prompt, each at its own line if that can be found."""
    position = agent.places.get("prompt", _NOWHERE)
    for slot in list(dict.fromkeys(_SLOT.findall(agent.prompt)))[:_MAX_SLOTS]:
        meant = nearest_name(slot, SLOTS) if slot not in SLOTS else ""
        if meant:
            message = f"the prompt names {{{{{slot}}}}}; did you mean {{{{{meant}}}}}?"
            yield DefinitionFault(
                next(_positions(lines, position, slot), position), "unknown-slot", message, warning=True
            )
    fences = _positions(lines, position, _FENCE)
    for example in _EXAMPLE.findall(agent.prompt):
        here = next(fences, position)
        reply = read_object(example)
        if reply.value is not None and _MEMBERS & reply.value.keys():
            yield from _example(agent, example, here)
        elif reply.value is None and any(f'"{member}"' in example for member in _MEMBERS):
            message = f"an example in the prompt cannot be used: {reply.fault}"
            yield DefinitionFault(here, "bad-example", message, warning=True)
    for example in _bare_examples(agent.prompt):
        here = next(_positions(lines, position, example.splitlines()[0]), position)
        yield from (replace(fault, warning=True) for fault in _example(agent, example, here))


def _bare_examples(prompt: str) -> Iterator[str]:
    """Yield the responses in a prompt that are not inside a code fence."""
    rest, read, end = _EXAMPLE.sub("", prompt), json.JSONDecoder(), 0
    for match in list(_BARE.finditer(rest))[:_MAX_BARE]:
        if match.start() < end:
            continue
        try:
            value, end = read.raw_decode(rest, match.start())
        except (ValueError, RecursionError):
            continue
        if "nextStep" in value:
            yield rest[match.start() : end]


def _positions(lines: list[str], start: Place, words: str) -> Iterator[Place]:
    """Yield the positions in the file where the words occur, starting at a line."""
    for at in range(start.line - 1, len(lines)):
        if words in lines[at]:
            yield Place(at + 1, lines[at].index(words) + 1)


def _example(agent: Agent, text: str, position: Place) -> Iterator[DefinitionFault]:
    """Yield the faults of an example response in the prompt."""
    step = read_response(text).step
    match step:
        case Malformed():
            yield DefinitionFault(position, "bad-example", f"an example in the prompt cannot be used: {step.fault}")
        case Actions():
            for call in step.calls:
                yield from _call(agent, call, position)
        case Ask() | SubAgents():
            for ask in step.asks if isinstance(step, SubAgents) else (step,):
                yield from _call(agent, ask, position)
        case ForEach() | While():
            yield from _call(agent, step.does, position)
            yield from _references(step, position)
            if isinstance(step, While) and (fault := syntax_fault(step.condition)):
                yield DefinitionFault(position, "bad-condition", f"a condition in the prompt: {fault}")
            if isinstance(step, ForEach):
                yield from _collection(agent, step.collection.strip(), position)
        case _:
            return


def _collection(agent: Agent, name: str, position: Place) -> Iterator[DefinitionFault]:
    """Yield the faults of a collection's path. The payload may grow, so an unknown path is only a warning."""
    if name.lower().startswith("static:"):
        return
    path = parse_path(name[len("payload.") :] if name.lower().startswith("payload.") else name)
    if not path:
        yield DefinitionFault(position, "bad-path", f"{name[:80]!r} in the prompt is not a path")
        return
    properties = declared_properties(agent)
    mapped = [target[0] for action in agent.actions for target in _targets(action.output_mapping) if target]
    rules = [rule.steps[0] for rule in agent.allowed]
    names = [*agent.payload, *properties, *map(str, mapped), *rules]
    message = ""
    if names and not {"*", "**", str(path[0])} & set(names):
        meant = nearest_name(str(path[0]), names)
        message = f"the payload has no {str(path[0])[:80]!r}" + (f"; did you mean {meant}?" if meant else "")
    elif not isinstance(look_up(agent.payload, path) or [], list) and look_up(agent.payload, path) is not MISSING:
        message = f"{name[:80]!r} is not a list in the payload"
    if message:
        yield DefinitionFault(position, "unknown-collection", f"an example in the prompt: {message}", warning=True)


def _references(step: ForEach | While, position: Place) -> Iterator[DefinitionFault]:
    """Yield a warning for each reference that begins with an unknown name."""
    names = (step.item, step.index if isinstance(step, ForEach) else "index", "payload", "data")
    does = step.does
    value = does.params if isinstance(does, ActionCall) else [does.message, does.template, does.context]
    for head, braced in dict.fromkeys(heads(value)):
        if head.lower() in map(str.lower, names):
            continue
        meant = nearest_name(head, names)
        if meant or braced:
            hint = f"did you mean {meant}?" if meant else f"known: {', '.join(names)}"
            message = f"an example in the prompt: {head[:80]!r} is not defined in its loop; {hint}"
            yield DefinitionFault(position, "unknown-variable", message, warning=True)


def _call(agent: Agent, call: ActionCall | Ask, position: Place) -> Iterator[DefinitionFault]:
    if isinstance(call, Ask):
        sub = agent.sub_agent(call.name)
        if isinstance(sub, str):
            yield DefinitionFault(position, "unknown-sub-agent", f"an example in the prompt: {sub}")
        return
    action = agent.action(call.name)
    if isinstance(action, str):
        yield DefinitionFault(position, "unknown-action", f"an example in the prompt: {action}")
        return
    yield from _parameters(action, call, position)
    for fault in _not_allowed(agent, call.mapping, position, f"an example in the prompt: the mapping of {action.name}"):
        yield replace(fault, warning=True)


def _parameters(action: AgentAction, call: ActionCall, position: Place) -> Iterator[DefinitionFault]:
    """Yield a warning for each parameter that the action apparently does not take.

    An example may omit required ones.
    """
    properties = action.params.get("properties")
    parameters = properties if isinstance(properties, dict) else {}
    for name in call.params:
        meant = nearest_name(name, parameters) if name not in parameters else ""
        if meant or (parameters and name not in parameters and action.params.get("additionalProperties") is False):
            hint = f"; did you mean {meant}?" if meant else f"; known: {', '.join(parameters)}"
            message = f"an example in the prompt: {action.name} takes no {name[:80]!r}{hint}"
            yield DefinitionFault(position, "unknown-parameter", message, warning=True)
