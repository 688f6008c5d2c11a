"""A run that its model ends before it has done anything.

Small models end a run in their first reply and report work that was never done. If a check decides about the run, the
first such attempt is refused with the reason. The second one counts: some tasks need no tool.
"""

from __future__ import annotations

from msgspec import UNSET

from stackmem.core.state import Result, State

_REASON = "no call has succeeded yet, so nothing was done, and the check of this run would fail"


def premature_end(state: State) -> str:
    """What is wrong with ending the run now; empty if a call has succeeded, or if it was refused before."""
    start, frame = state.begun, state.running
    if start.circles is UNSET or not start.checked or frame.depth or frame.program or state.popped:
        return ""
    results = [turn for turn in frame.turns if isinstance(turn, Result)]
    if any(not turn.failed or _REASON in turn.text for turn in results):
        return ""
    return f"{_REASON}; do the work first: read or list the files, then write or edit them"
