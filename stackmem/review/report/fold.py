"""Builds a run's page from its records: a fold over the same events, extended by the behavior of the cache."""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from stackmem.core import facts
from stackmem.core.errors import TraceError, UsageError
from stackmem.core.messages import Usage, View
from stackmem.core.pricing import reply_usd
from stackmem.core.program_facts import ProgramCalled, ProgramStarted
from stackmem.core.requests import Compact
from stackmem.core.state import Compaction, Frame, Notice, Reply, Result, State, Turn
from stackmem.core.strategy import MemoryStrategy
from stackmem.memory import open_strategy
from stackmem.memory.shared.break_even import rates
from stackmem.review.measure.cache import Cache, CacheRequest
from stackmem.review.measure.prefix import PromptBlock, text_of
from stackmem.trace.imported import imported_from
from stackmem.trace.program import Completions, TextOf, no_sources
from stackmem.trace.record import Record
from stackmem.trace.walk import state_after

from .facts import fact_of, program_fact
from .files import TreeChanges
from .heap import Lanes
from .prompts import Prompts, part_chars, standing_chars
from .rows import PageFrame, PageStep, RunPage
from .texts import Texts

MINIMUM_TOKENS = 1_024  # of most models; shorter prefixes are not cached
_CHARS_PER_TOKEN = 2.5  # as for estimated usage
_FIRST = ("first request", "new conversation")  # reasons that are not breaks
LIVES_SECONDS = 300
_SLACK = 0.02  # providers count a prefix with small differences between requests


class Served(Struct, frozen=True):
    """Cached tokens of one prompt."""

    read: int
    written: int
    broke: str = ""  # why less was read than possible; empty if nothing was lost


def recorded(usage: Usage, broke: str = "") -> Served:
    return Served(usage.cache_read, usage.cache_write_5m + usage.cache_write_1h, broke)


class Simulated:
    """A simulated cache that starts empty and processes every request in turn."""

    def __init__(self) -> None:
        self._cache = Cache(MINIMUM_TOKENS, _tokens)

    def serve(self, view: View, sent: float, prompt_tokens: int) -> Served:
        """Return the cache's result for a prompt of this many tokens, sent at this second."""
        cached = self._cache.answer(CacheRequest(sent, view))
        read = min(cached.read, prompt_tokens)
        written = min(cached.written_5m + cached.written_1h, prompt_tokens - read)
        return Served(read, written, "" if cached.broken in _FIRST else cached.broken)


def _tokens(block: PromptBlock) -> int:
    return ceil(len(text_of(block)) / _CHARS_PER_TOKEN)


class _Last(Struct):
    at: float
    cached: int
    messages: int


