"""What follows a provider's failure.

Rule 1: a passing failure is asked again, six attempts in all, waiting 1 s, then twice as long, at most 60 s.
Rule 2: a hopeless one ends the run, which stays resumable.
Rule 3: a prompt that is too long for the model pops its frame: no run dies of a full window.
"""

from __future__ import annotations

from .facts import Event, ModelFailed, RunEnded
from .frames import forced_pop, so_far
from .state import State

ATTEMPTS = 6
LONGEST_WAIT_SECONDS = 60.0
_PASSING = ("rate_limited", "overloaded", "server_error", "timeout", "connection", "incomplete")


def after_failure(state: State) -> Event | None:
    """What the last failure means, or None where the model is asked again."""
    last = state.failures[-1]
    if last.kind == "window":
        return forced_pop(state, "window")
    if last.kind not in _PASSING or len(state.failures) >= ATTEMPTS:
        return RunEnded("model_error", so_far(state))
    return None


def wait_seconds(failures: tuple[ModelFailed, ...]) -> float:
    """What to wait before the next attempt: the doubling wait, or what the provider asks where that is longer."""
    if not failures:
        return 0.0
    asked = failures[-1].retry_after_seconds or 0.0
    return min(LONGEST_WAIT_SECONDS, max(2.0 ** (len(failures) - 1), asked))
