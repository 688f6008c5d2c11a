"""Read ATIF 1.0 to 1.8. Subagents in the same file become frames.

Source: Harbor's models of the format, autumn 2026.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned, Ending, Stop
from stackmem.core.messages import Text, ToolCall, ToolSpec, Usage

from .session import (
    Count,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    plain,
    seconds,
    shaped,
    thinking,
    words,
)

Json = dict[str, Any]


class _Agent(Struct, frozen=True):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[Json] | None = None
    extra: Json | None = None


def _strategy(agent: _Agent) -> str:
    strategy = (agent.extra or {}).get("strategy")
    return strategy[:200] if isinstance(strategy, str) else ""


class _AtifCall(Struct, frozen=True):
    tool_call_id: str
    function_name: str
    arguments: Json


class _Ref(Struct, frozen=True):
    trajectory_id: str | None = None
    trajectory_path: str | None = None


class _Result(Struct, frozen=True):
    source_call_id: str | None = None
    content: str | list[Json] | None = None
    subagent_trajectory_ref: list[_Ref] | None = None
    extra: Json | None = None


class _Observation(Struct, frozen=True):
    results: list[_Result] = []


class _Metrics(Struct, frozen=True):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    cost_usd: float | None = None
    extra: Json | None = None


class _Step(Struct, frozen=True):
    source: str
    message: str | list[Json]
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_AtifCall] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Count | None = None
    extra: Json | None = None

    @property
    def ours(self) -> Json:
        """The data that stackmem's own export adds to a step."""
        own_data = (self.extra or {}).get("stackmem")
        return own_data if isinstance(own_data, dict) else {}


class _Cut(Struct, frozen=True):
    """The data that stackmem's own export adds to a summary."""

    up_to_step: Count
    metrics: _Metrics
    stop: Stop = "end"


class _Totals(Struct, frozen=True):
    total_cost_usd: float | None = None
    extra: Json | None = None


class _OurTotals(Struct, frozen=True):
    """The data that stackmem's own export adds to the totals: how the run ended, and the verdict of its checks."""

    outcome: str = ""
    ending: Ending | None = None
    rewards: dict[str, float] | None = None
    checks_error: str = ""


class _AtifTrajectory(Struct, frozen=True):
    agent: _Agent
    steps: list[_Step]
    schema_version: str = ""
    session_id: str | None = None
    trajectory_id: str | None = None
    final_metrics: _Totals | None = None
    subagent_trajectories: list[Json] | None = None


def read_atif(value: object, location: str) -> RecordedSession:
    """Read a trajectory as a session. Raise UsageError if it is not a trajectory of a known version."""
    root = shaped(value, _AtifTrajectory, location)
    if not root.schema_version.startswith("ATIF-v1."):
        raise UsageError(f"{location} has the format {root.schema_version!r}; only ATIF-v1.0 to 1.8 can be read")
    return _AtifReader(location).session(root)


