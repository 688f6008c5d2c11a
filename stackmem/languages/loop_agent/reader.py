"""Reads a ``.agent.yaml`` file into an agent with positioned faults, and loads all agents that it can ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.messages import ToolSpec
from stackmem.core.requests import LoadSource
from stackmem.languages.frame.yaml_tree import (
    Items,
    Place,
    Scalar,
    Table,
    Tree,
    YamlError,
    duplicate_keys,
    kind_of,
    line_of,
    parse_yaml,
    plain,
)
from stackmem.languages.language import Reading
from stackmem.languages.operations import Source

from .paths import OPERATIONS, Rule, parse_rule
from .prompt import unknown_params
from .tools import BUILT_IN, nearest_name
from .tree import MAX_FAILURES, MAX_ITERATIONS, Agent, AgentAction, AgentLimits, DefinitionFault, Expiry, SubAgent
from .writes import mapping_fault

AGENT_KEYS = (
    "name", "description", "prompt", "model", "actions", "sub_agents", "payload", "start_schema", "on_start_misfit",
    "payload_schema", "on_misfit", "allowed_paths", "prompt_params", "limits", "loop_result_turns", "expires",
    "summary_prompt",
)  # fmt: skip
ACTION_KEYS = (
    "name", "tool", "description", "params", "output_mapping", "parallel", "retries", "min_runs", "max_runs", "expires",
)  # fmt: skip
SUB_AGENT_KEYS = ("name", "file", "inline", "messages", "read_paths", "write_paths")
LIMIT_KEYS = ("iterations", "tokens", "failures", "context_tokens", "usd", "seconds")
EXPIRY_KEYS = ("turns", "mode", "by", "chars", "prompt")
MAX_DEPTH = 8
"""Maximum nesting depth of inline agents."""
_NOWHERE = Place(1, 1)


def load_agent(text: str) -> tuple[Agent | None, tuple[DefinitionFault, ...]]:
    """Read an agent and its faults. The agent is None if the text is not YAML or not a mapping."""
    try:
        tree = parse_yaml(text)
    except YamlError as error:
        return None, (DefinitionFault(error.position, "syntax", error.message),)
    if not isinstance(tree, Table):
        return None, (DefinitionFault(tree.position, "schema", "an agent's definition is a mapping"),)
    faults: list[DefinitionFault] = []
    return _agent(tree, faults, 0), tuple(faults)


def _agent(tree: Tree, faults: list[DefinitionFault], depth: int) -> Agent:
    shape = MappingReader(tree, "the agent", AGENT_KEYS, faults)
    actions = tuple(_action(each, faults) for each in shape.items("actions"))
    subs = tuple(_sub_agent(each, faults, depth) for each in shape.items("sub_agents"))
    _doubles(shape, "action", [(each.name, each.places.get("name", shape.position)) for each in actions])
    _doubles(shape, "sub-agent", [(each.name, each.position) for each in subs])
    params = shape.table("prompt_params")
    for message in unknown_params(params):
        shape.fault(shape.at("prompt_params"), "schema", message)
    return Agent(
        name=shape.text("name", "agent", needed=True),
        prompt=shape.text("prompt", needed=True),
        description=shape.text("description"),
        model=shape.text("model"),
        actions=actions,
        sub_agents=subs,
        payload=shape.table("payload"),
        start_schema=shape.table("start_schema"),
        on_start_misfit=shape.word("on_start_misfit", ("fail", "warn"), "fail"),
        payload_schema=shape.table("payload_schema"),
        on_misfit=shape.word("on_misfit", ("retry", "fail", "warn"), "retry"),
        allowed=_rules(shape, "allowed_paths"),
        prompt_params=params,
        limits=_limits(shape, faults),
        loop_result_turns=shape.count("loop_result_turns", 1, 100),
        expires=_expiry(shape, faults),
        summary_prompt=shape.text("summary_prompt"),
        places=shape.places(),
    )


def _doubles(shape: MappingReader, kind: str, positions: list[tuple[str, Place]]) -> None:
    seen: set[str] = set()
    for name, position in positions:
        if name.lower() in seen:
            shape.fault(position, "schema", f"two {kind}s are called `{name}`; give one another name")
        seen.add(name.lower())


def _action(tree: Tree, faults: list[DefinitionFault]) -> AgentAction:
    shape = MappingReader(tree, "an action", ACTION_KEYS, faults)
    most = shape.count("max_runs", None)
    least = shape.count("min_runs", 0)
    if most is not None and least > most:
        shape.fault(shape.at("min_runs"), "schema", f"`min_runs` ({least}) is above `max_runs` ({most})")
    mapping = shape.tree("output_mapping")
    value: Any = None if mapping is None else plain(mapping)
    mapping_problem = "" if mapping is None else mapping_fault(value)
    if mapping_problem:
        shape.fault(shape.at("output_mapping"), "bad-path", mapping_problem)
    return AgentAction(
        name=shape.text("name", "action", needed=True),
        tool=shape.text("tool", "shell", needed=True),
        description=shape.text("description"),
        params=shape.table("params"),
        output_mapping=None if mapping_problem else value,
        parallel=shape.flag("parallel", default=False),
        retries=shape.count("retries", 0, 10),
        min_runs=least,
        max_runs=most,
        expires=_expiry(shape, faults),
        places=shape.places(),
    )


def _sub_agent(tree: Tree, faults: list[DefinitionFault], depth: int) -> SubAgent:
    shape = MappingReader(tree, "a sub-agent", SUB_AGENT_KEYS, faults)
    inline = shape.tree("inline")
    file = shape.text("file")
    if (inline is None) == (not file):
        shape.fault(shape.position, "schema", "a sub-agent has either `file` or `inline`")
    agent: Agent | None = None
    if inline is not None and depth >= MAX_DEPTH:
        shape.fault(inline.position, "schema", f"agents are nested deeper than {MAX_DEPTH}")
    elif inline is not None:
        agent = _agent(inline, faults, depth + 1)
    return SubAgent(
        name=shape.text("name", "sub-agent", needed=True),
        position=shape.position,
        file="" if agent else file,
        inline=agent,
        messages=shape.word("messages", ("none", "all", "latest", "bookend"), "none"),
        reads=_rules(shape, "read_paths"),
        writes=_rules(shape, "write_paths"),
    )


def _rules(shape: MappingReader, key: str) -> tuple[Rule, ...]:
    rules = []
    for tree in shape.items(key):
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            shape.fault(tree.position, "bad-path", "an allowed path is a text")
            continue
        rule = parse_rule(tree.value)
        if isinstance(rule, str):
            shape.fault(tree.position, "bad-path", rule)
        elif key == "read_paths" and rule.operations != OPERATIONS:
            shape.fault(tree.position, "bad-path", f"{tree.value!r} has operations, and is only read; leave them out")
        else:
            rules.append(rule)
    return tuple(rules)


def _limits(shape: MappingReader, faults: list[DefinitionFault]) -> AgentLimits:
    tree = shape.tree("limits")
    if tree is None:
        return AgentLimits()
    limits = MappingReader(tree, "`limits`", LIMIT_KEYS, faults)
    return AgentLimits(
        iterations=limits.count("iterations", MAX_ITERATIONS, MAX_ITERATIONS, 1),
        tokens=limits.count("tokens", None),
        failures=limits.count("failures", MAX_FAILURES, 100, 1),
        context_tokens=limits.count("context_tokens", None),
        usd=limits.number("usd"),
        seconds=limits.number("seconds"),
    )


def _expiry(shape: MappingReader, faults: list[DefinitionFault]) -> Expiry | None:
    tree = shape.tree("expires")
    if tree is None:
        return None
    reader = MappingReader(tree, "`expires`", EXPIRY_KEYS, faults)
    return Expiry(
        turns=reader.count("turns", 3),
        mode=reader.word("mode", ("none", "remove", "compact"), "remove"),
        by=reader.word("by", ("first", "summary"), "first"),
        chars=reader.count("chars", 500),
        prompt=reader.text("prompt"),
    )


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("a text", lambda value: isinstance(value, str)),
    "object": ("a mapping", lambda value: isinstance(value, dict)),
    "list": ("a list", lambda value: isinstance(value, tuple)),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "count": ("a whole number from 0", lambda value: type(value) is int and value >= 0),
    "number": ("a number above 0", lambda value: type(value) in (int, float)),
}
"""The kinds of values: their description, and a check for them."""
MOST = 1_000_000_000
_MAX_SUGGESTED = 50
"""Number of faults after which no more similar names are suggested.

