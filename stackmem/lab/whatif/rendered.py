"""Render a recorded run under another strategy: contents and cost of its prompts, with unchanged actions.

Rule 1: the actions stay. No model is called, and replies do not change. Rule 2: if the strategy has frames, the frames
of the recording are used. Rule 3: otherwise all frames become one conversation. A push is answered immediately, because
a chat answers each call
        before the next reply. The frame's result answers its pop, or follows as a notice if it was not popped by a
        call.
Rule 4: summaries of the recorded strategy are left out, because they are not actions of the model. Model calls of a
        program are not part of a conversation.

Missing summaries are replaced by lines of the conversation, as many as fit. The replacement keeps what a faithful
summary must keep, literals. It does not predict what a model would have written, so results that use it are marked as
estimates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import UNSET, Struct, json
from msgspec.structs import replace

from stackmem.core import frames
from stackmem.core.facts import (
    ClockRead,
    ContextCompacted,
    Event,
    FramePopped,
    FramePushed,
    ModelReplied,
    RunForked,
    RunStarted,
    ToolReturned,
)
from stackmem.core.machine import evolve
from stackmem.core.messages import Part, Text, ToolCall, ToolResult, Usage, View
from stackmem.core.pricing import Price, cost_usd
from stackmem.core.requests import Compact
from stackmem.core.retries import wait_seconds
from stackmem.core.state import Notice, Result, State, Turn
from stackmem.core.strategy import MemoryStrategy, has_frames
from stackmem.core.text import mark_cut
from stackmem.core.tools import tools_that
from stackmem.memory import open_strategy
from stackmem.review.measure.cache import Cache, CacheRequest
from stackmem.review.measure.cached_steps import asked_view, is_literal
from stackmem.review.measure.first_loss import FactSight, FirstLoss, UsedFacts, literals
from stackmem.review.measure.moments import Moment
from stackmem.review.measure.prefix import Count, Life, PromptBlock
from stackmem.review.measure.server_cache import ServerCache
from stackmem.review.measure.speed import Speed, evaluated_tokens

from .lookups import Lookups

_SUMMARIES_IN_A_ROW = 4
_OF_ALL = tools_that(lambda behavior: behavior.reads_files or behavior.changes_files or behavior.frame == "ends")


class Terms(Struct, frozen=True):
    """The conditions for costing a run."""

    price: Price | None  # None if unknown
    minimum_tokens: int  # the shortest prefix that the cache keeps
    count: Count
    latency_seconds: float | None = None  # time between requests; None uses the times of the recording
    # How long every cache entry lives, whatever the strategy marks, because another agent set the marks.
    life: Life | None = None
    # Tokens at the beginning of the first prompt that an earlier session had cached, whatever the strategy.
    warm_tokens: int = 0
    # The server caches what it evaluated automatically, without marks, as local servers do.
    server_cache: bool = False
    speed: Speed | None = None  # of a free server; the bill is then in seconds


class WhatIfOutcome(Struct, frozen=True):
    """The cost of a run under a strategy."""

    requests: int  # replies and summaries
    # peak_tokens, mean_tokens: of the prompts of its steps
    peak_tokens: int
    mean_tokens: float
    usage: Usage  # tokens by class, including summaries; replies keep their recorded length
    usd: float | None  # None without a price
    evaluated_tokens: int  # prompt tokens that were not cached
    seconds: float | None  # at the server's speed; None if unknown or not requested
    summaries: int  # the number of summaries that the strategy requested
    lookups: int  # the number of results that were looked up again because they had left the prompt
    estimated: bool  # whether summaries were replaced by a bounded extract
    loss: FirstLoss  # the facts that left the prompt
    too_long_from: int | None  # the first step whose prompt exceeds the model's window; None if all fit


def memory_tools(names: Sequence[str]) -> frozenset[str]:
    """Return the tools that exist only for memory: they do not touch files or run commands."""
    return frozenset(names) - _OF_ALL


def by_program(moment: Moment) -> bool:
    """Return whether a program requested this reply with its own prompt, which strategies do not render."""
    return bool(moment.before.stack) and moment.before.running.program == "steps"


def as_recorded(run: Sequence[Moment], facts: UsedFacts, terms: Terms) -> WhatIfOutcome:
    """Evaluate the run under its own strategies, with the recorded summaries."""
    costs = _Costs(facts, terms)
    strategies: dict[str, MemoryStrategy] = {}
    for moment in run:
        event, before = moment.event, moment.before
        if isinstance(event, ModelReplied) and by_program(moment):
            costs.complete(moment)
        elif isinstance(event, ModelReplied | ContextCompacted):
            spelled = before.begun.strategy
            strategy = strategies.get(spelled) or strategies.setdefault(spelled, open_strategy(spelled))
            view = asked_view(strategy, before, event)
            step = isinstance(event, ModelReplied)
            if step:
                costs.see(moment, view, before)
            costs.ask(moment, view, event.usage.output, step=step)
    return costs.outcome(run[-1].after.begun.window_tokens, estimated=False)


def outcome(
    run: Sequence[Moment], strategy: MemoryStrategy, start: RunStarted, facts: UsedFacts, terms: Terms,
    lookups: Lookups | None = None, share: float = 0.0,
) -> WhatIfOutcome:  # fmt: skip
    """Evaluate the run with every prompt rendered by another strategy.

    ``share`` of the facts that a step uses and its prompt lacks are looked up again before the step. Once a frame was
    pushed, the run contains its own lookups.
    """
    costs, other = _Costs(facts, terms), OtherStrategy(start, framed=has_frames(strategy))
    for moment in run:
        used = Usage()
        if isinstance(moment.event, ModelReplied) and by_program(moment):
            used = costs.complete(moment)
        elif isinstance(moment.event, ModelReplied):
            view = _next_prompt(moment, strategy, other, costs)
            looks = lookups is not None and share > 0 and not moment.before.pushes
            for call, result in lookups.due(moment, share, costs.visible(other.state)) if lookups and looks else ():
                used = costs.look_up(moment, view, call)
                other.look_up(call, result, used, costs.terms.count)
                view = _next_prompt(moment, strategy, other, costs)
            used = costs.ask(moment, view, moment.event.usage.output, step=True)
        other.take(moment, used)
    return costs.outcome(start.window_tokens, estimated=True)


def _next_prompt(moment: Moment, strategy: MemoryStrategy, other: OtherStrategy, costs: _Costs) -> View:
    _keep_up(moment, strategy, other, costs)
    view = strategy.render(other.state)
    costs.see(moment, view, other.state)
    return view


def _keep_up(moment: Moment, strategy: MemoryStrategy, other: OtherStrategy, costs: _Costs) -> None:
    """Read the clock and add the summaries that the strategy requests before the next prompt."""
    other.read_clock(costs.elapsed(moment))
    for _ in range(_SUMMARIES_IN_A_ROW):
        effect = strategy.upkeep(other.state)
        if not isinstance(effect, Compact):
            return
        text = extract_summary(effect.ask.view)
        tokens = costs.terms.count(PromptBlock("assistant", Text(text)))
        used = costs.ask(moment, effect.ask.view, tokens, step=False)
        other.compacted(ContextCompacted(effect.frame, effect.up_to_step, text, used))


class _Costs:
    """Accumulates the cost of requests in order."""

    def __init__(self, facts: UsedFacts, terms: Terms) -> None:
        self.terms = terms
        self._caches: dict[str, Cache | ServerCache] = {}  # by the model that answers
        self._sight = FactSight(facts)
        self._usage: list[Usage] = []
        self._prompts: list[tuple[int, int]] = []
        self._lookups = 0
        self._began: float | None = None

    def see(self, moment: Moment, view: View, state: State) -> None:
        """Check which facts the prompt of a step contains."""
        self._sight.see(moment.after.step, view, state)

    def visible(self, state: State) -> Callable[[str], bool]:
        """Return a function that says whether the last prompt of the running frame contained a fact."""
        frame = state.running.id
        return lambda fact: self._sight.visible(fact, frame)

    def look_up(self, moment: Moment, view: View, call: ToolCall) -> Usage:
        """Add the request that repeats a call, and return its usage."""
        self._lookups += 1
        return self.ask(moment, view, self.terms.count(PromptBlock("assistant", call)), step=False)

    def elapsed(self, moment: Moment) -> float:
        """Return the seconds from the first request to the next one."""
        now = self._at(moment)
        self._began = now if self._began is None else self._began
        return max(0.0, now - self._began)

    def _cache_of(self, event: Event) -> Cache | ServerCache:
        """Return the cache of the model that gave a reply. Models do not share entries."""
        answerer = getattr(event, "answerer", UNSET)
        model = "" if answerer is UNSET else answerer.model
        if model not in self._caches:
            count = self.terms.count
            own = ServerCache(count) if self.terms.server_cache else Cache(self.terms.minimum_tokens, count)
            self._caches[model] = own
        return self._caches[model]

    def ask(self, moment: Moment, view: View, output_tokens: int, *, step: bool) -> Usage:
        """Add a request and return its usage. ``step`` distinguishes a reply from a summary."""
        if self.terms.life is not None:
            marks = tuple(replace(mark, ttl=self.terms.life) for mark in view.breakpoints)
            view = replace(view, breakpoints=marks)
        used = self._cache_of(moment.event).answer(self._request(moment, view)).usage(output_tokens)
        if not self._usage:
            used = _warmed(used, self.terms.warm_tokens)
        self._usage.append(used)
        if step:
            self._prompts.append((moment.after.step, used.prompt))
        return used

    def complete(self, moment: Moment) -> Usage:
        """Add a program's own completion, which is the same under every strategy, and return its usage."""
        event, view = moment.event, moment.view
        if view is None or not isinstance(event, ModelReplied):
            return Usage()
        used = self._cache_of(event).answer(self._request(moment, view)).usage(event.usage.output)
        self._usage.append(used)
        self._prompts.append((moment.after.step, used.prompt))
        return used

    def _request(self, moment: Moment, view: View) -> CacheRequest:
        return CacheRequest(self._at(moment), view, literal=is_literal(moment.event))

    def _at(self, moment: Moment) -> float:
        """Return the time at which the next request is sent."""
        if self.terms.latency_seconds is not None:
            return len(self._usage) * self.terms.latency_seconds
        return min(moment.at, moment.at - moment.seconds + wait_seconds(moment.before.failures))

    def outcome(self, window_tokens: int, *, estimated: bool) -> WhatIfOutcome:
        price, sizes = self.terms.price, [tokens for _, tokens in self._prompts]
        summaries = len(self._usage) - len(sizes) - self._lookups
        speed, used = self.terms.speed, sum(self._usage, Usage())
        return WhatIfOutcome(
            requests=len(self._usage),
            peak_tokens=max(sizes, default=0),
            mean_tokens=sum(sizes) / len(sizes) if sizes else 0.0,
            usage=used,
            usd=round(sum(cost_usd(request_usage, price) for request_usage in self._usage), 6)
            if price is not None
            else None,
            evaluated_tokens=evaluated_tokens(used),
            seconds=round(speed.seconds(used), 3) if speed is not None else None,
            summaries=summaries,
            lookups=self._lookups,
            estimated=estimated and summaries > 0,
            loss=self._sight.result,
            too_long_from=next((step for step, tokens in self._prompts if tokens > window_tokens), None),
        )