class _AtifReader:
    def __init__(self, location: str) -> None:
        self._source = location
        self._waiting: dict[str, _AtifTrajectory] = {}
        self._left_out: list[str] = []

    def session(self, root: _AtifTrajectory) -> RecordedSession:
        read = self._read(root)
        if self._waiting:
            self._left_out.append(f"{len(self._waiting)} subagents without a result that refers to them")
        read.left_out = self._left_out
        return read

    def _read(self, trajectory: _AtifTrajectory) -> RecordedSession:
        for entry in trajectory.subagent_trajectories or ():
            child = shaped(entry, _AtifTrajectory, self._source)
            self._waiting[child.trajectory_id or ""] = child
        agent = trajectory.agent
        session = RecordedSession(
            origin=f"atif ({agent.name} {agent.version})",
            id=trajectory.session_id or trajectory.trajectory_id or "trajectory",
            name=agent.name,
            model=agent.model_name or "",
            tools=tuple(_tool(tool) for tool in agent.tool_definitions or ()),
            usd=trajectory.final_metrics.total_cost_usd if trajectory.final_metrics else None,
            strategy=_strategy(agent),
            turns=[],
        )
        own_steps: list[Any] = []
        for number, step in enumerate(trajectory.steps, 1):
            location = f"{self._source}, step {number}"
            if {"up_to_step", "metrics"} <= step.ours.keys():
                session.turns.append(_summary(step, own_steps, location))
                continue
            self._step(session, step, location)
            if step.source == "agent" and step.llm_call_count != 0 and not step.is_copied_context:
                own_steps.append(step.ours.get("step"))
        if agent.name == "stackmem" and trajectory.final_metrics is not None:
            ours = shaped(trajectory.final_metrics.extra or {}, _OurTotals, f"{self._source}, final_metrics.extra")
            session.ending = ours.ending or ("interrupted" if ours.outcome == "running" else None)
            if ours.rewards is not None:
                session.checks = ChecksReturned(ours.rewards, ours.checks_error)
        return session

    def _step(self, session: RecordedSession, step: _Step, location: str) -> None:
        at = seconds(step.timestamp, location)
        text = words(step.message, session.lost)
        if step.is_copied_context:
            self._left_out.append(f"{location}: copied context, which is also in another place")
        elif step.source == "agent" and step.llm_call_count != 0:
            session.turns.append(self._recorded_reply(step, text, at, session))
        elif step.source == "system" and not session.turns and not session.system:
            session.system = text
        elif step.source == "user" and not session.turns and not session.task:
            session.task, session.began = text, at
        else:
            calls = [
                f"{call.function_name} {msgspec.json.encode(call.arguments).decode()}" for call in step.tool_calls or ()
            ]
            results = [words(result.content) for result in (step.observation.results if step.observation else ())]
            session.turns.append(RecordedText("\n".join(filter(None, (text, *calls, *results))), at))

    def _recorded_reply(self, step: _Step, text: str, at: float | None, session: RecordedSession) -> RecordedReply:
        calls = tuple(ToolCall(call.tool_call_id, call.function_name, call.arguments) for call in step.tool_calls or ())
        metrics = step.metrics or _Metrics()
        reply = RecordedReply(
            parts=(*thinking(step.reasoning_content), *plain(text), *calls),
            at=at,
            stop="call" if calls else "end",
            usage=_usage(metrics),
            model=step.model_name or session.model,
            usd=metrics.cost_usd,
            answers=[],
        )
        unnamed = [call.id for call in calls]
        for result in step.observation.results if step.observation else ():
            name = result.source_call_id or (unnamed[0] if unnamed else "")
            if name in unnamed:
                unnamed.remove(name)
            if not any(call.id == name for call in calls):
                reply.parts = (*reply.parts, Text(f"[observed] {words(result.content)}"))
                continue
            seen = words(result.content, session.lost)
            reply.answers.append(RecordedResult(name, seen, _failed(result), at, child=self._child(result)))
        return reply

    def _child(self, result: _Result) -> RecordedSession | None:
        """Return the conversation that a result refers to. Each one is used once."""
        for ref in result.subagent_trajectory_ref or ():
            if ref.trajectory_id in self._waiting:
                return self._read(self._waiting.pop(ref.trajectory_id))
            self._left_out.append(f"a subagent outside the file: {ref.trajectory_path or ref.trajectory_id}")
        return None


def _summary(step: _Step, own_steps: list[Any], location: str) -> RecordedSummary:
    """Return a summary of stackmem's own run, whose text is in the step's observation."""
    cut = shaped(step.ours, _Cut, location)
    text = "\n".join(words(result.content) for result in (step.observation.results if step.observation else ()))
    reply = RecordedReply(plain(text), stop=cut.stop, usage=_usage(cut.metrics), usd=cut.metrics.cost_usd, answers=[])
    kept_count = sum(isinstance(number, int) and number > cut.up_to_step for number in own_steps)
    return RecordedSummary(reply, kept_count, seconds(step.timestamp, location))


def _failed(result: _Result) -> bool:
    ours = (result.extra or {}).get("stackmem")
    return isinstance(ours, dict) and ours.get("failed") is True


def _usage(metrics: _Metrics) -> Usage:
    """Convert the usage. Prompt tokens include cache reads; cache writes are in ``extra``, if recorded."""
    extra = metrics.extra or {}
    prompt, read = metrics.prompt_tokens or 0, metrics.cached_tokens or 0
    short = _count(extra.get("cache_write_5m_tokens", extra.get("cache_creation_input_tokens")))
    long = _count(extra.get("cache_write_1h_tokens"))
    rest = prompt - read - short - long
    if rest < 0:  # the writer does not count as the format specifies
        short, long, rest = 0, 0, max(0, prompt - read)
    return Usage(rest, read, short, long, metrics.completion_tokens or 0, extra.get("estimated") is True)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _tool(entry: Json) -> ToolSpec:
    function = entry.get("function", entry)
    spelled = function if isinstance(function, dict) else {}
    schema = msgspec.json.encode(spelled.get("parameters", {})).decode()
    return ToolSpec(str(spelled.get("name", "")), str(spelled.get("description", "")), schema)
