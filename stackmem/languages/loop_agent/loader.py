"""From the text of a ``.agent.yaml`` to the agent, with every fault and its place."""

from __future__ import annotations

from typing import Any

from stackmem.languages.frame.yaml_tree import Place, Scalar, Table, Tree, YamlError, parse_yaml, plain

from .definition import MOST_FAILURES, MOST_ITERATIONS, Action, Agent, Expiry, Fault, Limits, SubAgent
from .mapping import mapping_fault
from .permissions import Rule, parsed_rule
from .prompt_params import unknown_params
from .shape import Shape

AGENT_KEYS = (
    "name", "description", "prompt", "model", "actions", "sub_agents", "payload", "payload_schema", "allowed_paths",
    "prompt_params", "limits", "loop_result_turns", "expires",
)  # fmt: skip
ACTION_KEYS = (
    "name", "tool", "description", "params", "output_mapping", "parallel", "retries", "min_runs", "max_runs", "expires",
)  # fmt: skip
SUB_AGENT_KEYS = ("name", "file", "inline", "messages")
LIMIT_KEYS = ("iterations", "tokens", "failures", "context_tokens", "usd", "seconds")
EXPIRY_KEYS = ("turns", "mode", "by", "chars", "prompt")
MOST_DEPTH = 8
"""Agents inside of one another."""


def load_agent(text: str) -> tuple[Agent | None, tuple[Fault, ...]]:
    """The agent, and what is wrong; None where the text is no YAML or no mapping."""
    try:
        tree = parse_yaml(text)
    except YamlError as error:
        return None, (Fault(error.place, "syntax", error.message),)
    if not isinstance(tree, Table):
        return None, (Fault(tree.place, "schema", "an agent's definition is a mapping"),)
    faults: list[Fault] = []
    return _agent(tree, faults, 0), tuple(faults)


def _agent(tree: Tree, faults: list[Fault], depth: int) -> Agent:
    shape = Shape(tree, "the agent", AGENT_KEYS, faults)
    actions = tuple(_action(each, faults) for each in shape.items("actions"))
    subs = tuple(_sub_agent(each, faults, depth) for each in shape.items("sub_agents"))
    _doubles(shape, "action", [(each.name, each.places.get("name", shape.place)) for each in actions])
    _doubles(shape, "sub-agent", [(each.name, each.place) for each in subs])
    params = shape.table("prompt_params")
    for told in unknown_params(params):
        shape.fault(shape.at("prompt_params"), "schema", told)
    return Agent(
        name=shape.text("name", "agent", needed=True),
        prompt=shape.text("prompt", needed=True),
        description=shape.text("description"),
        model=shape.text("model"),
        actions=actions,
        sub_agents=subs,
        payload=shape.table("payload"),
        payload_schema=shape.table("payload_schema"),
        allowed=_allowed(shape),
        prompt_params=params,
        limits=_limits(shape, faults),
        loop_result_turns=shape.count("loop_result_turns", 1, 100),
        expires=_expiry(shape, faults),
        places=shape.places(),
    )


def _doubles(shape: Shape, kind: str, named: list[tuple[str, Place]]) -> None:
    seen: set[str] = set()
    for name, place in named:
        if name.lower() in seen:
            shape.fault(place, "schema", f"two {kind}s are called `{name}`; give one another name")
        seen.add(name.lower())


def _action(tree: Tree, faults: list[Fault]) -> Action:
    shape = Shape(tree, "an action", ACTION_KEYS, faults)
    most = shape.count("max_runs", None)
    least = shape.count("min_runs", 0)
    if most is not None and least > most:
        shape.fault(shape.at("min_runs"), "schema", f"`min_runs` ({least}) is above `max_runs` ({most})")
    mapping = shape.tree("output_mapping")
    value: Any = None if mapping is None else plain(mapping)
    told = "" if mapping is None else mapping_fault(value)
    if told:
        shape.fault(shape.at("output_mapping"), "bad-path", told)
    return Action(
        name=shape.text("name", "action", needed=True),
        tool=shape.text("tool", "shell", needed=True),
        description=shape.text("description"),
        params=shape.table("params"),
        output_mapping=None if told else value,
        parallel=shape.flag("parallel", default=False),
        retries=shape.count("retries", 0, 10),
        min_runs=least,
        max_runs=most,
        expires=_expiry(shape, faults),
        places=shape.places(),
    )


def _sub_agent(tree: Tree, faults: list[Fault], depth: int) -> SubAgent:
    shape = Shape(tree, "a sub-agent", SUB_AGENT_KEYS, faults)
    inline = shape.tree("inline")
    file = shape.text("file")
    if (inline is None) == (not file):
        shape.fault(shape.place, "schema", "a sub-agent has either `file` or `inline`")
    agent: Agent | None = None
    if inline is not None and depth >= MOST_DEPTH:
        shape.fault(inline.place, "schema", f"agents are nested deeper than {MOST_DEPTH}")
    elif inline is not None:
        agent = _agent(inline, faults, depth + 1)
    return SubAgent(
        name=shape.text("name", "sub-agent", needed=True),
        place=shape.place,
        file="" if agent else file,
        inline=agent,
        messages=shape.word("messages", ("none", "all", "latest", "bookend"), "none"),
    )


def _allowed(shape: Shape) -> tuple[Rule, ...]:
    found = []
    for tree in shape.items("allowed_paths"):
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            shape.fault(tree.place, "bad-path", "an allowed path is a text")
            continue
        rule = parsed_rule(tree.value)
        if isinstance(rule, str):
            shape.fault(tree.place, "bad-path", rule)
        else:
            found.append(rule)
    return tuple(found)


def _limits(shape: Shape, faults: list[Fault]) -> Limits:
    tree = shape.tree("limits")
    if tree is None:
        return Limits()
    limits = Shape(tree, "`limits`", LIMIT_KEYS, faults)
    return Limits(
        iterations=limits.count("iterations", MOST_ITERATIONS, MOST_ITERATIONS, 1),
        tokens=limits.count("tokens", None),
        failures=limits.count("failures", MOST_FAILURES, 100, 1),
        context_tokens=limits.count("context_tokens", None),
        usd=limits.number("usd"),
        seconds=limits.number("seconds"),
    )


def _expiry(shape: Shape, faults: list[Fault]) -> Expiry | None:
    tree = shape.tree("expires")
    if tree is None:
        return None
    found = Shape(tree, "`expires`", EXPIRY_KEYS, faults)
    return Expiry(
        turns=found.count("turns", 3),
        mode=found.word("mode", ("none", "remove", "compact"), "remove"),
        by=found.word("by", ("first", "summary"), "first"),
        chars=found.count("chars", 500),
        prompt=found.text("prompt"),
    )
