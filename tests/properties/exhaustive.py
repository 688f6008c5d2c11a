"""Explores every sequence of a few model facts over a small alphabet, each with every answer of the world.

The world may also fail, or the user interrupt, at any request; a run that stopped this way is resumed once. Two
histories that leave the machine in the same state are merged: the same stack, heap, limits and counts, regardless of
the exact texts on the way. The rules decide the same for both from there on, so only one of them continues.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from msgspec import Struct, json
from msgspec.structs import replace

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import (
    CallRejected,
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    Event,
    FramePopped,
    FramePushed,
    ModelFailed,
    ModelReplied,
    ReplyNudged,
    RunEnded,
    RunResumed,
    SourcesDigested,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.frames import partial_result
from stackmem.core.limits import closing_refusal
from stackmem.core.log import Log
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import Usage, View
from stackmem.core.requests import AskModel, Compact, DigestSources, Effect, ReadClock, RunChecks, UseTool, Verify
from stackmem.core.state import PoppedFrame, Reply, Result, State
from stackmem.core.strategy import MemoryStrategy
from stackmem.memory import STRATEGIES, open_strategy
from tests.build import PRICE, alloc, call, do, failed, named, pop, push, reply, started, stored
from tests.properties import prompt_rules

BUDGETS = Budgets(
    intent_chars=12, return_chars=12, constraint_chars=12, context_chars=12, result_chars=60, root_result_chars=60,
    depth=2, heap_chars=6, heap_chunks=2, description_chars=8, source_chars=8,
)  # fmt: skip
FACTS_IN_A_ROW = 8
STOPPED = ("interrupted", "workspace_error")
HEAVY = Usage(uncached=34_500, output=20)
"""A reply after which a window of 40,000 tokens is full."""


def child(**more: object) -> ModelReplied:
    return push(**{"name": "c", "objective": "Do it.", "context": "None.", "return_spec": "What.", **more})


STACK: dict[str, ModelReplied] = {
    "push": child(),
    "push closed": child(constraint="steps=1"),
    "push verified": child(verify="v", store=[stored("a", "xy")]),
    "push with a typo": child(objective="heap 'ab'"),
    "push over budget": child(context="c" * 13),
}
HEAP: dict[str, ModelReplied] = {
    "alloc": alloc("a", "xyz"),
    "alloc of a source": alloc("abc", "xyz", source="f.py"),
    "rewrite": do("heap_write", name="a", content="xyzxyz"),
    "read": do("heap_read", name="a"),
    "free": do("heap_free", name="a"),
}
ANY: dict[str, ModelReplied | ModelFailed] = {
    "pop": pop("Done."),
    "pop over budget": pop("r" * 61),
    "command": do("run_command", command="true"),
    "command in a full window": replace(do("run_command", command="true"), usage=HEAVY),
    "words": reply("Hm.", stop="end"),
    "two calls": reply(call("list_files"), call("pop_frame", result="ok")),
    "unknown": do("fly"),
    "window": failed("window"),
    "busy": failed("overloaded"),
    "no key": failed("authentication"),
}
PROMPTED: dict[str, dict[str, ModelReplied]] = {
    "stack": {name: given for name, given in STACK.items() if name != "push verified"},
    "isolated": {"delegate": do("delegate", name="c", prompt="Do it.")},
    "fold": {"branch": do("branch", name="c", prompt="Do it."), "return": do("return", result="ok")},
}


def alphabet(strategy: MemoryStrategy) -> dict[str, ModelReplied | ModelFailed]:
    """Return the model's possible actions under a strategy: calls of its tools, and replies common to every model."""
    tools = {tool.__struct_config__.tag for tool in strategy.tools}
    own: dict[str, ModelReplied | ModelFailed] = {}
    if "push_frame" in tools and "heap_alloc" in tools:
        own |= STACK
    if "heap_alloc" in tools:
        own |= HEAP
    return own | PROMPTED.get(strategy.name.partition(":")[0], {}) | ANY


class Found(Struct):
    """The findings of an exploration.

    Attributes:
        states: Distinct states, merged, in which the model was asked or the run was over.
        facts: Facts folded on the way.
        endings: Each ending, with one shortest path to it.
        codes: Codes of refusals and nudges.
    """

    states: int = 0
    facts: int = 0
    endings: dict[str, tuple[str, ...]] = {}
    codes: set[str] = set()


class Place(Struct, frozen=True):
    """A state in which the model is asked, or the run is over and no request is open; ``view`` is the prompt.

    Attributes:
        resumed: How often the run was resumed on the way.
    """

    state: State
    asked: AskModel | None
    way: tuple[str, ...]
    resumed: int = 0

    @property
    def view(self) -> View | None:
        return None if self.asked is None else self.asked.view


