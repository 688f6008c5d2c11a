"""One watched run of the machine: invariants are checked after every fact and at every prompt."""

from __future__ import annotations

from random import Random

from msgspec import UNSET, json

from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunEnded
from stackmem.core.guidance.reading import MOST
from stackmem.core.machine import advance, evolve, fold
from stackmem.core.messages import Thinking, View
from stackmem.core.requests import AskModel, Effect
from stackmem.core.state import Reply, State
from stackmem.memory import open_strategy
from tests.build import PRICE, named, settled, shown_text, started
from tests.properties import hostile, prompt_rules
from tests.spellings import SHORT

FACTS_IN_A_ROW = 8 + MOST
REWRITING = {spelled.partition(":")[0] for spelled in SHORT}


class WatchedRun:
    """Every fact goes through `record`, every prompt through `asked`.

    Attributes:
        upcoming: The machine's next request to the world; None once the run is over.
        views: The last prompt of each frame.
        first: The first prompt of the run.
    """

    def __init__(self, spelled: str, rng: Random) -> None:
        self.events: list[Event] = []
        self.state = State()
        self.upcoming: Effect | None = None
        self.views: dict[str, View] = {}
        self.first: View | None = None
        self.strategy = open_strategy(spelled)
        start = started(
            spelled, system="SYSTEM", budgets=hostile.BUDGETS, limits=hostile.limits(rng), price=PRICE,
            window_tokens=rng.choice((7_000, 40_000, 200_000)), checked=rng.random() < 0.5,
            read_calls=rng.choice((UNSET, "many")), circles=rng.choice((UNSET, "refused")),
        )  # fmt: skip
        self.record(start)

    def answered(self, rng: Random) -> None:
        """Give one answer to the upcoming request; sometimes try and discard another one first."""
        if isinstance(self.upcoming, AskModel):
            if rng.random() < 0.3:
                self.another_future(hostile.reply(rng))
            self.record(named(self.secret(hostile.fact(rng, self.state.running.depth)), self.upcoming))
        elif self.upcoming is not None:
            self.record(hostile.answer(rng, self.upcoming, self.state.seconds))

    def record(self, event: Event) -> None:
        """Record the fact, and the derived facts until the next request to the world."""
        fact: Event | Effect | None = event
        for _ in range(FACTS_IN_A_ROW):
            if fact is None or isinstance(fact, Effect):
                break
            self.events.append(fact)
            self.state = evolve(self.state, fact)
            self.budgets_hold()
            fact = advance(self.state, self.strategy)
        assert fact is None or isinstance(fact, Effect), "derived facts never end"
        self.upcoming = fact
        if isinstance(fact, AskModel):
            self.asked(fact)
        assert fact is not None or self.state.end is not None

    def another_future(self, reply: ModelReplied) -> None:
        """Check that a reply that is tried and discarded leaves no mark on the run that continues."""
        other = evolve(self.state, named(reply, self.upcoming))
        for _ in range(FACTS_IN_A_ROW):
            upcoming = advance(other, self.strategy)
            if upcoming is None or isinstance(upcoming, Effect):
                break
            other = evolve(other, upcoming)
        if other.stack:
            view = self.strategy.render(other)
            assert view.digest == settled(view).digest
        assert self.strategy.render(self.state).digest == self.upcoming.view.digest

    def secret(self, fact: ModelReplied | ModelFailed) -> ModelReplied | ModelFailed:
        """Return the reply with a unique thought, which identifies its frame in a prompt."""
        if isinstance(fact, ModelFailed):
            return fact
        thought = Thinking({"secret": f"secret-{self.state.step + 1}."})
        return ModelReplied((thought, *fact.parts), fact.stop, fact.usage)

    def asked(self, request: AskModel) -> None:
        view, frame = request.view, self.state.running
        assert view == self.strategy.render(self.state)
        assert view.digest == settled(view).digest
        prompt_rules.well_formed(view)
        prompt_rules.well_marked(view)
        self.first = self.first or view
        assert view.tools == self.first.tools
        before = self.views.get(frame.id)
        if before is not None:
            assert prompt_rules.begins_with_kept(
                view, before, rewritten=self.strategy.name.partition(":")[0] in REWRITING
            )
            now, then = prompt_rules.encoded(view), prompt_rules.encoded(before)
            if self.strategy.prefix_stable:
                assert now[: len(then)] == then
            if self.state.failures:
                assert view.digest == before.digest
        if self.strategy.prefix_stable:
            assert view.system == self.first.system
        self.views[frame.id] = view
        if self.strategy.prompt == "stackheap":
            assert prompt_rules.derived_index(view) == prompt_rules.true_index(self.state.heap)
            shown = shown_text(view)
            for done in self.state.popped:
                for turn in done.frame.turns:
                    assert not isinstance(turn, Reply) or turn.parts[0].raw["secret"] not in shown

    def budgets_hold(self) -> None:
        budgets, heap = hostile.BUDGETS, self.state.heap
        assert heap.chars == sum(len(chunk.content) for chunk in heap.chunks.values()) <= budgets.heap_chars
        assert len(heap.chunks) <= budgets.heap_chunks
        assert all(name == chunk.name and chunk.content for name, chunk in heap.chunks.items())
        assert len(self.state.stack) <= budgets.depth + 1
        assert self.state.stack or isinstance(self.events[-1], RunEnded) or self.state.popped
        for frame in self.state.stack:
            assert len(frame.registers.intent) <= budgets.intent_chars
            assert len(frame.context) <= budgets.context_chars
        for frame in self.state.stack[1:]:
            assert len(frame.registers.return_spec) <= budgets.return_chars
        for done in self.state.popped:
            most = budgets.result_chars if done.frame.depth else budgets.root_result_chars
            assert 0 < len(done.result) <= most
        assert self.state.idle <= 3
        assert len(self.state.failures) <= 6

    def finish(self) -> None:
        """Fold the whole trace again in three ways and check for the same state and decisions."""
        assert fold(self.events) == self.state
        assert fold(json.decode(json.encode(self.events), type=list[Event])) == self.state
        again = State()
        for event in self.events:
            derived = advance(again, self.strategy)
            assert not isinstance(derived, Event) or derived == event
            again = evolve(again, event)
        if isinstance(self.upcoming, AskModel):
            assert self.strategy.render(again).digest == self.upcoming.view.digest
