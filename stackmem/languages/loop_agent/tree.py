"""What a ``NAME.agent.yaml`` says, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from stackmem.languages.frame.yaml_tree import Place

from .paths import Rule

Mode = Literal["none", "all", "latest", "bookend"]
MOST_ITERATIONS = 5_000
MOST_FAILURES = 10


class DefinitionFault(Struct, frozen=True):
    """What is wrong with a definition; ``code`` is the linter's word."""

    place: Place
    code: str
    message: str
    warning: bool = False


class Expiry(Struct, frozen=True):
    """When a result leaves the prompt, or is shortened in it."""

    turns: int  # it is due when it is older than this
    mode: Literal["none", "remove", "compact"] = "remove"  # ``none`` keeps it
    # how it is compacted: its first ``chars`` characters, or a summary by the model
    by: Literal["first", "summary"] = "first"
    chars: int = 500
    prompt: str = ""  # what the model is asked for; empty is the built-in request


class AgentLimits(Struct, frozen=True):
    """What one run of the agent may use."""

    iterations: int = MOST_ITERATIONS
    tokens: int | None = None
    failures: int = MOST_FAILURES
    # estimated tokens of the conversation at three quarters of which it is summarised; None is the model's own window,
    # and 8,000 where that is not known
    context_tokens: int | None = None
    # usd, seconds: of the agent that is run, they become the run's own; of a sub-agent, those of each time it is asked,
    # see ``session``
    usd: float | None = None
    seconds: float | None = None


class AgentAction(Struct, frozen=True):
    """Something the agent may do: a tool under a name of its own."""

    name: str
    tool: str
    description: str = ""
    params: dict[str, Any] = {}  # a JSON Schema; empty takes anything
    output_mapping: Any = None  # as a loop's ``outputMapping``; None has none
    parallel: bool = False  # it may run beside others, if its tool may
    retries: int = 0  # times it is repeated after a failure
    min_runs: int = 0
    max_runs: int | None = None
    expires: Expiry | None = None
    places: dict[str, Place] = field(default_factory=dict)


class SubAgent(Struct, frozen=True):
    """Another agent that this one may ask; exactly one of ``file`` and ``inline`` is there."""

    name: str
    place: Place
    file: str = ""
    inline: Agent | None = None
    messages: Mode = "none"
    # reads, writes: what of the payload it is given, and what of its changes is taken; none is all
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
    payload: dict[str, Any] = {}  # what its payload begins with
    payload_schema: dict[str, Any] = {}  # a JSON Schema; empty asks nothing
    # what becomes of a last payload that does not fit its schema: it is given back, or ends the agent, or stands with a
    # word to the person
    on_misfit: Literal["retry", "fail", "warn"] = "retry"
    allowed: tuple[Rule, ...] = ()  # paths it may change; none is all
    prompt_params: dict[str, Any] = {}
    limits: AgentLimits = AgentLimits()
    loop_result_turns: int = 1
    expires: Expiry | None = None  # overrides what actions and kinds of results say
    # what the model is asked for where the conversation is summed up; empty is the built-in request
    summary_prompt: str = ""
    places: dict[str, Place] = field(default_factory=dict)

    def action(self, name: str) -> AgentAction | str:
        """The action that a model calls so, or what is wrong with the name."""
        return _find_named(name, self.actions, "action")

    def sub_agent(self, name: str) -> SubAgent | str:
        """The sub-agent that a model calls so, or what is wrong with the name."""
        return _find_named(name, self.sub_agents, "sub-agent")


Named = TypeVar("Named", AgentAction, SubAgent)


def _find_named(name: str, among: Sequence[Named], kind: str) -> Named | str:
    """The one of that name in any case, else the only one that contains it, else what is wrong."""
    wanted = name.strip().lower()
    exact = [each for each in among if each.name.lower() == wanted]
    if exact:
        return exact[0]
    near = [each for each in among if wanted and wanted in each.name.lower()]
    if len(near) == 1:
        return near[0]
    if near:
        return f"{name[:80]!r} could be {', '.join(each.name for each in near)}; give the whole name"
    known = ", ".join(each.name for each in among) or "none"
    return f"there is no {kind} {name[:80]!r}; known: {known}"
