"""The cost of each of the user's requests, in order, and how it grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import Usage

from .cached_steps import CachedStep
from .memory_use import RepeatedLooks
from .moments import Moment, begins_request


class RequestUse(Struct, frozen=True):
    """One request."""

    steps: int = 0  # replies of the model, without summaries
    peak_tokens: int = 0  # of its longest prompt, by the simulator of the provider's cache
    # looks at the workspace that returned nothing new, compared to this and earlier requests
    repeated_looks: int = 0
    usage: Usage = Usage()  # tokens by the same simulator, including summaries


def request_uses(run: Iterable[Moment], steps: Iterable[CachedStep]) -> list[RequestUse]:
    """Return every request. Empty if the run is not a conversation.

    ``run`` is one session, or several consecutive sessions. ``steps`` are the steps of the same run.
    """
    uses: list[RequestUse] = []
    looks = RepeatedLooks()
    for moment in run:
        if begins_request(moment):
            uses.append(RequestUse())
        before = looks.value
        looks.add(moment)
        if uses and looks.value > before:
            uses[-1] = replace(uses[-1], repeated_looks=uses[-1].repeated_looks + 1)
    for step in steps:
        if step.request:
            use = uses[step.request - 1]
            uses[step.request - 1] = replace(
                use,
                steps=use.steps + (not step.compaction),
                peak_tokens=max(use.peak_tokens, step.usage.prompt),
                usage=use.usage + step.usage,
            )
    return uses


def columns(uses: Sequence[RequestUse]) -> dict[str, list[int]]:
    """Return a list of values for each figure, as a row of a bench stores it."""
    kinds = ("uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    own = ("steps", "peak_tokens", "repeated_looks")
    return {
        **{name: [getattr(use, name) for use in uses] for name in own},
        **{name: [getattr(use.usage, name) for use in uses] for name in kinds},
    }
