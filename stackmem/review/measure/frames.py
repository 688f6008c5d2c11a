"""The frames of a run as rows: the purpose, the cost and the end of each."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from stackmem.core.facts import ContextCompacted, Event, FramePopped, ModelReplied, RunForked
from stackmem.core.messages import Usage
from stackmem.core.parallel.facts import FrameReturned, FramesMerged, FramesPushed
from stackmem.core.pricing import reply_usd
from stackmem.core.state import Frame

from .moments import Moment


class FrameRow(Struct, frozen=True):
    """One frame."""

    id: str
    name: str
    depth: int
    parent: str  # id of the frame that pushed it; empty for the root
    intent: str  # R0
    # first_step, last_step: the run's steps at the push and at the end, both inclusive; 0 before the first reply
    first_step: int
    last_step: int
    pushed_at: float
    steps: int = 0  # replies in this frame itself, without its children
    usage: Usage = field(default_factory=Usage)  # tokens of those replies, and of the summaries of its conversation
    usd: float | None = 0.0  # their cost; None if any price is unknown
    peak_context_tokens: int = 0  # the longest prompt sent in it
    seconds: float = 0.0  # from its push to its end, including its children, without the time while the run was stopped
    outcome: str = "open"  # ``popped``, ``forced: WHY``, or ``open`` if the run stopped before it ended
    verified: str = ""  # as ``FramePopped.verified``
    result: str = ""  # its result for the parent; empty while it is open


class ParallelRow(Struct, frozen=True):
    """One parallel frame of a run. Another run has its steps."""

    frame: str  # its id
    name: str
    run: str  # the id of its run
    steps: int = 0
    tokens: int = 0
    usd: float | None = None  # None if any price is unknown, or until it returns
    ending: str = ""  # how its run ended; empty until it returns
    conflicts: tuple[str, ...] = ()  # files that it and an earlier frame or its parent had changed


def parallel_rows(events: Iterable[Event], run: str) -> tuple[ParallelRow, ...]:
    """Return the parallel frames of a run in push order. A frame that a resume continued is returned once.

    ``run`` is the id of the run, from which the ids of its frames' runs follow.
    """
    rows: dict[str, ParallelRow] = {}
    group: tuple[str, ...] = ()
    for event in events:
        match event:
            case FramesPushed():
                group = tuple(each.frame for each in event.frames)
                new = (ParallelRow(each.frame, each.name, f"{run}.{each.frame}") for each in event.frames)
                rows |= {row.frame: row for row in new}
            case FrameReturned() if event.frame in rows:
                rows[event.frame] = replace(
                    rows[event.frame], run=event.run, steps=event.steps, tokens=event.usage.total,
                    usd=None if event.unpriced else event.usd, ending=event.ending,
                )  # fmt: skip
            case FramesMerged():
                for frame in group:
                    files = [file for file in event.files if file.frame == rows[frame].name and file.kind != "merged"]
                    rows[frame] = replace(rows[frame], conflicts=tuple(file.path for file in files))
            case RunForked() if event.frame is not UNSET:  # the run is one of these frames
                rows = {frame: row for frame, row in rows.items() if frame not in group}
            case _:
                pass
    return tuple(rows.values())


def frames(run: Iterable[Moment]) -> tuple[FrameRow, ...]:
    """Return every frame in the order of their pushes, the root first."""
    rows: dict[str, FrameRow] = {}
    started: dict[str, float] = {}
    worked = 0.0
    for moment in run:
        event, before, after = moment.event, moment.before, moment.after
        worked += moment.seconds if moment.spender != "away" else 0.0
        if len(after.stack) > len(before.stack):
            frame = after.running
            rows[frame.id], started[frame.id] = _opened(frame, after.step + 1, moment.at), worked
        match event:
            case FramePopped():
                outcome = f"forced: {event.forced}" if event.forced else "popped"
                ended = replace(rows[event.frame], outcome=outcome, verified=event.verified, result=event.result)
                rows[event.frame] = replace(ended, last_step=after.step, seconds=_lasted(worked, started[event.frame]))
            case ModelReplied() | ContextCompacted():
                row = rows[before.running.id]
                rows[row.id] = _grown(row, moment, event)
                for frame in after.stack:
                    lasted = _lasted(worked, started[frame.id])
                    rows[frame.id] = replace(rows[frame.id], last_step=after.step, seconds=lasted)
    return tuple(rows.values())


def _lasted(worked: float, started: float) -> float:
    return round(worked - started, 3)


def _opened(frame: Frame, step: int, at: float) -> FrameRow:
    return FrameRow(
        frame.id, frame.name, frame.depth, frame.parent, frame.registers.intent, step, max(0, step - 1), pushed_at=at
    )


def _grown(row: FrameRow, moment: Moment, reply: ModelReplied | ContextCompacted) -> FrameRow:
    usd = reply_usd(reply.usage, moment.before.begun.price, reply.answerer)
    return replace(
        row,
        steps=row.steps + isinstance(reply, ModelReplied),
        usage=row.usage + reply.usage,
        usd=None if usd is None or row.usd is None else row.usd + usd,
        peak_context_tokens=max(row.peak_context_tokens, reply.usage.prompt or moment.before.running.context_tokens),
    )
