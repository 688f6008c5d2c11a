"""The Trace Event format of Perfetto and ``chrome://tracing``: frames, steps and calls nested over time.

Source: "Trace Event Format" (JSON object form, complete events ``X``, counters ``C``, instants ``i``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stackmem.core.facts import ContextCompacted, ModelFailed, RunStarted
from stackmem.review.measure.moments import Moment
from stackmem.trace.record import Record

from .slices import AttemptSlice, CallSlice, FrameSlice, slices, walk
from .spelling import compact
from .table import outcome

Json = dict[str, Any]


def chrome(records: Iterable[Record], run: str) -> Iterator[str]:
    """Yield one JSON object. Times are in microseconds since the run started, with at least one between records.

    Readers reconstruct the nesting from the times alone. Slices that touch or have no duration would mislead them. A
    slice that starts at the last record becomes an instant. Raise TraceError if a record is broken.
    """
    yield '{"displayTimeUnit":"ms","otherData":' + compact({"run": run}) + ',"traceEvents":[\n'
    began = 0.0
    process_name = {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": f"stackmem {run}"}}
    yield compact(process_name)
    for piece in slices(walk(_spaced(records))):
        if isinstance(piece, Moment) and isinstance(piece.event, RunStarted):
            began = piece.at
        for event in _events(piece, began):
            yield ",\n" + compact(event)
    yield "\n]}\n"


def _spaced(records: Iterable[Record]) -> Iterator[Record]:
    last = 0
    for record in records:
        last = max(round(record.at * 1_000_000), last + 1)
        yield Record(record.seq, last / 1_000_000, record.event)


def _events(piece: AttemptSlice | CallSlice | FrameSlice | Moment, began: float) -> Iterator[Json]:
    match piece:
        case AttemptSlice():
            yield from _attempt(piece, began)
        case CallSlice():
            args = {"step": piece.step, "outcome": outcome(piece), "opened": piece.opened}
            yield _complete(piece.call.name, "call", piece.started, piece.ended, began, args)
        case FrameSlice():
            registers = piece.frame.registers
            args = {
                "frame": piece.frame.id,
                "depth": piece.frame.depth,
                "intent": registers.intent,
                "forced": piece.popped.forced if piece.popped else "",
                "result": piece.popped.result if piece.popped else "",
            }
            yield _complete(f"{piece.frame.name} ({piece.frame.id})", "frame", piece.started, piece.ended, began, args)
        case Moment():
            yield {
                "name": type(piece.event).__name__, "cat": "fact", "ph": "i", "s": "t", "pid": 1, "tid": 1,
                "ts": _micros(piece.at, began), "args": {"seq": piece.seq},
            }  # fmt: skip


def _attempt(piece: AttemptSlice, began: float) -> Iterator[Json]:
    moment, event = piece.moment, piece.event
    if isinstance(event, ModelFailed):
        failed = {"step": piece.step, "seq": moment.seq}
        yield _complete(f"failed attempt: {event.kind}", "model", moment.since, moment.at, began, failed)
        return
    usage = event.usage
    slice_name = "summary" if isinstance(event, ContextCompacted) else f"step {piece.step}"
    args: Json = {"step": piece.step, "seq": moment.seq, "stop": event.stop, "prompt_tokens": usage.prompt}
    args |= {"cache_read_tokens": usage.cache_read, "output_tokens": usage.output}
    if piece.usd is not None:
        args["usd"] = round(piece.usd, 6)
    yield _complete(slice_name, "model", moment.since, moment.at, began, args)
    heap = moment.before.heap
    for name, values in (("prompt tokens", {"tokens": usage.prompt}), ("heap", {"characters": heap.chars})):
        yield {"name": name, "ph": "C", "pid": 1, "tid": 1, "ts": _micros(moment.at, began), "args": values}


def _complete(name: str, category: str, started: float, ended: float, began: float, args: Json) -> Json:
    first, last = _micros(started, began), _micros(ended, began)
    event: Json = {"name": name, "cat": category, "pid": 1, "tid": 1, "ts": first, "args": args}
    return {**event, "ph": "X", "dur": last - first} if last > first else {**event, "ph": "i", "s": "t"}


def _micros(at: float, began: float) -> int:
    return round((at - began) * 1_000_000)
