"""Inspect's ``.eval``: a run as a log of one sample, each frame a span of it, the heap its store.

Written and validated by ``inspect_ai`` itself, the extra ``inspect``. Messages that prompts share are kept once.

Source: inspect_ai 0.3, its public models of logs and events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from stackmem.core import facts
from stackmem.core.messages import Text
from stackmem.core.state import Notice, State
from stackmem.errors import UsageError
from stackmem.measure.moments import Moment
from stackmem.trace.record import Record

from .inspect_parts import InspectParts
from .slices import AttemptSlice, CallSlice, FrameSlice, new_texts, slices, walk
from .spelling import model_of, stamp, view_of

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

_LATEST = 253_402_300_799.0


def write_inspect(records: Iterable[Record], run: str, out: Path) -> None:
    """Write the run to a file.

    Raises:
        UsageError: The extra is not installed, or the file is not named as Inspect names its logs.
        TraceError: A record is broken, or the run's strategy is not installed here.
    """
    if out.suffix != ".eval":
        raise UsageError(f"Inspect reads logs by their names, and {out} does not end with .eval; name it so with -o")
    log = inspect_log(records, run)
    from inspect_ai.log import write_eval_log

    write_eval_log(log, str(out), format="eval")


def inspect_log(records: Iterable[Record], run: str) -> EvalLog:
    """The run as a log.

    Raises:
        UsageError: The extra is not installed.
        TraceError: As ``write_inspect``.
    """
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "--format inspect needs inspect_ai; install it with pip install 'stackmem[inspect]'"
        ) from error
    book = _SampleEvents(run)
    for piece in slices(_noted(records, book)):
        match piece:
            case AttemptSlice():
                book.attempt(piece)
            case CallSlice():
                book.call(piece)
            case FrameSlice():
                book.scope(piece)
            case Moment():
                book.moment(piece)
    return book.log()


def _noted(records: Iterable[Record], book: _SampleEvents) -> Iterator[Moment]:
    for moment in walk(records):
        book.noted(moment)
        yield moment


class _SampleEvents:
    """The events of the sample, each with its place: the record it belongs to, and its order within that."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._parts = InspectParts()
        self._events: list[tuple[int, int, Any]] = []
        self._replies: dict[int, int] = {}
        self._began = self._ended = 0.0
        self._seq = 0
        self.state = State()
        self._last: Any = None

    def _add(self, event: Any, seq: int, order: int) -> None:
        self._events.append((seq, order, event))

    def _when(self, at: float) -> dict[str, Any]:
        moment = datetime.fromtimestamp(min(max(at, 0.0), _LATEST), UTC)
        return {"timestamp": moment, "working_start": max(0.0, at - self._began)}

    def noted(self, moment: Moment) -> None:
        """What must stand before the things that end later: a frame's begin, and what became of the heap."""
        from inspect_ai.event import SpanBeginEvent

        self._began = self._began or moment.at
        self._ended, self._seq, self.state = moment.at, moment.seq, moment.after
        before, after = moment.before, moment.after
        if len(after.stack) > len(before.stack):
            frame = after.running
            about = {"depth": frame.depth, "intent": frame.registers.intent, "returns": frame.registers.return_spec}
            begin = SpanBeginEvent(
                id=frame.id, parent_id=frame.parent or None, span_id=frame.id, type="agent", name=frame.name,
                metadata=about, **self._when(moment.at),
            )  # fmt: skip
            self._add(begin, moment.seq, 5)
        if after.heap.chunks != before.heap.chunks:
            self._add(self._parts.store(moment.frame.id, before.heap, after.heap, self._when(moment.at)), moment.seq, 4)

    def attempt(self, piece: AttemptSlice) -> None:
        from inspect_ai.event import CompactionEvent, ModelEvent
        from inspect_ai.model import GenerateConfig, ModelOutput

        moment, event = piece.moment, piece.event
        view, model = moment.view or view_of(moment.before), model_of(event, moment.before)
        about: dict[str, Any] = {"step": piece.step, "seq": moment.seq, "strategy": moment.before.begun.strategy}
        error = None
        match event:
            case facts.ModelReplied():
                output = self._parts.output(event, model, piece.usd, moment.at - moment.since)
                self._replies[piece.step], self._last = moment.seq, output
            case facts.ContextCompacted():
                said = facts.ModelReplied((Text(event.text),), event.stop, event.usage, reply_id=event.reply_id)
                output = self._parts.output(said, model, piece.usd, moment.at - moment.since)
                about["up_to_step"] = event.up_to_step
                self._add(
                    CompactionEvent(
                        type="summary", source="stackmem", span_id=moment.frame.id, metadata=about,
                        tokens_before=event.usage.prompt or None, **self._when(moment.at),
                    ),
                    moment.seq, 1,
                )  # fmt: skip
            case facts.ModelFailed():
                output, error = ModelOutput(model=model), f"{event.kind}: {event.detail}"
            case _:
                assert_never(event)
        given = ModelEvent(
            span_id=moment.frame.id, model=model, input=self._parts.messages(view),
            tools=self._parts.tools(view.tools), tool_choice="auto", config=GenerateConfig(), output=output,
            error=error, metadata=about, working_time=moment.at - moment.since, **self._when(moment.since),
        )  # fmt: skip
        given.completed = self._when(moment.at)["timestamp"]
        self._add(given, moment.seq, 0)

    def call(self, piece: CallSlice) -> None:
        given = self._parts.called(piece, self._when(piece.started))
        given.completed = self._when(piece.ended)["timestamp"]
        self._add(given, self._replies[piece.step], 1 + piece.place)

    def scope(self, piece: FrameSlice) -> None:
        from inspect_ai.event import SpanEndEvent

        about = {"ended": "open"} if piece.popped is None else {"ended": "popped", "forced": piece.popped.forced}
        root = not piece.frame.parent
        end = SpanEndEvent(id=piece.frame.id, span_id=piece.frame.id, metadata=about, **self._when(piece.ended))
        depth = 1_000 - piece.frame.depth  # of frames that the end of the trace finds open, the innermost first
        self._add(end, self._seq + root, 6 + depth)

    def moment(self, piece: Moment) -> None:
        """What the harness told the model, and where the run stopped being one sitting."""
        from inspect_ai.event import InfoEvent

        event, place = piece.event, {"span_id": piece.frame.id, **self._when(piece.at)}
        match event:
            case facts.NoticeGiven() | facts.ReplyNudged():
                for turn in new_texts(piece):
                    if isinstance(turn, Notice):
                        info = InfoEvent(source="stackmem", data={"code": event.code, "text": turn.text}, **place)
                        self._add(info, piece.seq, 2)
            case facts.RunResumed() | facts.RunForked():
                self._add(InfoEvent(source="stackmem", data={"event": type(event).__name__}, **place), piece.seq, 2)

    def log(self) -> EvalLog:
        from inspect_ai.log import (
            EvalConfig,
            EvalDataset,
            EvalLog,
            EvalResults,
            EvalSample,
            EvalSpec,
            EvalStats,
            condense_sample,
        )
        from inspect_ai.model import ModelOutput

        state, start = self.state, self.state.begun
        usage = {start.model: self._parts.usage(state.usage, state.cost_usd)}
        scores = self._parts.scores(state)
        events = [event for _, _, event in sorted(self._events, key=lambda one: one[:2])]
        sample = EvalSample(
            id=start.task_name or "run", epoch=1, input=start.task, target="", messages=self._parts.asked,
            output=self._last or ModelOutput(model=start.model), scores=scores, events=events,
            store={"heap": {name: chunk.content for name, chunk in state.heap.chunks.items()}},
            metadata={"run": self._run, "strategy": start.strategy, "outcome": state.outcome, "result": state.result},
            model_usage=usage, started_at=stamp(self._began), completed_at=stamp(self._ended),
            total_time=max(0.0, self._ended - self._began), uuid=self._run,
        )  # fmt: skip
        spec = EvalSpec(
            created=stamp(self._began), task=start.task_name or "run", model=start.model, config=EvalConfig(),
            dataset=EvalDataset(name=start.task_name, samples=1, sample_ids=[sample.id]), run_id=self._run,
            eval_id=self._run, task_id=self._run, packages={"stackmem": start.version},
            metadata={"strategy": start.strategy, "isolation": start.isolation, "rules": start.rules},
        )  # fmt: skip
        return EvalLog(
            status="success" if state.end is not None else "started", eval=spec,
            results=EvalResults(total_samples=1, completed_samples=int(state.end is not None)),
            stats=EvalStats(started_at=stamp(self._began), completed_at=stamp(self._ended), model_usage=usage),
            samples=[condense_sample(sample)],
        )  # fmt: skip
