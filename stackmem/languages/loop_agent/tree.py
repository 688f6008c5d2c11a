"""The content of a ``NAME.agent.yaml`` file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from stackmem.languages.frame.yaml_tree import Place

from .paths import Rule

Mode = Literal["none", "all", "latest", "bookend"]
MAX_ITERATIONS = 5_000
MAX_FAILURES = 10


class DefinitionFault(Struct, frozen=True):
    """A fault of a definition. ``code`` is the linter's name for it."""

    position: Place
    code: str
    message: str
    warning: bool = False


class Expiry(Struct, frozen=True):
    """When and how a result is removed from the prompt or shortened."""

    turns: int  # a result older than this is due
    mode: Literal["none", "remove", "compact"] = "remove"  # ``none`` keeps it
    # how it is compacted: cut to its first ``chars`` characters, or summarized by the model
    by: Literal["first", "summary"] = "first"
    chars: int = 500
    prompt: str = ""  # request for the summary; empty for the built-in one


class AgentLimits(Struct, frozen=True):
    """Limits of one run of the agent."""

    iterations: int = MAX_ITERATIONS
    tokens: int | None = None
    failures: int = MAX_FAILURES
    # estimated tokens of the conversation; it is summarized at 75% of them. None uses the model's window, or 8,000 if
    # that is unknown
    context_tokens: int | None = None
    # for the top agent, these become the run's own limits; for a sub-agent, they apply to each time it is asked, see
    # ``session``
    usd: float | None = None
    seconds: float | None = None


class AgentAction(Struct, frozen=True):
    """A tool under a name chosen by the agent."""

    name: str
    tool: str
    description: str = ""
    params: dict[str, Any] = {}  # a JSON Schema; empty accepts anything
    output_mapping: Any = None  # like a loop's ``outputMapping``; None if it has none
    parallel: bool = False  # whether it may run in parallel with others, if its tool may
    retries: int = 0  # number of repetitions after a failure
    min_runs: int = 0
    max_runs: int | None = None
    expires: Expiry | None = None
    places: dict[str, Place] = field(default_factory=dict)


class SubAgent(Struct, frozen=True):
    """Another agent that this one may ask. Exactly one of ``file`` and ``inline`` is set."""

    name: str
    position: Place
    file: str = ""
    inline: Agent | None = None
    messages: Mode = "none"
    # the parts of the payload it receives, and the parts it may change; empty for all
    reads: tuple[Rule, ...] = ()
    writes: tuple[Rule, ...] = ()


class Agent(Struct, frozen=True):
    """One agent."""

    name: str
    prompt: str
    description: str = ""
    model: str = ""
    actions: tuple[AgentAction, ...] = ()
    sub_agents: tuple[SubAgent, ...] = ()
    payload: dict[str, Any] = {}  # the initial payload
    start_schema: dict[str, Any] = {}  # a JSON Schema of the payload at the start; empty accepts anything
    on_start_misfit: Literal["fail", "warn"] = "fail"
    payload_schema: dict[str, Any] = {}  # a JSON Schema of the payload at the end; empty accepts anything
    # what happens if the final payload does not fit its schema: the model tries again, the agent fails, or the payload
    # is kept and the misfit is recorded
    on_misfit: Literal["retry", "fail", "warn"] = "retry"
    allowed: tuple[Rule, ...] = ()  # paths it may change; empty for all
    prompt_params: dict[str, Any] = {}
    limits: AgentLimits = AgentLimits()
    loop_result_turns: int = 1
    expires: Expiry | None = None  # overrides the settings of actions and of kinds of results
    # request for summaries of the conversation; empty for the built-in one
    summary_prompt: str = ""
    places: dict[str, Place] = field(default_factory=dict)

    def action(self, name: str) -> AgentAction | str:
        """Find an action by the name a model used, or return what is wrong with the name."""
        return _find_named(name, self.actions, "action")

    def sub_agent(self, name: str) -> SubAgent | str:
        """Find a sub-agent by the name a model used, or return what is wrong with the name."""
        return _find_named(name, self.sub_agents, "sub-agent")


def declared_properties(agent: Agent) -> dict[str, Any]:
    """Return the properties that the schemas of the payload declare, by name."""
    properties_by_name: dict[str, Any] = {}
    for schema in (agent.payload_schema, agent.start_schema):
        properties = schema.get("properties")
        properties_by_name |= properties if isinstance(properties, dict) else {}
    return properties_by_name


NamedPart = TypeVar("NamedPart", AgentAction, SubAgent)


def _find_named(name: str, among: Sequence[NamedPart], kind: str) -> NamedPart | str:
    """Find an entry by name ignoring case, or the only one that contains the name; otherwise describe the problem."""
    needle = name.strip().lower()
    exact = [each for each in among if each.name.lower() == needle]
    if exact:
        return exact[0]
    near = [each for each in among if needle and needle in each.name.lower()]
    if len(near) == 1:
        return near[0]
    if near:
        return f"{name[:80]!r} could be {', '.join(each.name for each in near)}; give the whole name"
    names = ", ".join(each.name for each in among) or "none"
    return f"unknown {kind} {name[:80]!r}; known: {names}"