def _warmed(used: Usage, tokens: int) -> Usage:
    """Return the usage of a first request that reads this many of the tokens that it would have written."""
    hour = min(tokens, used.cache_write_1h)
    minutes = min(tokens - hour, used.cache_write_5m)
    return replace(
        used, cache_read=used.cache_read + hour + minutes, cache_write_5m=used.cache_write_5m - minutes,
        cache_write_1h=used.cache_write_1h - hour,
    )  # fmt: skip


MAX_CHARS = 4_000
"""The limit if the request does not state a length."""

_LINE_CHARS = 200
_CHAR_LIMIT = re.compile(r"at most ([\d,_]{1,9}) characters")


def extract_summary(view: View) -> str:
    """Return the newest lines that contain a literal missing from all newer lines, in their order.

    ``view`` is the request for the summary. Its last message asks for the summary and is not quoted.
    """
    request = view.messages[-1].parts[-1] if view.messages and view.messages[-1].parts else Text("")
    match = _CHAR_LIMIT.search(request.text) if isinstance(request, Text) else None
    room = int(match[1].replace(",", "").replace("_", "")) if match else MAX_CHARS
    newest_lines: list[str] = []
    covered: set[str] = set()
    for line in _lines_backwards(view):
        new = literals(line) - covered
        if not new:
            continue
        if len(line) + 1 > room:
            break
        newest_lines.append(line)
        covered |= new
        room -= len(line) + 1
    return "\n".join(reversed(newest_lines))


