"""The language interface of the loop agent."""

from __future__ import annotations

import itertools
import json
import posixpath
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stackmem.core.errors import Halted, UsageError
from stackmem.core.program_facts import PhaseEnded, StepEntered, StepLeft, ToolAnswered
from stackmem.core.requests import InvokeTool
from stackmem.languages.frame.values import digest_of
from stackmem.languages.language import Announcer, Happening, Language, Launch, ProgramInterface, Reading, inputs_schema
from stackmem.languages.operations import Complete, EnterFrame, Group, LeaveFrame, Program, Say

from .interpreter import run_agent
from .lint import check_agent, lint
from .prompt import prompt_params
from .reader import BrokenDefinition, LoadedAgent, every_agent, fault_report, load_agent, load_agents, unknown_tool
from .session import AgentEnded, AgentSession, Finish, RunContext, start_fault
from .tools import with_tools
from .tree import Agent, declared_properties

NO_REQUEST = "Do what your definition says; the user asked for nothing more."


def start(launch: Launch) -> Program:
    """Run the program; see ``language.Language``. Its value is the final payload."""
    loaded: LoadedAgent = yield from _load(launch)
    agent = loaded.agent
    window = launch.options.get("window_tokens")
    tokens = window if isinstance(window, int) else None
    family = RunContext(run_agent, loaded.files, itertools.count(1), tokens, launch.watch)
    session = AgentSession(
        agent, family, {**agent.payload, **launch.inputs}, str(launch.options.get("request") or NO_REQUEST),
        prompt_params(agent.prompt_params), path=agent.name, source=launch.path,
    )  # fmt: skip
    try:
        finish: Finish = yield from run_agent(session)
    except AgentEnded as ended:
        report = f"{agent.name} ended in turn {session.turn}: {ended.kind}. {ended.reason}"
        raise Halted(ended.kind, report, f"{agent.name}/turn {session.turn}") from ended
    if finish.message:
        yield Say(finish.message)
    yield PhaseEnded(agent.name, {"payload": digest_of(finish.payload)})
    return finish.payload


_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def interface(launch: Launch) -> Reading:
    """Return the program's interface: the keys of the payload, typed by its schemas or its initial values."""
    yield from ()  # a reading must be a generator, even if it reads no other source
    agent, faults = load_agent(launch.text)
    if agent is None:
        raise Halted("Invalid Agent", fault_report(launch.path, launch.text, faults[0]), launch.path)
    properties: dict[str, Any] = {}
    for name, value in agent.payload.items():
        kind = _KINDS.get(type(value))
        properties[name] = ({"type": kind} if kind else {}) | {"default": value}
    properties |= declared_properties(agent)
    required = agent.start_schema.get("required")
    names = required if isinstance(required, list) else []
    return ProgramInterface(agent.description, inputs_schema(properties, [x for x in names if x not in agent.payload]))


def _load(launch: Launch) -> Reading:
    """Load the agent and all its sub-agents, and check inputs and tools.

    Raise Halted if a definition is broken, or a tool is missing. Raise UsageError if an input is unknown or does not
    fit.
    """
    try:
        loaded: LoadedAgent = yield from load_agents(launch.path, launch.text)
    except BrokenDefinition as broken:
        raise Halted("Invalid Agent", str(broken), launch.path) from broken
    _check_inputs(loaded.agent, launch)
    missing = unknown_tool(loaded, launch.path, launch.tools)
    if missing:
        raise Halted("Unknown Tool", missing, launch.path)
    if launch.options.get("checked"):
        _check_all(loaded, launch)
    files = {key: (path, with_tools(agent, launch.tools)) for key, (path, agent) in loaded.files.items()}
    return replace(loaded, agent=with_tools(loaded.agent, launch.tools), files=files)


def _check_all(loaded: LoadedAgent, launch: Launch) -> None:
    """Halt on the first fault in any of the files that the linter reports as an error."""
    agents = {launch.path: loaded.agent, **dict(loaded.files.values())}
    for path, agent in agents.items():
        text = loaded.texts[path]
        wrong = next((each for each in check_agent(agent, text, launch.tools) if not each.warning), None)
        if wrong is not None:
            raise Halted("Invalid Agent", fault_report(path, text, wrong), path)


