"""CSV with one row per reply of the model, with its cost, its context and the outcome of its calls."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from msgspec import Struct

from stackmem.core.facts import CallRejected, FramePopped, ModelReplied, ToolReturned
from stackmem.core.messages import ToolCall
from stackmem.trace.record import Record

from .slices import AttemptSlice, CallSlice, slices, walk
from .spelling import model_of, reply_text, stamp
from .stated import StatedRun

COLUMNS = (
    "step", "seq", "at", "frame", "frame_name", "depth", "model", "strategy", "stop", "calls", "outcome", "opened",
    "exit_code", "prompt_tokens", "uncached_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "output_tokens", "estimated", "usd", "heap_chunks", "heap_chars", "text_chars",
    "result_chars", "model_seconds", "call_seconds",
)  # fmt: skip


class _Answered(Struct):
    """A reply with its answered calls. Its row is written when all calls are answered."""

    attempt: AttemptSlice
    reply: ModelReplied
    calls: list[CallSlice]

    @property
    def tool_names(self) -> list[str]:
        return [part.name for part in self.reply.parts if isinstance(part, ToolCall)]


def table(records: Iterable[Record], run: str) -> Iterator[str]:
    """Yield the header, then the rows in order of their steps.

    A row is complete when its calls are answered. The answer to a push comes when the child pops.

    Raise TraceError if a record is broken.
    """
    yield _line(COLUMNS)
    waiting: dict[int, _Answered] = {}
    statements = StatedRun(records)
    for piece in slices(walk(records)):
        match piece:
            case AttemptSlice(event=ModelReplied() as reply):
                waiting[piece.step] = _Answered(piece, reply, [])
            case CallSlice():
                waiting[piece.step].calls.append(piece)
        while waiting and len((first := next(iter(waiting.values()))).calls) == len(first.tool_names):
            yield _line(_row(waiting.pop(first.attempt.step), statements))
    for unanswered in waiting.values():
        yield _line(_row(unanswered, statements))


def _row(step: _Answered, statements: StatedRun) -> list[object]:
    """Return the cells in the order of ``COLUMNS``.

    The opened frame, exit code and seconds are those of the last call that has them.
    """
    attempt, reply, calls = step.attempt, step.reply, step.calls
    moment, start, heap = attempt.moment, attempt.moment.before.begun, attempt.moment.before.heap
    usage, frame = reply.usage, moment.frame
    codes = [
        fact.exit_code
        for call in calls
        for fact in call.facts
        if isinstance(fact, ToolReturned) and fact.exit_code is not None
    ]
    cells: list[object] = [
        attempt.step, moment.seq, stamp(moment.at), frame.id, frame.name, frame.depth,
        model_of(reply, moment.before), statements.strategy(start), reply.stop, " ".join(step.tool_names),
        " ".join(map(outcome, calls)) if step.tool_names else "no call",
        calls[-1].opened if calls else "", codes[-1] if codes else "",
        usage.prompt, usage.uncached, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h,
        usage.output, int(usage.estimated), "" if attempt.usd is None else f"{attempt.usd:.6f}",
        len(heap.chunks), heap.chars, len(reply_text(reply.parts)),
        sum(len(call.result.text) for call in calls if call.result is not None),
        f"{moment.at - moment.since:.3f}",
        f"{calls[-1].ended - calls[-1].started:.3f}" if calls else "",
    ]  # fmt: skip
    return [_harmless(cell) for cell in cells]


def outcome(call: CallSlice) -> str:
    """Return ``ok``, ``failed``, ``popped``, ``refused:CODE``, or ``unanswered``."""
    for fact in call.facts:
        if isinstance(fact, CallRejected):
            return f"refused:{fact.code}"
        if isinstance(fact, FramePopped) and not call.opened:
            return "popped"
    if call.result is None:
        return "unanswered"
    return "failed" if call.result.failed else "ok"


def _harmless(cell: object) -> object:
    """Prefix text that a spreadsheet would run as a formula with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _line(cells: Iterable[object]) -> str:
    page = io.StringIO()
    csv.writer(page, lineterminator="\n").writerow(cells)
    return page.getvalue()