class Breaks:
    """Explains cache breaks, request by request, from recorded and rendered data only."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}

    def reason(self, frame: str, at: float, usage: Usage, shared: int, messages: int) -> str:
        """Return the reason; empty if the cache still had the frame's last request, or ``shared`` is negative: none.

        Args:
            at: Time of the reply.
            shared: Messages that start both the frame's last prompt and this one; -1 for a frame's first prompt.
            messages: Number of messages in this prompt.
        """
        last = self._last.get(frame)
        cached = usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
        self._last[frame] = _Last(at, cached, messages)
        if usage.estimated or last is None or shared < 0 or usage.cache_read >= last.cached * (1 - _SLACK):
            return ""
        lost = f"{last.cached - usage.cache_read:,} tokens of the last prompt were not read"
        if 0 <= shared < last.messages:
            return f"{lost}: message {shared + 1} of {last.messages} changed"
        waited = at - last.at
        if waited > LIVES_SECONDS:
            return f"{lost}: this frame's last request was {waited / 60:.1f} minutes ago, but entries expire after 5"
        return f"{lost}, although the prompt starts like the one {waited:,.0f} s before: the provider dropped its entry"


_ROOT = {"solved": "ok", "finished": "ok", "unsolved": "failed", "stalled": "forced"}


class PageFold:
    """Builds a page from a run's records, in order."""

    def __init__(
        self, run: str, texts: Texts, prompts: Prompts, changes: TreeChanges, text_of: TextOf = no_sources
    ) -> None:
        # the page so far; complete after ``close``, which may be called again after more records
        self.page = RunPage(run, 0, "", "", "", "", "", 0.0, 0)
        self.touched: set[int] = set()  # indexes of frames that began or ended; the reader clears it
        self._state = State()
        self._completions: Completions | None = Completions(text_of)
        self._completion_view: View | None = None
        self._texts, self._prompts, self._changes = texts, prompts, changes
        self._lanes, self._breaks, self._simulated = Lanes(texts), Breaks(), Simulated()
        self._imported = ""
        self._strategy: MemoryStrategy | None = None
        self._frames: dict[str, int] = {}
        self._prompt_tokens = self._prompt_chars = 0
        self._chars = 0  # characters of all turns of all frames
        self._last_at = 0.0
        self._idle_seconds = 0.0  # time between each stop of the run and its continuation

    def take(self, record: Record) -> None:
        event, before = record.event, self._state
        if before.start is None and not isinstance(event, facts.RunStarted):
            raise TraceError("the first record is not RunStarted, so this is not the trace of a run")
        if isinstance(event, facts.RunForked | facts.RunResumed):
            self._idle_seconds += max(0.0, record.at - self._last_at)
        self._completion_view = self._completion(record, before)
        if isinstance(event, facts.ModelReplied):
            self._reply(event, record.at)
        if isinstance(event, facts.ContextCompacted):
            self._compacted(event)
        self._state = after = state_after(before, record)
        self._last_at = record.at
        if isinstance(event, facts.RunStarted | facts.RunForked):
            self._start(after, record.at)
        if isinstance(event, facts.RunResumed):  # the run may have a model now that it lacked before
            self.page.model, self.page.window_tokens = after.begun.model, after.begun.window_tokens
        if isinstance(event, facts.RunForked):
            self.page.forked = f"{event.parent} at record {event.at}"
            self.page.frame = event.frame or ""
        if isinstance(event, ProgramStarted) and (gone_on := event.continued):
            self.page.forked = f"{gone_on.parent} at record {gone_on.at}, with an edited program"
        if isinstance(event, facts.ChunkRead) and not event.others and event.name in before.heap.chunks:
            result = (
                self._last_result()
            )  # the result's text contains the chunk; register that before the text is stored
            if result is not None:
                self._texts.around(result.text, before.heap.chunks[event.name].content)
        self._chars += sum(map(_turn_chars, _new_turns(before, after)))
        self._lanes.see(after.heap, after.step)
        self._open_and_close(event, after)
        noted = self.page.steps[-1].facts if self.page.steps else self.page.before
        question = self._completions.question if self._completions else None
        fact = program_fact(event, question, len(noted), self._texts.ref)
        if fact is None:
            fact = fact_of(event, self._texts, self._frames, self._last_result())
        if fact is not None:
            noted.append(fact)
        if self.page.steps and after.tree != before.tree and before.tree and not isinstance(event, facts.RunForked):
            self.page.steps[-1].files += self._changes.between.get((before.tree, after.tree), [])

    def close(self, torn_bytes: int) -> RunPage:
        """Complete the page with values that need the whole run, and return it."""
        if self._state.start is None:
            raise TraceError("the trace is empty")
        page, state = self.page, self._state
        page.outcome = state.outcome
        page.ending = state.end.ending if state.end else ""
        page.result = self._texts.ref(state.end.result if state.end else state.result)
        page.wall_seconds = round(max(0.0, self._last_at - page.started - self._idle_seconds), 3)
        page.torn_bytes = torn_bytes
        page.files_missing = self._changes.missing
        page.lanes, page.sequences = self._lanes.ordered, self._prompts.sequences
        if page.frames:
            page.frames[0].outcome = "open" if state.end is None else _ROOT.get(page.outcome, "open")
            self.touched.add(0)
        page.tokens_per_char = self._prompt_tokens / self._prompt_chars if self._prompt_chars else 1 / _CHARS_PER_TOKEN
        return page

    @property
    def imported(self) -> str:
        """The source of an imported run; empty for runs of our own."""
        return self._imported

    @property
    def lanes(self) -> Lanes:
        """The history of each chunk so far."""
        return self._lanes

    def _start(self, state: State, at: float) -> None:
        """Fill in the start of a run, or of a fork, which replaces it."""
        start, page = state.begun, self.page
        page.task, page.task_name = self._texts.ref(start.task), start.task_name
        page.model, page.strategy, page.isolation = start.model, start.strategy, start.isolation
        page.version, page.window_tokens, page.heap_chars = start.version, start.window_tokens, start.budgets.heap_chars
        page.started = page.started or at
        page.standing, prices = standing_chars(start), rates(start.price)
        page.rates = [prices.read, prices.write, prices.output]
        try:
            self._strategy = open_strategy(start.strategy)
        except UsageError:
            self._strategy = None
            page.unrendered = f"the strategy {start.strategy!r} is not installed here, so prompts cannot be shown"
        self._imported = imported_from(start)
        if self._imported:
            page.unrendered = f"imported from {self._imported}: prompts are rebuilt and may differ from those sent"
        if not page.frames and state.stack:
            self._opened(state.stack[0], -1, 0)

    def _reply(self, event: facts.ModelReplied, at: float) -> None:
        state, page = self._state, self.page
        if not state.stack:
            raise TraceError(
                f"the reply of step {state.step + 1} belongs to no frame; verify the run with stackmem replay"
            )
        usage, start = event.usage, state.begun
        usd = reply_usd(usage, start.price, event.answerer)
        triples, cached = self._rendered(event, at)
        chars = self._prompts.chars(triples)
        if self._imported and not usage.prompt and not usage.output:  # the recording does not say
            usage = Usage(int(chars / _CHARS_PER_TOKEN), output=_reply_tokens(event), estimated=True)
        page.estimated = page.estimated or usage.estimated
        self._prompt_tokens += usage.prompt
        self._prompt_chars += chars
        page.steps.append(
            PageStep(
                frame=self._frames[state.running.id],
                at=round(at - page.started - self._idle_seconds, 1),
                prompt=usage.prompt,
                read=cached.read,
                written=cached.written,
                output=usage.output,
                turns=self._chars,
                usd=None if usd is None else round(usd, 6),
                stop=event.stop,
                ranges=triples,
                reply=[self._prompts.number(part, "assistant") for part in event.parts],
                facts=[],
                files=[],
                broke=cached.broke,
            )
        )

    def _compacted(self, event: facts.ContextCompacted) -> None:
        """Add a summary's cost to the step before it, and its request to the simulated cache."""
        usd = reply_usd(event.usage, self._state.begun.price, event.answerer)
        effect = self._strategy.upkeep(self._state) if self._strategy else None
        if usd is not None and self.page.steps:
            step = self.page.steps[-1]
            step.usd = round((step.usd or 0.0) + usd, 6)
        if event.usage.estimated and isinstance(effect, Compact):
            self._simulated.serve(effect.ask.view, self._last_at, event.usage.prompt)

    def _rendered(self, event: facts.ModelReplied, at: float) -> tuple[list[int], Served]:
        """Return the prompt that the reply answers, and the cache's result for it."""
        if self._strategy is None:
            return [], recorded(event.usage)
        view = self._completion_view or self._strategy.render(self._state)
        if event.prompt_digest and view.digest != event.prompt_digest and not self.page.unrendered:
            step = self._state.step + 1
            self.page.unrendered = (
                f"from step {step} on, prompts are rendered by the current rules and differ from those sent"
            )
        frame = self._state.running.id
        triples, shared = self._prompts.add(frame, view, appends=self._strategy.prefix_stable)
        if event.usage.estimated and not self._imported:
            self.page.simulated = MINIMUM_TOKENS
            return triples, self._simulated.serve(view, self._last_at, event.usage.prompt)
        cached = event.usage.cache_read or event.usage.cache_write_5m or event.usage.cache_write_1h
        # A program or a recorded agent began another conversation, or the recording does not state what was cached.
        if (shared == 0 and (self._completion_view is not None or self._imported)) or (self._imported and not cached):
            shared = -1
        return triples, recorded(event.usage, self._breaks.reason(frame, at, event.usage, shared, len(view.messages)))

    def _completion(self, record: Record, before: State) -> View | None:
        """Return the prompt that a record answers, if a program sent it."""
        starts = isinstance(record.event, ProgramStarted | ProgramCalled)
        if self._completions is None or (before.program is None and not starts):
            return None
        try:
            return self._completions.take(record.event, before, state_after(before, record))
        except TraceError as error:
            self._completions, self.page.unrendered = None, f"the program's own prompts cannot be shown: {error}"
            return None

    def _last_result(self) -> Result | None:
        """Return the running frame's last turn if it is a result."""
        stack = self._state.stack
        turn = stack[-1].turns[-1] if stack and len(stack[-1].turns) else None
        return turn if isinstance(turn, Result) else None

    def _open_and_close(self, event: facts.Event, state: State) -> None:
        if isinstance(event, facts.FramePushed) and state.stack and state.running.id == event.frame:
            self._opened(state.running, self._frames.get(state.running.parent, -1), state.step + 1)
        if isinstance(event, facts.FramePopped) and event.frame in self._frames:
            row = self.page.frames[self._frames[event.frame]]
            self.touched.add(self._frames[event.frame])
            row.last, row.result = max(state.step, row.first), self._texts.ref(event.result)
            row.forced, row.verified = event.forced, event.verified
            row.outcome = "forced" if event.forced else "ok" if event.verified in ("", "exit 0") else "failed"

    def _opened(self, frame: Frame, parent: int, first: int) -> None:
        self._frames[frame.id] = len(self.page.frames)
        self.touched.add(len(self.page.frames))
        ref, registers = self._texts.ref, frame.registers
        self.page.frames.append(
            PageFrame(
                id=frame.id,
                name=frame.name,
                parent=parent,
                depth=frame.depth,
                first=max(1, first),
                intent=ref(registers.intent),
                returns=ref(registers.return_spec),
                constraint=ref(registers.constraint),
                context=ref(frame.context),
                verify=frame.verify,
            )
        )


def _new_turns(before: State, after: State) -> list[Turn]:
    """Return the turns that one event added; they are at the end of a frame still on the stack."""
    counts = {frame.id: len(frame.turns) for frame in before.stack}
    return [
        turn
        for frame in after.stack[-2:]
        if frame.id in counts and len(frame.turns) > counts[frame.id]
        for turn in frame.turns[counts[frame.id] :]
    ]


def _reply_tokens(event: facts.ModelReplied) -> int:
    return ceil(sum(map(part_chars, event.parts)) / _CHARS_PER_TOKEN)


def _turn_chars(turn: Turn) -> int:
    match turn:
        case Reply():
            return sum(map(part_chars, turn.parts))
        case Result() | Notice() | Compaction():
            return len(turn.text)
