"""Refuses a result from a model that has not done anything yet.

Small models end a run in their first reply and report work that was never done. If checks decide the outcome of the
run, the first such attempt is refused with the reason. The second attempt counts, because some tasks need no tool.
"""

from __future__ import annotations

from msgspec import UNSET

from stackmem.core.state import Result, State

_REASON = "no call has succeeded yet, so nothing was done, and the check of this run would fail"


def premature_end(state: State) -> str:
    """Return why the run must not end now. Empty if a call has succeeded, or if an earlier attempt was refused."""
    start, frame = state.begun, state.running
    if start.circles is UNSET or not start.checked or frame.depth or frame.program or state.popped:
        return ""
    results = [turn for turn in frame.turns if isinstance(turn, Result)]
    if any(not turn.failed or _REASON in turn.text for turn in results):
        return ""
    return f"{_REASON}; do the work first: read or list the files, then write or edit them"
