"""Read trajectories of mini-swe-agent in the formats 1 and 1.1.

Source: mini-swe-agent 2, "Output files".
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError

from .chat import ChatMessage, add_message
from .session import RecordedReply, RecordedSession, shaped

Json = dict[str, Any]


class _Stats(Struct, frozen=True):
    instance_cost: float | None = None


class _Info(Struct, frozen=True):
    model_stats: _Stats = _Stats()
    config: Json | None = None
    mini_version: str = ""
    exit_status: str | None = None
    submission: str | None = None


class _MiniTrajectory(Struct, frozen=True):
    messages: list[ChatMessage]
    trajectory_format: str = ""
    info: _Info = _Info()
    instance_id: str = ""


def read_mini(value: object, location: str) -> RecordedSession:
    """Read a trajectory as a session. Raise UsageError if it is not a trajectory of a known version."""
    trajectory = shaped(value, _MiniTrajectory, location)
    formats = ("mini-swe-agent-1", "mini-swe-agent-1.1")
    if trajectory.trajectory_format not in formats:
        raise UsageError(
            f"{location} has the format {trajectory.trajectory_format!r}; only {' and '.join(formats)} can be read"
        )
    info = trajectory.info
    session = RecordedSession(
        origin=f"mini (mini-swe-agent {info.mini_version or 'of unknown version'})",
        id=trajectory.instance_id or "trajectory",
        name=trajectory.instance_id or "mini-swe-agent",
        model=_setting(info.config, "model", "model_name"),
        workspace=_setting(info.config, "environment", "cwd"),
        usd=info.model_stats.instance_cost,
        result=info.submission or None,
        finished=None if info.exit_status is None else info.exit_status == "Submitted",
        turns=[],
        left_out=[],
    )
    fenced = trajectory.trajectory_format == "mini-swe-agent-1"
    for number, message in enumerate(trajectory.messages, 1):
        add_message(session, message, f"{location}, message {number}", fenced=fenced)
    last = next((turn for turn in reversed(session.turns) if isinstance(turn, RecordedReply)), None)
    if session.finished and last is not None:  # it records the call that ends the work as one that did not run
        for answer in last.answers:
            answer.failed, answer.exit_code = False, None
    if info.exit_status and not session.finished:
        session.left_out.append(f"how it ended: {info.exit_status}")
    return session


def _setting(config: Json | None, part: str, key: str) -> str:
    inner = (config or {}).get(part)
    value = inner.get(key) if isinstance(inner, dict) else ""
    return value if isinstance(value, str) else ""
