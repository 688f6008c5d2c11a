"""``clear_cold:SECONDS``: the whole history; after a pause of SECONDS all results but the last ``keep`` are cleared.

What the provider's cache held is gone by then, so that the prompt is written anew in any case, and clearing costs
nothing more. Without such a pause it is ``full``. The run's clock is read before each request.

Parameters: ``seconds`` (3,600), ``keep`` (5).

Source: the time-based microcompaction of Claude Code (an hour, the 5 newest results kept), as others describe it. There
it looks at the results of its own reading and running tools; here at all.
"""

from __future__ import annotations

from stackmem.core.requests import Effect, ReadClock
from stackmem.core.state import State
from stackmem.memory.shared.linear import Cut, Linear, OneConversation, Rules, one_line, unmoved
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse


def _cut(least: int, keep: int, shown: Linear, seconds: float) -> Cut:
    short = len(shown.past) - keep
    return Cut(0, short) if seconds >= least and short > shown.cut.short else shown.cut


class WithClock(OneConversation, frozen=True):
    """A conversation whose rules look at pauses."""

    def upkeep(self, state: State) -> Effect | None:
        return None if state.clock_fresh else ReadClock()


def clear_cold(parameters: str) -> WithClock:
    chosen = parse("clear_cold", parameters, (Count("seconds", 3_600), Count("keep", 5)))
    pause = Partial(_cut, tuple(chosen.counts.values()))
    return WithClock(chosen.name, Rules(unmoved, shorten=Partial(one_line, ("cleared",)), pause=pause))
