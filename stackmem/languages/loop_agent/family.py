"""Reads the files of all agents that one agent can ask, each once, and says what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from stackmem.core.messages import ToolSpec
from stackmem.languages.effects import LoadSource, Source
from stackmem.languages.frame.yaml_tree import line_of
from stackmem.languages.language import Reading

from .definition import Agent, Fault, SubAgent
from .loader import load_agent

BUILT_IN = ("shell", "read_file", "write_file", "list_files", "make_directory")
Files = dict[tuple[str, str], tuple[str, Agent]]


class Broken(Exception):  # noqa: N818 - a finding, told as a halt
    """A definition that cannot be used; the message has its place, its line and a caret."""


class Loaded(Struct, frozen=True):
    """An agent and all that it can ask."""

    agent: Agent
    files: Files


def load_family(path: str, text: str) -> Reading:
    """The agent with all that it can ask.

    Raises:
        Broken: One of them is missing or has a fault.

    """
    agent = _sound(path, text)
    files: Files = {}
    known: dict[str, Agent] = {path: agent}
    waiting = [(path, text, agent)]
    while waiting:
        source, whole, each = waiting.pop()
        for sub in named_files(each):
            if (source, sub.file) in files:
                continue
            found: Source = yield LoadSource(sub.file, source)
            if found.failed:
                told = Fault(sub.place, "unknown-sub-agent", f"the file {sub.file} cannot be read ({found.failed})")
                raise Broken(shown(source, whole, told))
            if found.path not in known:
                known[found.path] = _sound(found.path, found.text)
                waiting.append((found.path, found.text, known[found.path]))
            files[source, sub.file] = (found.path, known[found.path])
    return Loaded(agent, files)


def named_files(agent: Agent) -> Iterator[SubAgent]:
    """The sub-agents that stand in files, those of inline ones too."""
    for sub in agent.sub_agents:
        if sub.inline is not None:
            yield from named_files(sub.inline)
        elif sub.file:
            yield sub


def _sound(path: str, text: str) -> Agent:
    agent, faults = load_agent(text)
    wrong = next((fault for fault in faults if not fault.warning), None)
    if wrong is not None or agent is None:
        raise Broken(shown(path, text, wrong or faults[0]))
    return agent


def shown(path: str, text: str, fault: Fault) -> str:
    """``path:line:column: message``, the line, and a caret under the place."""
    line = line_of(text, fault.place)
    caret = " " * (min(fault.place.column, len(line) + 1) - 1) + "^"
    return f"{path}:{fault.place.line}:{fault.place.column}: {fault.message}\n    {line}\n    {caret}"


def every_agent(loaded: Loaded, path: str) -> Iterator[tuple[str, Agent]]:
    """``(file, agent)`` of all of them, inline ones too."""
    seen: set[str] = set()
    for source, agent in [(path, loaded.agent), *loaded.files.values()]:
        if source not in seen:
            seen.add(source)
            yield from _inner(source, agent)


def _inner(source: str, agent: Agent) -> Iterator[tuple[str, Agent]]:
    yield source, agent
    for sub in agent.sub_agents:
        if sub.inline is not None:
            yield from _inner(source, sub.inline)


def unknown_tool(loaded: Loaded, path: str, tools: tuple[ToolSpec, ...]) -> str:
    """The first action whose tool is not there; empty where all are."""
    known = (*BUILT_IN, *(tool.name for tool in tools))
    for source, agent in every_agent(loaded, path):
        for action in agent.actions:
            if action.tool not in known:
                return f"{source}: the action {action.name!r} needs the tool {action.tool!r}; known: {', '.join(known)}"
    return ""