The limit keeps files with many unknown keys fast.
"""


class MappingReader:
    """Reads one mapping. All mappings of a file share one list of faults.

    ``says`` is the name of the mapping in messages.
    """

    def __init__(self, tree: Tree, says: str, keys: tuple[str, ...], faults: list[DefinitionFault]) -> None:
        self.position, self.says, self._faults = tree.position, says, faults
        self._table = tree if isinstance(tree, Table) else Table(tree.position, ())
        if not isinstance(tree, Table):
            self.fault(tree.position, "schema", f"{says} is a mapping, not {kind_of(tree)}")
        for key in duplicate_keys(self._table):
            self.fault(key.position, "schema", f"`{key.value}` stands twice in {says}")
        for key, _ in self._table.pairs:
            if key.value not in keys:
                meant = nearest_name(str(key.value), keys) if len(faults) < _MAX_SUGGESTED else ""
                message = f"did you mean `{meant}`?" if meant else f"known: {', '.join(keys)}"
                self.fault(key.position, "schema", f"{says} has no `{str(key.value)[:80]}`; {message}")

    def fault(self, position: Place, code: str, message: str, *, warning: bool = False) -> None:
        self._faults.append(DefinitionFault(position, code, message, warning))

    def at(self, key: str) -> Place:
        tree = self._table.get(key)
        return tree.position if tree is not None else self.position

    def places(self) -> dict[str, Place]:
        return {str(key.value): value.position for key, value in self._table.pairs}

    def tree(self, key: str) -> Tree | None:
        """Return a value; None if the key is absent or null."""
        tree = self._table.get(key)
        return None if isinstance(tree, Scalar) and tree.value is None else tree

    def text(self, key: str, default: str = "", *, needed: bool = False) -> str:
        value = self._read(key, "text", None)
        if value is None and needed and self.tree(key) is None:
            self.fault(self.position, "schema", f"{self.says} needs `{key}`")
        elif value is not None and needed and not value.strip():
            self.fault(self.at(key), "schema", f"`{key}` of {self.says} is a text, not empty")
            return default
        return default if value is None else str(value)

    def word(self, key: str, words: tuple[str, ...], default: str) -> Any:
        value = self.text(key, default).lower()
        if value not in words:
            self.fault(self.at(key), "schema", f"`{key}` of {self.says} is one of {', '.join(words)}")
            return default
        return value

    def table(self, key: str) -> dict[str, Any]:
        return dict(self._read(key, "object", {}))

    def items(self, key: str) -> tuple[Tree, ...]:
        return tuple(self._read(key, "list", ()))

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._read(key, "flag", default))

    def count(self, key: str, default: Any, most: int = 10**12, least: int = 0) -> Any:
        value = self._read(key, "count", None)
        if value is not None and value > most:
            self.fault(self.at(key), "schema", f"`{key}` of {self.says} is {value:,}, at most {most:,}")
            return most
        if value is not None and value < least:
            self.fault(self.at(key), "schema", f"`{key}` of {self.says} is {value:,}, at least {least:,}")
        return default if value is None or value < least else value

    def number(self, key: str) -> float | None:
        value = self._read(key, "number", None)
        if value is None or 0 < value <= MOST:
            return None if value is None else float(value)
        message = f"`{key}` of {self.says} is {_KINDS['number'][0]} and at most {MOST:,}, not {str(value)[:40]}"
        self.fault(self.at(key), "schema", message)
        return None

    def _read(self, key: str, kind: str, default: Any) -> Any:
        """Return the value if it has the given kind. Otherwise add a fault and return the default."""
        tree = self.tree(key)
        if tree is None:
            return default
        value = tree.items if isinstance(tree, Items) else plain(tree)
        words, fits = _KINDS[kind]
        if fits(value):
            return value
        self.fault(tree.position, "schema", f"`{key}` of {self.says} is {words}, not {kind_of(tree)}")
        return default


Files = dict[tuple[str, str], tuple[str, Agent]]


class BrokenDefinition(Exception):  # noqa: N818 - a finding that is reported as a halt
    """A definition that cannot be used. The message contains its position, source line and a caret."""


class LoadedAgent(Struct, frozen=True):
    """An agent and all agents that it can ask. ``texts`` maps file paths to their texts."""

    agent: Agent
    files: Files
    texts: dict[str, str]


def load_agents(path: str, text: str) -> Reading:
    """Load an agent and all agents that it can ask. Raise BrokenDefinition if a definition is missing or broken."""
    agent = _load_sound(path, text)
    files: Files = {}
    agents, texts = {path: agent}, {path: text}
    waiting = [(path, text, agent)]
    while waiting:
        source, source_text, each = waiting.pop()
        for sub in named_files(each):
            if (source, sub.file) in files:
                continue
            file: Source = yield LoadSource(sub.file, source)
            if file.failed:
                fault = DefinitionFault(
                    sub.position, "unknown-sub-agent", f"the file {sub.file} cannot be read ({file.failed})"
                )
                raise BrokenDefinition(fault_report(source, source_text, fault))
            if file.path not in agents:
                agents[file.path], texts[file.path] = _load_sound(file.path, file.text), file.text
                waiting.append((file.path, file.text, agents[file.path]))
            files[source, sub.file] = (file.path, agents[file.path])
    return LoadedAgent(agent, files, texts)


def named_files(agent: Agent) -> Iterator[SubAgent]:
    """Yield the sub-agents that are in files, including those of inline agents."""
    for sub in agent.sub_agents:
        if sub.inline is not None:
            yield from named_files(sub.inline)
        elif sub.file:
            yield sub


def _load_sound(path: str, text: str) -> Agent:
    agent, faults = load_agent(text)
    wrong = next((fault for fault in faults if not fault.warning), None)
    if wrong is not None or agent is None:
        raise BrokenDefinition(fault_report(path, text, wrong or faults[0]))
    return agent


def fault_report(path: str, text: str, fault: DefinitionFault) -> str:
    """Format ``path:line:column: message``, the source line, and a caret under the column."""
    line = line_of(text, fault.position)
    caret = " " * (min(fault.position.column, len(line) + 1) - 1) + "^"
    return f"{path}:{fault.position.line}:{fault.position.column}: {fault.message}\n    {line}\n    {caret}"


def every_agent(loaded: LoadedAgent, path: str) -> Iterator[tuple[str, Agent]]:
    """Yield ``(file, agent)`` for all agents, including inline ones."""
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


def unknown_tool(loaded: LoadedAgent, path: str, tools: tuple[ToolSpec, ...]) -> str:
    """Return a message about the first action whose tool does not exist; empty if all exist."""
    tool_names = (*BUILT_IN, *(tool.name for tool in tools))
    for source, agent in every_agent(loaded, path):
        for action in agent.actions:
            if action.tool not in tool_names:
                position = action.places.get("tool", _NOWHERE)
                meant = nearest_name(action.tool, tool_names)
                message = f"; did you mean {meant}?" if meant else ""
                names = ", ".join(tool_names)
                needs = f"the action {action.name!r} needs the tool {action.tool!r}{message}; known: {names}"
                return f"{source}:{position.line}:{position.column}: {needs}"
    return ""