def _lines_backwards(view: View) -> Iterator[str]:
    last = True
    for message in reversed(view.messages):
        for part in reversed(message.parts[:-1] if last else message.parts):
            for line in reversed(_text(part).splitlines()):
                yield mark_cut(line.strip(), _LINE_CHARS)
        last = False


def _text(part: Part) -> str:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return text
        case ToolCall():
            return f"{part.name} {json.encode(part.arguments).decode()}"
        case _:
            return ""


_NOTHING = Usage()
_NOT_DONE = "not executed: the frame was ended first"


class OtherStrategy:
    """The state of the run under the other strategy, moment by moment."""

    def __init__(self, start: RunStarted, *, framed: bool) -> None:
        """Store the recorded ``start``, already changed to the other strategy's name, prompt and tools."""
        self._start = start
        self._framed = framed
        self._repeats = 0
        self.state = State()

    def take(self, moment: Moment, usage: Usage = _NOTHING) -> None:
        """Apply one moment. ``usage`` is the usage of a reply under the other strategy."""
        match moment.event:
            case RunStarted():
                self.state = evolve(State(), self._start)
            case RunForked() as event:
                start = replace(self._start, task=event.start.task, limits=event.start.limits)
                self._go_on(moment, replace(event, start=start))
            case ModelReplied() as event if self._framed or moment.before.running.program != "steps":
                self.state = evolve(self.state, replace(event, usage=usage))
            case ContextCompacted() | ModelReplied():
                pass
            case event:
                self._go_on(moment, event)

    def read_clock(self, seconds: float) -> None:
        """Apply the time of the next request."""
        if self.state.stack:
            self.state = evolve(self.state, ClockRead(seconds))

    def look_up(self, call: ToolCall, result: ToolReturned, usage: Usage, count: Count) -> None:
        """Apply a call that is repeated before the next step, with the same result."""
        self._repeats += 1
        call = replace(call, id=f"again_{self._repeats}")
        output = count(PromptBlock("assistant", call))
        self.state = evolve(self.state, ModelReplied((call,), "call", replace(usage, output=output)))
        state = self.state
        turn = Result(call.id, result.text, failed=result.failed, heap=state.heap, step=state.step)
        self.state = frames.tell(replace(state, pending=None), turn)

    def compacted(self, event: ContextCompacted) -> None:
        """Apply a summary that the other strategy requested."""
        self.state = evolve(self.state, event)

    def _go_on(self, moment: Moment, event: Event) -> None:
        if self._framed:
            self.state = evolve(self.state, event)
            return
        for turn in _turns(moment):
            self.state = frames.tell(self.state, turn)
        after, pending = moment.after, self.state.pending if moment.after.pending else None
        self.state = replace(self.state, heap=after.heap, notes=after.notes, directory=after.directory, pending=pending)


def _turns(moment: Moment) -> list[Turn]:
    """Return the turns that the moment adds to the single conversation of all frames."""
    before, after = moment.before, moment.after
    calls = before.pending.calls if before.pending else ()
    new = list(moment.new_turns)
    match moment.event:
        case FramePushed(name=name):
            text = f"frame {name!r} begins; what it returns follows"
            return [Result(call.id, text, failed=False, heap=after.heap, step=after.step) for call in calls[:1]]
        case FramePopped() if calls:
            result = new[-1] if new else None
            if not isinstance(result, Result):
                return []  # the end of the root frame is not reported to the model
            rest = [replace(result, call_id=call.id, text=_NOT_DONE, failed=True) for call in calls[1:]]
            return [replace(result, call_id=calls[0].id), *rest]
        case FramePopped():
            return [Notice(turn.text, turn.heap) for turn in new if isinstance(turn, Result)]
        case _:
            return new
