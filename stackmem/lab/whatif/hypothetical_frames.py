"""Rewrite a flat run as if its phases had been frames, with the costs of pushes, pops, hand-overs and lookups.

Rule 1: the recorded replies and results keep their order. Those of a phase belong to a child frame. Rule 2: a push
contains the sub-goal, as much of the task as its context fits, and the facts of earlier phases that this
        phase uses. A pop contains the phase's last words and the facts that later phases use. Both are replies and
        cost their tokens.
Rule 3: a fact from one frame that another uses is handed over as its line: in the result and the context while their
        budgets last, then in a heap chunk, which the child reads in a separate step.
Rule 4: a given share of the facts that another frame found is looked up again, as in ``lookups.py``. The call that
        returned the fact is repeated with the same result, in the frame that uses it, right before the use.

The hand-over assumes knowledge of what will be used, which a real model does not have. Share 0 is the best case, share
1 hands over nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core.budgets import PROMPT_CHARS, Budgets
from stackmem.core.facts import ChunkRead, Event, FramePopped, FramePushed, ModelReplied, ToolReturned
from stackmem.core.messages import ToolCall, Usage
from stackmem.core.state import Result
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.text import mark_cut
from stackmem.core.tools import tool_name
from stackmem.review.measure.first_loss import literals, told_and_used
from stackmem.review.measure.moments import Moment
from stackmem.review.measure.phases import FlatStep, steps_of
from stackmem.review.measure.prefix import Count, PromptBlock

from .lookups import luck

_LINE_CHARS, _SAID_CHARS, _CHUNK_CHARS = 200, 300, 4_000
_RETURN = "What was found, changed and verified."
_ROOT = -1

Timed = tuple[float, Event]


class Handing(Struct, frozen=True):
    """How a strategy hands over facts."""

    # push, pop: names of its tools
    push: str
    pop: str
    context_chars: int
    result_chars: int
    heap: bool  # whether its pushes and pops store chunks
    inherits: bool  # whether a child sees its parent's conversation


class HandOver(Struct, frozen=True):
    """The result of cutting a run into frames."""

    frames: int = 0
    facts: int = 0  # found in one frame and used in another; a fact counts once for each frame that uses it
    rereads: int = field(default=0, name="again")  # results that were looked up again
    chunk_reads: int = 0  # steps that read a chunk


def handing(strategy: MemoryStrategy, budgets: Budgets) -> Handing | None:
    """Return how a strategy hands over facts; None if it has no frames."""
    names = [tool_name(tool) for tool in strategy.tools]
    for push, pop in (("push_frame", "pop_frame"), ("delegate", "pop_frame"), ("branch", "return")):
        if push in names:
            own = budgets.context_chars if push == "push_frame" else PROMPT_CHARS
            inherits = push == "branch" or strategy.name.startswith("stackheap_fork")
            return Handing(push, pop, own, budgets.result_chars, "heap_read" in names, inherits)
    return None


def framed(
    run: Sequence[Moment], spans: Sequence[range], how: Handing, budgets: Budgets, missed_share: float, count: Count
) -> tuple[list[Timed], HandOver]:
    """Return the events of a flat run with each span of steps in a frame.

    Args:
        spans: As returned by ``phases``.
        missed_share: Share of the handed-over facts that are looked up again, 0 to 1; the same facts in every call.
        count: Counts the tokens of replies that this function makes up.
    """
    before, steps = steps_of(run)
    plan = _Plan(run, steps, spans, how, budgets, missed_share)
    writer = _Events(plan, steps, count)
    events = [(moment.at, moment.event) for moment in before]
    for number, step in enumerate(steps):
        events += writer.step(number, step)
    return events, HandOver(len(spans), plan.facts, plan.reread_count, sum(map(len, plan.reads.values())))


class _Plan:
    """The hand-overs and repeated lookups of a cut run."""

    def __init__(
        self, run: Sequence[Moment], steps: Sequence[FlatStep], spans: Sequence[range], how: Handing, budgets: Budgets,
        missed_share: float,
    ) -> None:  # fmt: skip
        self.spans, self.how, self.budgets, self._missed_share = spans, how, budgets, missed_share
        self.begin = {span.start: frame for frame, span in enumerate(spans)}
        self.end = {span.stop - 1: frame for frame, span in enumerate(spans)}
        self.owner = {number: frame for frame, span in enumerate(spans) for number in span}
        self.task = " ".join(run[-1].after.begun.task.split())
        self.results: dict[int, list[str]] = {}
        self.contexts: dict[int, list[str]] = {}
        self.chunks: dict[int, list[str]] = {}
        self.reads: dict[int, list[int]] = {}
        self.looked: dict[int, list[tuple[ToolCall, ToolReturned]]] = {}
        self.facts = self.reread_count = 0
        self._sources = {id(moment): (call, moment) for step in steps for call, moment in step.answers()}
        self._look(run)

    def _look(self, run: Sequence[Moment]) -> None:
        """Follow each fact from the frame that found it to those that use it."""
        told_by: dict[str, tuple[int, Moment]] = {}
        in_sight = set[tuple[int, str]]()
        repeated = set[tuple[int, int]]()
        number = -1
        for moment, found_facts, used in told_and_used(run):
            number += isinstance(moment.event, ModelReplied)
            frame = self.owner.get(number, _ROOT)
            told_by.update(dict.fromkeys(found_facts, (frame, moment)))
            for fact in sorted(used):
                origin, source = told_by[fact]
                if origin == frame or (frame, fact) in in_sight or (frame, id(source)) in repeated:
                    continue
                in_sight.add((frame, fact))
                if origin == _ROOT and self.how.inherits:
                    continue
                self.facts += 1
                if luck(moment.after.step, fact) < self._missed_share:
                    repeated.add((frame, id(source)))
                    self._look_again(number, source)
                else:
                    self._hand_over(fact, origin, frame, source)

    def _hand_over(self, fact: str, origin: int, frame: int, source: Moment) -> None:
        """Pass a line with the fact from frame to frame, if the budgets on its way fit it."""
        line = next((mark_cut(text.strip(), _LINE_CHARS) for text in _lines(source) if fact in literals(text)), "")
        if fact not in line:
            return
        result = [] if origin == _ROOT else self.results.setdefault(origin, [])
        context = [] if frame == _ROOT or self.how.inherits else self.contexts.setdefault(frame, [])
        told_room = self.how.result_chars - _SAID_CHARS
        given_room = self.how.context_chars - min(len(self.task), self.how.context_chars // 2)
        if _fits(line, result, told_room) and _fits(line, context, given_room):
            _put(line, result)
            _put(line, context)
            return
        if not self.how.heap or origin == _ROOT:
            return
        chunk = self.chunks.setdefault(origin, [])
        stored = sum(len(text) + 1 for lines in self.chunks.values() for text in lines)
        if line not in chunk and (
            not _fits(line, chunk, _CHUNK_CHARS) or stored + len(line) > self.budgets.heap_chars
            or sum(map(bool, self.chunks.values())) >= self.budgets.heap_chunks
        ):  # fmt: skip
            return
        _put(line, chunk)
        reads = self.reads.setdefault(frame, [])
        if origin not in reads:
            reads.append(origin)

    def _look_again(self, number: int, source: Moment) -> None:
        call_and_result = self._sources.get(id(source))
        if call_and_result is not None and isinstance(call_and_result[1].event, ToolReturned):
            self.looked.setdefault(number, []).append((call_and_result[0], call_and_result[1].event))
            self.reread_count += 1


def _lines(moment: Moment) -> Iterator[str]:
    for turn in moment.new_turns:
        if isinstance(turn, Result):
            yield from turn.text.splitlines()


def _fits(line: str, lines: list[str], room: int) -> bool:
    return line in lines or sum(len(other_line) + 1 for other_line in lines) + len(line) <= room


def _put(line: str, lines: list[str]) -> None:
    if line not in lines:
        lines.append(line)


class _Events:
    """Writes the plan as replies and other events."""

    def __init__(self, plan: _Plan, steps: Sequence[FlatStep], count: Count) -> None:
        self._plan, self._steps, self._count = plan, steps, count
        self._calls = 0
        self._root_reads = list(plan.reads.get(_ROOT, ()))

    def step(self, number: int, step: FlatStep) -> Iterator[Timed]:
        """Yield the step with everything before and after it."""
        plan, at = self._plan, step.reply.since
        frame = plan.begin.get(number)
        if frame is not None:
            yield from self._push(frame, step, at)
        elif number not in plan.owner:
            ready = [
                origin for origin in self._root_reads if all(n < number for n, f in plan.owner.items() if f == origin)
            ]
            for origin in ready:
                self._root_reads.remove(origin)
                yield from self._read(origin, at)
        for call, result in plan.looked.get(number, ()):
            yield at, self._reply(call.name, call.arguments)
            yield at, result
        yield step.reply.at, step.reply.event
        for moment in step.rest:
            yield moment.at, moment.event
        ended = plan.end.get(number)
        if ended is not None:
            yield from self._pop(ended, step, (step.rest[-1] if step.rest else step.reply).at)

    def _push(self, frame: int, step: FlatStep, at: float) -> Iterator[Timed]:
        plan, how, budgets = self._plan, self._plan.how, self._plan.budgets
        name = f"phase-{frame + 1}"
        goal = mark_cut(" ".join(step.text.split()) or "Go on with the task.", budgets.intent_chars)
        lines = plan.contexts.get(frame, [])
        room = how.context_chars - sum(len(line) + 1 for line in lines) - (0 if how.push == "push_frame" else len(goal))
        context = "\n".join((mark_cut(plan.task, max(1, min(room - 1, how.context_chars // 2))), *lines))
        if how.push == "push_frame":
            arguments = {"name": name, "objective": goal, "context": context, "return_spec": _RETURN}
            pushed = FramePushed(f"frame-{frame + 1}", name, goal, _RETURN, "", context)
        else:
            prompt = f"{goal}\n{context}"
            arguments = {"name": name, "prompt": prompt}
            pushed = FramePushed(f"frame-{frame + 1}", name, goal, "", "", prompt)
        yield at, self._reply(how.push, arguments)
        yield at, pushed
        for origin in plan.reads.get(frame, ()):
            yield from self._read(origin, at)

    def _read(self, origin: int, at: float) -> Iterator[Timed]:
        name = _chunk_name(origin)
        yield at, self._reply("heap_read", {"name": name})
        yield at, ChunkRead(name, len("\n".join(self._plan.chunks[origin])))

    def _pop(self, frame: int, step: FlatStep, at: float) -> Iterator[Timed]:
        last_words = mark_cut(" ".join(step.text.split()) or "Done.", _SAID_CHARS - 1)
        result = "\n".join((last_words, *self._plan.results.get(frame, [])))
        arguments: dict[str, object] = {"result": result}
        stored: tuple[str, ...] = ()
        if self._plan.chunks.get(frame):
            name = _chunk_name(frame)
            content = "\n".join(self._plan.chunks[frame])
            arguments["store"] = [{"name": name, "content": content, "description": f"what phase {frame + 1} found"}]
            stored = (name,)
        yield at, self._reply(self._plan.how.pop, arguments)
        yield at, FramePopped(f"frame-{frame + 1}", result, stored=stored)

    def _reply(self, name: str, arguments: object) -> ModelReplied:
        self._calls += 1
        call = ToolCall(f"hypothetical_{self._calls}", name, arguments)
        tokens = self._count(PromptBlock("assistant", call))
        return ModelReplied((call,), "call", Usage(output=tokens, estimated=True))


def _chunk_name(frame: int) -> str:
    return f"phase-{frame + 1}"


def estimated_outputs(run: Sequence[Timed], count: Count) -> tuple[list[Timed], int]:
    """Return the run with estimates for replies without recorded usage, and the number of estimates."""
    timed, number = list[Timed](), 0
    for at, event in run:
        if isinstance(event, ModelReplied) and not event.usage.output and event.parts:
            tokens = sum(count(PromptBlock("assistant", part)) for part in event.parts)
            timed.append((at, replace(event, usage=replace(event.usage, output=tokens, estimated=True))))
            number += 1
        else:
            timed.append((at, event))
    return timed, number