def _check_inputs(agent: Agent, launch: Launch) -> None:
    names = dict.fromkeys([*agent.payload, *declared_properties(agent)])
    name = posixpath.basename(launch.path)
    for key in launch.inputs:
        if key not in names:
            raise UsageError(f"{name} has no input {key[:80]!r}; known: {', '.join(names) or 'none'}")
    fault = start_fault(agent, {**agent.payload, **launch.inputs})
    if fault and agent.on_start_misfit == "fail":
        raise UsageError(f"the payload of {name} does not fit its start schema: {fault}; give it by --input")


def outline(launch: Launch) -> Reading:
    """Return a line for each agent, action and sub-agent."""
    loaded: LoadedAgent = yield from _load(launch)
    return tuple(line for source, agent in every_agent(loaded, launch.path) for line in _outline_lines(agent, source))


def _outline_lines(agent: Agent, source: str) -> Iterator[str]:
    yield f"{agent.name} ({posixpath.basename(source)})" + (f", model {agent.model}" if agent.model else "")
    for action in agent.actions:
        yield f"  action {action.name}: {action.tool}"
    for sub in agent.sub_agents:
        yield f"  sub-agent {sub.name}: {sub.file or 'inline'}, messages {sub.messages}"
    if agent.payload:
        yield f"  payload: {', '.join(agent.payload)}"


def stop_lines(path: str, text: str) -> Iterator[int]:
    """Yield the lines of each agent's name (for its turns) and prompt (for its decisions), actions and sub-agents."""
    waiting = [load_agent(text)[0]]
    while waiting:
        agent = waiting.pop()
        if agent is not None:
            yield from (agent.places[key].line for key in ("name", "prompt") if key in agent.places)
            yield from (each.places["name"].line for each in agent.actions if "name" in each.places)
            yield from (each.position.line for each in agent.sub_agents)
            waiting += [each.inline for each in agent.sub_agents]


def models(launch: Launch) -> Reading:
    """Return the models that the agents name."""
    loaded: LoadedAgent = yield from _load(launch)
    return tuple(agent.model for _, agent in every_agent(loaded, launch.path) if agent.model)


def settings_of(text: str) -> dict[str, str]:
    """Return the run settings that a definition requests: its limits in dollars and seconds."""
    agent, _ = load_agent(text)
    if agent is None:
        return {}
    settings = {"max_usd": agent.limits.usd, "max_seconds": agent.limits.seconds}
    return {name: str(value) for name, value in settings.items() if value is not None}


_BRIEF_CHARS = 200


def announcer() -> Announcer:
    return _announce


def _announce(happening: Happening) -> tuple[str, ...]:
    match happening:
        case StepEntered():
            return (f"{happening.path}: {happening.call}",)
        case StepLeft():
            return (f"{happening.path}: {happening.size:,} iterations",)
        case InvokeTool():
            return (f"  {happening.tool} {_brief(json.dumps(happening.arguments, ensure_ascii=False))}",)
        case Group() if all(isinstance(each, Complete) for each in happening.operations):
            return (f"  {len(happening.operations)} agents side by side",)
        case Group():
            tools = dict.fromkeys(each.tool for each in happening.operations if isinstance(each, InvokeTool))
            return (f"  {len(happening.operations)} actions side by side: {', '.join(tools)}",)
        case EnterFrame():
            return (f"Asking {happening.name}: {_brief(happening.intent)}",)
        case LeaveFrame():
            return (f"Answered: {_brief(happening.result)}",)
        case ToolAnswered() if happening.failed:
            return (f"  failed ({happening.failed}): {_brief(happening.detail)}",)
        case _:
            return ()


def _brief(text: str) -> str:
    line = " ".join(text[: _BRIEF_CHARS * 2].split())
    return line if len(line) <= _BRIEF_CHARS else f"{line[:_BRIEF_CHARS]}…"


LANGUAGE = Language(
    name="loop_agent",
    says="agents that make one JSON decision per turn over a payload",
    start=start,
    outline=outline,
    lint=lint,
    stop_lines=stop_lines,
    announcer=announcer,
    models=models,
    settings=settings_of,
    lints_with=("tools",),
    interface=interface,
    is_checked=True,
)
