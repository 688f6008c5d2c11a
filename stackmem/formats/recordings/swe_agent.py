"""Read trajectories of SWE-agent, those of 2024 and those of version 1.

A file does not name its task, and records only total tokens. A file of 2024 does not name a model either. Prompts of
2024 contained only the last five observations in full. The file contains all of them, and so does the session.

Source: SWE-agent, "Trajectories"; files of 2024.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolCall
from stackmem.review.measure.foreign_tools import SWE_AGENT_COMMANDS, shows_failure

from .session import Count, RecordedReply, RecordedResult, RecordedSession, load, plain, shaped, words

Json = dict[str, Any]


class _SweStep(Struct, frozen=True):
    action: str = ""
    observation: str = ""
    response: str = ""
    thought: str = ""


class _Told(Struct, frozen=True):
    role: str
    content: str | list[Json] | None = None
    is_demo: bool = False


class _SweStats(Struct, frozen=True):
    instance_cost: float | None = None
    tokens_sent: Count | None = None
    tokens_received: Count | None = None


class _SweInfo(Struct, frozen=True):
    exit_status: str | None = None
    submission: str | None = None
    model_stats: _SweStats = _SweStats()
    swe_agent_version: str = ""


class _SweTrajectory(Struct, frozen=True):
    trajectory: list[_SweStep]
    history: list[_Told] = []
    info: _SweInfo = _SweInfo()
    environment: str = ""
    replay_config: str | Json | None = None


def read_swe_agent(value: object, location: str) -> RecordedSession:
    """Read the trajectory as a session. A demonstration is added to the system prompt, as it is not part of the run.

    Raise UsageError if it is not a trajectory.
    """
    trajectory = shaped(value, _SweTrajectory, location)
    info, opening = trajectory.info, _opening(trajectory.history)
    session = RecordedSession(
        origin=f"swe-agent (SWE-agent {info.swe_agent_version or 'of 2024'})",
        id="trajectory",
        task=opening.pop("task", ""),
        system="\n\n".join(opening.values()),
        model=_model(trajectory.replay_config, location),
        usd=info.model_stats.instance_cost,
        result=info.submission or None,
        finished=None if info.exit_status is None else info.exit_status.startswith("submitted"),
        turns=[_reply(step, f"call_{number}") for number, step in enumerate(trajectory.trajectory, 1)],
        left_out=[],
    )
    stats = info.model_stats
    if stats.tokens_sent is not None:
        received = f"{stats.tokens_received or 0:,} received"
        session.left_out.append(f"tokens in total only: {stats.tokens_sent:,} sent, {received}")
    if info.exit_status and not session.finished:
        session.left_out.append(f"how it ended: {info.exit_status}")
    return session


def _opening(history: list[_Told]) -> dict[str, str]:
    """Return the task and everything before it in the prompt."""
    parts: dict[str, str] = {}
    for position, message in enumerate(history):
        if message.is_demo:
            parts[f"demonstration {position}"] = f"[{message.role}] {words(message.content)}"
        elif message.role == "assistant":
            break
        else:
            parts["system" if message.role == "system" else "task"] = words(message.content)
    return parts


def _model(config: str | Json | None, location: str) -> str:
    try:
        config = load(config, f"{location}, replay_config") if isinstance(config, str) else config
    except UsageError:
        return ""
    for key in ("agent", "model", "name"):
        config = config.get(key) if isinstance(config, dict) else None
    return config if isinstance(config, str) else ""


def _reply(step: _SweStep, call_id: str) -> RecordedReply:
    """Convert a step: its thought, one call, and the result. Only the text shows whether it failed."""
    first = step.action.split(maxsplit=1)[0] if step.action.strip() else ""
    thought = step.thought or ("" if first else step.response)
    if not first:
        return RecordedReply(plain(thought), stop="end", answers=[])
    call = ToolCall(call_id, first if first in SWE_AGENT_COMMANDS else "bash", {"command": step.action})
    result = RecordedResult(call_id, step.observation, shows_failure(step.observation))
    return RecordedReply((*plain(thought), call), answers=[result])