class Exploration:
    """Everything that can happen under one strategy within this many model facts; invariants are checked at every fact.

    Args:
        faults: Whether the world fails and the user interrupts.
        others: Whether each state is also rendered by one of the other strategies, in turn.
    """

    def __init__(
        self, spelled: str, most: int, *, limits: Limits | None = None, checked: bool = False, faults: bool = False,
        others: bool = False,
    ) -> None:  # fmt: skip
        self.strategy = open_strategy(spelled)
        self.alphabet = alphabet(self.strategy)
        self.most = most
        self.found = Found()
        self._faults = faults
        self._others = [open_strategy(name) for name in STRATEGIES if name != spelled] if others else []
        self._seen: set[bytes] = set()
        start = started(
            spelled, system="SYSTEM", budgets=BUDGETS, limits=limits or Limits(), price=PRICE, window_tokens=40_000,
            checked=checked,
        )  # fmt: skip
        self._begin = evolve(State(), start)

    def explore(self) -> Found:
        for piece in self.pieces(0):
            self.explore_from(piece)
        return self.found

    def pieces(self, facts: int) -> list[Place]:
        """Return the states after this many model facts; each is a separate starting point for the rest."""
        waiting, pieces = list(self._places(self._begin, ())), []
        while waiting:
            place = waiting.pop()
            if place.asked is not None and place.state.facts >= facts:
                pieces.append(place)
            else:
                waiting += self._next(place)
        return pieces

    def explore_from(self, place: Place) -> None:
        waiting = [place]
        while waiting:
            waiting += self._next(waiting.pop())

    def _next(self, place: Place) -> Iterator[Place]:
        state, asked = place.state, place.asked
        if asked is None:
            yield from self._taken_up(place)
            return
        if state.facts >= self.most:
            return
        if self._faults:
            interrupted = RunEnded("interrupted", partial_result(state))
            yield from self._places(self._after(state, interrupted), (*place.way, "interrupted"), place.resumed)
        for name, given in self.alphabet.items():
            after_fact = self._after(state, named(given, asked))
            for after in self._places(after_fact, (*place.way, name), place.resumed):
                self._prompt_goes_on(place, after)
                yield after

    def _taken_up(self, place: Place) -> Iterator[Place]:
        """Resume a stopped run with whatever limits it needs."""
        state = place.state
        if self._faults and not place.resumed and state.stack and state.facts < self.most:
            resumed = self._after(state, RunResumed(Limits(), "none", "0"))
            yield from self._places(resumed, (*place.way, "resumed"), 1)

    def _places(self, state: State, way: tuple[str, ...], resumed: int = 0) -> Iterator[Place]:
        """Yield the states after each answer of the world, except those reached before."""
        waiting = [state]
        while waiting:
            state, upcoming = self._derived(waiting.pop())
            if isinstance(upcoming, Effect) and not isinstance(upcoming, AskModel):
                waiting += [self._after(state, answer) for answer in answers(upcoming)]
                if self._faults and not isinstance(upcoming, RunChecks):
                    waiting += [self._after(state, RunEnded(end, partial_result(state))) for end in STOPPED]
                continue
            key = merged(state, resumed)
            if key in self._seen:
                continue
            self._seen.add(key)
            self.found.states += 1
            if upcoming is None:
                assert state.end is not None, way
                self.found.endings.setdefault(state.end.ending, way)
            else:
                self._prompt_holds(state, upcoming.view)
            yield Place(state, upcoming, way, resumed)

    def _derived(self, state: State) -> tuple[State, Effect | None]:
        """Fold every derived fact; return the state and the next request."""
        for _ in range(FACTS_IN_A_ROW):
            upcoming = advance(state, self.strategy)
            if upcoming is None or isinstance(upcoming, Effect):
                return state, upcoming
            state = self._after(state, upcoming)
        raise AssertionError("derived facts never end")

    def _after(self, state: State, event: Event) -> State:
        after = evolve(state, event)
        self.found.facts += 1
        if isinstance(event, CallRejected | ReplyNudged):
            self.found.codes.add(event.code)
        holds(state, event, after)
        return after

    def _prompt_holds(self, state: State, view: View) -> None:
        assert state.idle < 3
        assert len(state.failures) < 6
        prompt_rules.well_formed(view)
        prompt_rules.well_marked(view)
        if self.strategy.prompt == "stackheap":
            assert prompt_rules.derived_index(view) == prompt_rules.true_index(state.heap)
        if self._others:
            other = self._others[self.found.states % len(self._others)]
            prompt_rules.well_formed(other.render(state))

    def _prompt_goes_on(self, before: Place, after: Place) -> None:
        """Check that the cache finds the marked prefix if the same frame is asked again."""
        if before.view is None or after.view is None or before.state.running.id != after.state.running.id:
            return
        assert after.view.tools == before.view.tools
        if self.strategy.prefix_stable:
            assert after.view.system == before.view.system
            assert prompt_rules.begins_with_kept(after.view, before.view)
        if after.state.failures:
            assert after.view.digest == before.view.digest


