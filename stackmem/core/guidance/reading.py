"""Several read-only calls in one reply, which are answered together (``RunStarted.read_calls``).

Rule 1: All calls of the reply must be read-only. Otherwise it is handled as in a run without this setting.
Rule 2: Each call is checked, performed and recorded like the only call of a reply, in their order.
Rule 3: All results follow each other. Notices about a call, such as the words of a hook, follow the last result.
Rule 4: Together the results may be twice as long as one result.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.facts import RunStarted, Stop
from stackmem.core.messages import ToolCall
from stackmem.core.state import Pending, State
from stackmem.core.tool_schemas import read
from stackmem.core.tools import HeapRead, ListFiles, ReadFile, Refusal, SearchFiles, tool_name

MOST = 16
"""Maximum number of calls in one reply."""
_READS = tuple(tool_name(tool) for tool in (ReadFile, ListFiles, SearchFiles, HeapRead))
_MIN_BYTES = 1_024
"""With less room than this, or than half a result, a call is refused instead of answered with a fragment."""


def allows(start: RunStarted) -> bool:
    """Return whether several read-only calls of one reply are answered together."""
    return start.read_calls is not UNSET


def are_together(start: RunStarted, calls: tuple[ToolCall, ...], stop: Stop) -> bool:
    """Return whether the calls of a complete reply are answered together."""
    if not allows(start) or not 1 < len(calls) <= MOST or stop not in ("call", "end"):
        return False
    return all(call.name in _READS and call.name not in start.registered for call in calls)


def advice(start: RunStarted) -> list[str]:
    """Return the line that tells the model about it, or an empty list."""
    if not allows(start):
        return []
    names = [tool.name for tool in start.tools if tool.name in _READS and tool.name not in start.registered]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return [
        f"calls: {listed} only read; up to {MOST} calls of them in one reply are answered together, and count as one "
        "step. This is the exception to one call per reply. Use it if you know several things to read."
    ]


def several_calls(state: State, count: int) -> Refusal:
    """Return the refusal of a reply with several calls."""
    if not allows(state.begun):
        return Refusal(
            "several_calls",
            f"not executed: one call per reply, and this reply had {count}",
            "make only the first call",
        )
    return Refusal(
        "several_calls",
        f"not executed: only read-only calls are answered together, at most {MOST}, and this reply had {count} calls",
        "make only the first call",
    )


def no_room(state: State, pending: Pending) -> Refusal | None:
    """Return the refusal of a call for which earlier results of the same reply left no room."""
    if not pending.together:
        return None
    most = replace(state, pending=None).shown_bytes
    if state.shown_bytes >= min(_MIN_BYTES, most // 2):
        return None
    return Refusal(
        "too_large",
        f"not read: the results of this reply already have {pending.used:,} bytes, and their maximum is {2 * most:,}",
        "make this call in the next reply",
    )


def remaining(pending: Pending | None, text: str, *, refused: bool = False) -> Pending | None:
    """Return the calls that wait after the first one was answered with ``text``. None if all are answered.

    Args:
        refused: Whether the first call was refused because the frame is closed.
    """
    if pending is None or not pending.together or len(pending.calls) < 2:
        return None
    calls = pending.calls[1:]
    return Pending(
        calls, pending.stop, read(calls[0]), together=True, used=pending.used + len(text.encode(errors="replace")),
        words=pending.words, refused=pending.refused or refused,
    )  # fmt: skip
