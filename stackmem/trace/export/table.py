"""CSV: one row for each reply of the model, with its cost, its context and what its call came to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from stackmem.core.events import CallRejected, FramePopped, ModelReplied, ToolReturned
from stackmem.core.messages import ToolCall
from stackmem.trace.record import Record

from .shown import model_of, said, stamp
from .story import Attempt, Call, moments, slices

COLUMNS = (
    "step", "seq", "at", "frame", "frame_name", "depth", "model", "strategy", "stop", "calls", "outcome", "opened",
    "exit_code", "prompt_tokens", "uncached_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "output_tokens", "estimated", "usd", "heap_chunks", "heap_chars", "text_chars",
    "result_chars", "model_seconds", "call_seconds",
)  # fmt: skip

Row = dict[str, object]


def table(records: Iterable[Record], run: str) -> Iterator[str]:
    """The head, then the rows in order of their steps.

    A row is written once its calls are answered; the answer to a push comes when the child pops.

    Raises:
        TraceError: A record is broken.

    """
    yield _line(COLUMNS)
    rows: dict[int, Row] = {}
    waiting: dict[int, int] = {}
    for piece in slices(moments(records)):
        match piece:
            case Attempt(event=ModelReplied() as reply):
                rows[piece.step], waiting[piece.step] = _reply(piece, reply)
            case Call():
                _answered(rows[piece.step], piece)
                waiting[piece.step] -= 1
            case _:
                pass
        while rows and waiting[next(iter(rows))] == 0:
            yield _line(_row(rows.pop(next(iter(rows)))))
    for row in rows.values():
        yield _line(_row(row))


def _reply(piece: Attempt, event: ModelReplied) -> tuple[Row, int]:
    """The row of a reply, and how many calls it waits for."""
    moment, start, heap = piece.moment, piece.moment.before.begun, piece.moment.before.heap
    usage, frame = event.usage, moment.frame
    calls = [part.name for part in event.parts if isinstance(part, ToolCall)]
    row: Row = {
        "step": piece.step, "seq": moment.seq, "at": stamp(moment.at),
        "frame": frame.id, "frame_name": frame.name, "depth": frame.depth,
        "model": model_of(event, moment.before), "strategy": start.strategy,
        "stop": event.stop, "calls": " ".join(calls), "outcome": "" if calls else "no call",
        "prompt_tokens": usage.prompt, "uncached_tokens": usage.uncached, "cache_read_tokens": usage.cache_read,
        "cache_write_5m_tokens": usage.cache_write_5m, "cache_write_1h_tokens": usage.cache_write_1h,
        "output_tokens": usage.output, "estimated": int(usage.estimated),
        "usd": "" if piece.usd is None else f"{piece.usd:.6f}",
        "heap_chunks": len(heap.chunks), "heap_chars": heap.chars,
        "text_chars": len(said(event.parts)), "result_chars": 0,
        "model_seconds": f"{moment.at - moment.since:.3f}", "call_seconds": "",
    }  # fmt: skip
    return row, len(calls)


def _answered(row: Row, piece: Call) -> None:
    row["outcome"] = " ".join(filter(None, (str(row["outcome"]), outcome(piece))))
    row["opened"] = piece.opened
    row["call_seconds"] = f"{piece.ended - piece.started:.3f}"
    if piece.result is not None:
        row["result_chars"] = int(str(row["result_chars"])) + len(piece.result.text)
    for fact in piece.facts:
        if isinstance(fact, ToolReturned) and fact.exit_code is not None:
            row["exit_code"] = fact.exit_code


def outcome(call: Call) -> str:
    """``ok``, ``failed``, ``popped``, ``refused:CODE``, or ``unanswered``."""
    for fact in call.facts:
        if isinstance(fact, CallRejected):
            return f"refused:{fact.code}"
        if isinstance(fact, FramePopped) and not call.opened:
            return "popped"
    if call.result is None:
        return "unanswered"
    return "failed" if call.result.failed else "ok"


def _row(row: Row) -> list[object]:
    return [_harmless(row.get(column, "")) for column in COLUMNS]


def _harmless(cell: object) -> object:
    """Text that a spreadsheet would run as a formula, with an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _line(cells: Iterable[object]) -> str:
    page = io.StringIO()
    csv.writer(page, lineterminator="\n").writerow(cells)
    return page.getvalue()
