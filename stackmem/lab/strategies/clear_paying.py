"""``clear_paying:KEEP``: all results except the last KEEP are cleared as soon as that is likely to save money.

Clearing shortens every later prompt, but everything after the first cleared result is written to the cache again, and
some results have to be looked up again. Amounts are in tokens, prices relative to an input token. *r* is the price of a
token read from the cache, *w* of one written to it, *o* of an output token.

1. With *n* requests so far, *n* more are expected. *r* includes the pauses so far: after a pause longer than the life
   of a cache entry, a request writes its whole prompt again.
2. Clearing F tokens saves ``r F`` in each of these requests, which is ``r F n`` in total.
3. It writes again the A tokens that follow the first cleared result: ``(w - r) A``. After a pause nothing is lost,
   because the whole prompt is written anyway, and the F tokens are not: it saves ``w F`` in addition.
4. Of the cleared results a share is looked up again. Each time a request of the prompt's T tokens is added, with a call
   at *o* and a result at *w*.

Until clearing pays off, the conversation is the same as that of ``full``. Tokens are estimated: characters / 2.5.

Parameters: ``keep`` (5), ``again`` (100), ``read`` (``run``). ``again`` is the share of 4, in percent. ``read`` is the
price of a token read from the cache, relative to an input token; ``run`` is the recorded price.

Source: our own; ``clear`` and ``clear_cold`` with thresholds that follow from prices, pauses and sizes.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stackmem.core.messages import View
from stackmem.core.requests import Effect, ReadClock
from stackmem.core.state import State
from stackmem.core.tools import Tool
from stackmem.memory.shared.break_even import HOUR_SECONDS, LIFE_SECONDS, Clearing, Rates, clearing_pays, rates
from stackmem.memory.shared.linear import CHARS_PER_TOKEN, Cut, Linear, Rules, conversation, freed, one_line, view
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Choice, Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

_LIFE_SECONDS: dict[str, float] = {"5m": LIFE_SECONDS, "1h": HOUR_SECONDS}
PARAMETERS = (
    Count("keep", 5), Count("again", 100, 0, 100),
    Choice("read", ("run", "0.5", "0.25", "0.1", "0.05", "0.025", "0.01")),
)  # fmt: skip


class ClearPaying(Struct, frozen=True):
    """read: Price of a token read from the cache, relative to an input token; None uses the recorded price."""

    name: str
    keep: int
    reread_share: float
    read: float | None = None
    life: Literal["5m", "1h"] = "5m"
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    prefix_stable: bool = False

    def render(self, state: State) -> View:
        prices = rates(state.begun.price, self.read)
        arguments = self.keep, self.reread_share, prices
        rules = Rules(
            Partial(_cut, arguments),
            shorten=Partial(one_line, ("cleared",)),
            pause=Partial(_cut_after_pause, (*arguments, _LIFE_SECONDS[self.life])),
            life_seconds=_LIFE_SECONDS[self.life],
        )
        return view(state, conversation(state, rules, f"{self.name} {self.life} {prices}", thoughts=True))

    def upkeep(self, state: State) -> Effect | None:
        return None if state.clock_fresh else ReadClock()


def _cut(keep: int, share: float, prices: Rates, linear: Linear) -> Cut:
    return _if_it_pays(keep, share, prices, linear, cold=False)


def _cut_after_pause(keep: int, share: float, prices: Rates, life: float, linear: Linear, seconds: float) -> Cut:
    return _if_it_pays(keep, share, prices, linear, cold=True) if linear.step and seconds > life else linear.cut


def _if_it_pays(keep: int, share: float, prices: Rates, linear: Linear, *, cold: bool) -> Cut:
    border, end = linear.cut.short, len(linear.past) - keep
    freed_chars = [freed(linear, number) for number in range(border, end)]
    first = next((number for number, chars in enumerate(freed_chars, border) if chars), end)
    follows = sum(exchange.chars for exchange in linear.past[first:]) - sum(freed_chars)
    clearing = Clearing(
        results=sum(chars > 0 for chars in freed_chars),
        freed=int(sum(freed_chars) / CHARS_PER_TOKEN),
        follows=int(follows / CHARS_PER_TOKEN),
        prompt=linear.tokens,
    )
    pays = clearing_pays(prices, clearing, len(linear.past), linear.pauses, share, cold=cold)
    return Cut(0, end) if pays else linear.cut


def clear_paying(parameters: str) -> ClearPaying:
    parsed = parse("clear_paying", parameters, PARAMETERS)
    read = parsed.words["read"]
    keep, percent = parsed.counts["keep"], parsed.counts["again"]
    return ClearPaying(parsed.name, keep, percent / 100, None if read == "run" else float(read))