def answers(effect: Effect) -> Iterable[Event]:
    """Return every answer of the world that may make a difference."""
    match effect:
        case UseTool(sources=sources):
            yield ToolReturned("fine", exit_code=0, digests=dict.fromkeys(sources, "1" * 64))
            yield ToolReturned("no", failed=True, digests=dict.fromkeys(sources, "2" * 64))
        case Verify(sources=sources):
            yield VerifyReturned("exit 0", "fine", dict.fromkeys(sources, "1" * 64))
            yield VerifyReturned("timeout", "", dict.fromkeys(sources, "missing"))
        case DigestSources(sources=sources):
            yield from (SourcesDigested(dict.fromkeys(sources, each)) for each in ("1" * 64, "2" * 64, "missing"))
        case ReadClock():
            yield ClockRead(1.0)
            yield ClockRead(100.0)
        case RunChecks():
            yield ChecksReturned({"reward": 1.0})
            yield ChecksReturned({}, error="no verdict")
        case Compact(ask=ask, frame=frame, up_to_step=step):
            yield ContextCompacted(frame, step, "a summary", Usage(10, output=2), prompt_digest=ask.view.digest)
        case _:
            raise AssertionError(f"no answer for {effect}")


def merged(state: State, resumed: int) -> bytes:
    """Return the values that the rules depend on, without the texts."""
    stack = tuple(replace(frame, turns=Log(), opened=frame.opened) for frame in state.stack)
    kinds = tuple("".join(type(turn).__name__[2] for turn in frame.turns) for frame in state.stack)
    plain = replace(state, start=None, stack=stack, popped=Log(), failures=())
    failures = tuple(failure.kind for failure in state.failures)
    ends = [(done.frame.name, done.forced, done.verified) for done in state.popped]
    return hashlib.blake2b(
        json.encode((plain, kinds, failures, ends, resumed), enc_hook=_plain), digest_size=12
    ).digest()


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else list(value)  # type: ignore[call-overload]


def holds(before: State, event: Event, after: State) -> None:
    """Check the promises of docs/machine.md for one fact."""
    heap, budgets = after.heap, BUDGETS
    assert heap.chars == sum(len(chunk.content) for chunk in heap.chunks.values()) <= budgets.heap_chars
    assert len(heap.chunks) <= budgets.heap_chunks
    assert len(after.stack) <= budgets.depth + 1
    assert after.idle <= 3
    assert len(after.failures) <= 6
    assert after.step - before.step == isinstance(event, ModelReplied)
    for one, other in zip(before.stack, after.stack, strict=False):
        assert (one.id, one.registers, one.context, one.opened) == (
            other.id,
            other.registers,
            other.context,
            other.opened,
        )
    match event:
        case CallRejected() | ReplyNudged():
            assert (after.heap, after.popped, len(after.stack)) == (before.heap, before.popped, len(before.stack))
            assert after.pending is None
        case FramePushed():
            assert after.running.id == event.frame == f"frame-{before.pushes + 1}"
            assert len(after.running.turns) == 0
            assert len(after.stack) == len(before.stack) + 1
            assert closing_refusal(before) is None
        case FramePopped():
            _popped(before, event, after)
        case ToolReturned(digests=digests) | VerifyReturned(digests=digests):
            assert digests.items() <= heap.current.items()
        case RunEnded():
            assert after.end == event
        case RunResumed():
            assert after.end is None
            assert (after.heap, after.step, after.pending) == (before.heap, before.step, before.pending)
            assert [frame.turns for frame in after.stack] == [frame.turns for frame in before.stack]
        case _:
            pass
    assert before.end is None or isinstance(event, ChecksReturned | RunResumed)


def _popped(before: State, event: FramePopped, after: State) -> None:
    done: PoppedFrame = after.popped[-1]
    most = BUDGETS.result_chars if done.frame.depth else BUDGETS.root_result_chars
    assert done.frame.id == before.running.id == event.frame
    assert 0 < len(done.result) <= most
    assert len(after.stack) == len(before.stack) - 1
    kept = {name: chunk for name, chunk in before.heap.chunks.items() if name not in event.stored}
    assert kept.items() <= after.heap.chunks.items()
    if after.stack:
        answer = next(turn for turn in reversed(after.running.turns) if isinstance(turn, Result))
        asked = next(turn for turn in reversed(after.running.turns) if isinstance(turn, Reply))
        assert answer.call_id == done.frame.call_id
        assert done.frame.call_id in {getattr(part, "id", None) for part in asked.parts}
