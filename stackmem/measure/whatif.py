"""One recorded run under another strategy: what its prompts would have held and cost, the actions being the same."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from stackmem.core.calls import tool_name
from stackmem.core.effects import Compact
from stackmem.core.events import ContextCompacted, ModelReplied, RunStarted
from stackmem.core.messages import Text, Usage
from stackmem.core.pricing import Price, cost_usd
from stackmem.core.retries import wait_seconds
from stackmem.core.strategy import MemoryStrategy

from .cache import Cache, Request
from .first_loss import Facts, FirstLoss, Sight
from .moments import Moment
from .prefix import Block, Count
from .retold import Retold
from .stand_in import stand_in

PUSHES = frozenset({"push_frame", "delegate", "branch"})
_SUMMARIES_IN_A_ROW = 4
_OF_ALL = frozenset({"read_file", "write_file", "list_files", "run_command", "pop_frame", "return"})


class Terms(Struct, frozen=True):
    """Under what a run is costed.

    Attributes:
        price: None where none is known.
        minimum_tokens: The shortest prefix that the cache keeps.
        latency_seconds: From each request to the next; None for the times of the recording.

    """

    price: Price | None
    minimum_tokens: int
    count: Count
    latency_seconds: float | None = None


class Outcome(Struct, frozen=True):
    """What a run would have come to under a strategy.

    Attributes:
        requests: Replies asked for, and summaries.
        peak_tokens, mean_tokens: Of the prompts of its steps.
        usage: Tokens by class, summaries included; replies are as long as they were.
        usd: None without a price.
        summaries: How many the strategy asked for. Nobody wrote them: a bounded extract stands in, so that all of the
            row is an estimate.
        loss: Which facts were out of sight.
        too_long_from: The first step whose prompt is longer than the model's window; None where all fit.

    """

    requests: int
    peak_tokens: int
    mean_tokens: float
    usage: Usage
    usd: float | None
    summaries: int
    loss: FirstLoss
    too_long_from: int | None


def has_frames(strategy: MemoryStrategy) -> bool:
    return not PUSHES.isdisjoint(map(tool_name, strategy.tools))


def memory_tools(names: Sequence[str]) -> frozenset[str]:
    """Those of the tools that a strategy brings for its own sake: they touch no file and run no command."""
    return frozenset(names) - _OF_ALL


def outcome(run: Sequence[Moment], strategy: MemoryStrategy, start: RunStarted, facts: Facts, terms: Terms) -> Outcome:
    """The run with every prompt as the strategy would have rendered it.

    Args:
        start: The recorded one, with the strategy's name, prompt and tools.
        facts: Of the run, taken flat where the strategy has no frames.

    """
    teller = _Teller(strategy, Retold(start, framed=has_frames(strategy)), facts, terms)
    for moment in run:
        if isinstance(moment.event, ModelReplied):
            teller.reply(moment, moment.event)
        else:
            teller.retold.tell(moment)
    return teller.outcome(start.window_tokens)


class _Teller:
    """Renders, costs and looks, step by step."""

    def __init__(self, strategy: MemoryStrategy, retold: Retold, facts: Facts, terms: Terms) -> None:
        self.retold = retold
        self._strategy = strategy
        self._terms = terms
        self._cache = Cache(terms.minimum_tokens, terms.count)
        self._sight = Sight(facts)
        self._usage: list[Usage] = []
        self._prompts: list[tuple[int, int]] = []

    def reply(self, moment: Moment, event: ModelReplied) -> None:
        self._keep_up(moment)
        state = self.retold.state
        view = self._strategy.render(state)
        used = self._cache.answer(Request(self._at(moment), view)).usage(event.usage.output)
        self._usage.append(used)
        self._prompts.append((moment.after.step, used.prompt))
        self._sight.see(moment.after.step, view, state)
        self.retold.tell(moment, used)

    def _keep_up(self, moment: Moment) -> None:
        """The summaries that the strategy wants before the next prompt."""
        for _ in range(_SUMMARIES_IN_A_ROW):
            wanted = self._strategy.upkeep(self.retold.state)
            if not isinstance(wanted, Compact):
                return
            view = wanted.ask.view
            text = stand_in(view)
            tokens = self._terms.count(Block("assistant", Text(text)))
            used = self._cache.answer(Request(self._at(moment), view)).usage(tokens)
            self._usage.append(used)
            self.retold.compacted(ContextCompacted(wanted.frame, wanted.up_to_step, text, used))

    def _at(self, moment: Moment) -> float:
        """When the next request is sent."""
        if self._terms.latency_seconds is not None:
            return len(self._usage) * self._terms.latency_seconds
        return min(moment.at, moment.at - moment.seconds + wait_seconds(moment.before.failures))

    def outcome(self, window_tokens: int) -> Outcome:
        price, sizes = self._terms.price, [tokens for _, tokens in self._prompts]
        return Outcome(
            requests=len(self._usage),
            peak_tokens=max(sizes, default=0),
            mean_tokens=sum(sizes) / len(sizes) if sizes else 0.0,
            usage=sum(self._usage, Usage()),
            usd=round(sum(cost_usd(one, price) for one in self._usage), 6) if price is not None else None,
            summaries=len(self._usage) - len(sizes),
            loss=self._sight.found,
            too_long_from=next((step for step, tokens in self._prompts if tokens > window_tokens), None),
        )
