"""Inspect's ``.eval`` format: a run as a log with one sample, frames as spans, and the heap as the store.

Written and validated by ``inspect_ai`` 0.3, the extra ``inspect``. Each message is converted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never

from stackmem.core import facts
from stackmem.core.errors import UsageError
from stackmem.core.facts import CallRejected, FramePopped, ModelReplied, Stop
from stackmem.core.heap import Heap
from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage, View
from stackmem.core.state import Notice, State
from stackmem.foreign.installing import install_command
from stackmem.review.measure.moments import Moment
from stackmem.trace.record import Record

from .slices import HIDDEN, AttemptSlice, CallSlice, FrameSlice, new_texts, write_slices
from .spelling import arguments, mended_about, model_of, stamp, view_of
from .stated import StatedRun

if TYPE_CHECKING:
    from inspect_ai.event import StoreEvent, ToolEvent
    from inspect_ai.log import EvalError, EvalLog, EvalSampleLimit, EvalStatus
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, ModelOutput, ModelUsage, StopReason
    from inspect_ai.scorer import Score
    from inspect_ai.tool import ToolInfo


LimitType = Literal["turn", "token", "cost", "time", "custom"]
_LATEST = 253_402_300_799.0


def write_inspect(records: Iterable[Record], run: str, out: Path) -> None:
    """Write the run to a file. ``UsageError`` without the extra, ``TraceError`` for a broken record."""
    if out.suffix != ".eval":
        raise UsageError(f"Inspect needs a file name that ends in .eval, not {out}; change it with -o")
    log = inspect_log(records, run)
    from inspect_ai.log import write_eval_log

    write_eval_log(log, str(out), format="eval")


def inspect_log(records: Iterable[Record], run: str) -> EvalLog:
    """Return the run as a log."""
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"--format inspect needs the extra 'inspect'; install it: {install_command('inspect')}"
        ) from error
    book = _SampleEvents(run, StatedRun(records))
    write_slices(records, book)
    return book.log()


class _SampleEvents:
    """The events of the sample, each with its record number and its order within the record."""

    def __init__(self, run: str, statements: StatedRun) -> None:
        self._statements = statements
        self._run = run
        self._parts = InspectParts()
        self._events: list[tuple[int, int, Any]] = []
        self._replies: dict[int, int] = {}
        self._began = self._ended = 0.0
        self._seq = 0
        self.state = State()
        self._last: Any = None
        self._failure = ""

    def _add(self, event: Any, seq: int, order: int) -> None:
        self._events.append((seq, order, event))

    def _when(self, at: float) -> dict[str, Any]:
        moment = datetime.fromtimestamp(min(max(at, 0.0), _LATEST), UTC)
        return {"timestamp": moment, "working_start": max(0.0, at - self._began)}

    def noted(self, moment: Moment) -> None:
        """Add events that must precede what ends later: the start of a frame, and changes of the heap."""
        from inspect_ai.event import SpanBeginEvent

        self._began = self._began or moment.at
        self._ended, self._seq, self.state = moment.at, moment.seq, moment.after
        before, after = moment.before, moment.after
        if len(after.stack) > len(before.stack):
            frame = after.running
            metadata = {"depth": frame.depth, "intent": frame.registers.intent, "returns": frame.registers.return_spec}
            begin = SpanBeginEvent(
                id=frame.id, parent_id=frame.parent or None, span_id=frame.id, type="agent", name=frame.name,
                metadata=metadata, **self._when(moment.at),
            )  # fmt: skip
            self._add(begin, moment.seq, 5)
        if after.heap.chunks != before.heap.chunks:
            self._add(self._parts.store(moment.frame.id, before.heap, after.heap, self._when(moment.at)), moment.seq, 4)

    def attempt(self, piece: AttemptSlice) -> None:
        from inspect_ai.event import CompactionEvent, ModelEvent
        from inspect_ai.model import GenerateConfig, ModelOutput

        moment, event = piece.moment, piece.event
        view, model = moment.view or view_of(moment.before), model_of(event, moment.before)
        metadata: dict[str, Any] = {
            "step": piece.step,
            "seq": moment.seq,
            "strategy": self._statements.strategy(moment.before.begun),
            **mended_about(event),
        }
        error = None
        match event:
            case facts.ModelReplied():
                output = self._parts.output(event, model, piece.usd, moment.at - moment.since)
                self._replies[piece.step], self._last = moment.seq, output
            case facts.ContextCompacted():
                summary_reply = facts.ModelReplied(
                    (Text(event.text),), event.stop, event.usage, reply_id=event.reply_id
                )
                output = self._parts.output(summary_reply, model, piece.usd, moment.at - moment.since)
                metadata["up_to_step"] = event.up_to_step
                self._add(
                    CompactionEvent(
                        type="summary", source="stackmem", span_id=moment.frame.id, metadata=metadata,
                        tokens_before=event.usage.prompt or None, **self._when(moment.at),
                    ),
                    moment.seq, 1,
                )  # fmt: skip
            case facts.ModelFailed():
                output = ModelOutput(model=model)
                self._failure = error = f"{event.kind}: {event.detail}"
            case _:
                assert_never(event)
        model_event = ModelEvent(
            span_id=moment.frame.id, model=model, input=self._parts.messages(view),
            tools=self._parts.tools(view.tools), tool_choice="auto", config=GenerateConfig(), output=output,
            error=error, metadata=metadata, working_time=moment.at - moment.since, **self._when(moment.since),
        )  # fmt: skip
        model_event.completed = self._when(moment.at)["timestamp"]
        self._add(model_event, moment.seq, 0)

    def call(self, piece: CallSlice) -> None:
        tool_event = self._parts.called(piece, self._when(piece.started))
        tool_event.completed = self._when(piece.ended)["timestamp"]
        self._add(tool_event, self._replies[piece.step], 1 + piece.position)

    def scope(self, piece: FrameSlice) -> None:
        from inspect_ai.event import SpanEndEvent

        metadata = {"ended": "open"} if piece.popped is None else {"ended": "popped", "forced": piece.popped.forced}
        root = not piece.frame.parent
        end = SpanEndEvent(id=piece.frame.id, span_id=piece.frame.id, metadata=metadata, **self._when(piece.ended))
        depth = 1_000 - piece.frame.depth  # frames still open at the end of the trace end innermost first
        self._add(end, self._seq + root, 6 + depth)

    def moment(self, piece: Moment) -> None:
        """Add notices of the harness to the model, and the points at which the run was resumed or forked."""
        from inspect_ai.event import InfoEvent

        event, span_fields = piece.event, {"span_id": piece.frame.id, **self._when(piece.at)}
        match event:
            case facts.NoticeGiven() | facts.ReplyNudged():
                for turn in new_texts(piece):
                    if isinstance(turn, Notice):
                        info = InfoEvent(source="stackmem", data={"code": event.code, "text": turn.text}, **span_fields)
                        self._add(info, piece.seq, 2)
            case facts.RunResumed() | facts.RunForked():
                self._add(
                    InfoEvent(source="stackmem", data={"event": type(event).__name__}, **span_fields), piece.seq, 2
                )
            case _ if event.voice.kind not in HIDDEN:
                voice = event.voice
                info = InfoEvent(source="stackmem", data={"event": voice.line, "text": voice.text}, **span_fields)
                self._add(info, piece.seq, 2)
            case _:
                pass

    def _error(self) -> EvalError | None:
        """Return why the run could not continue: the provider's last error, otherwise its ending."""
        from inspect_ai.log import EvalError

        end = self.state.end
        if end is None or _STATUS.get(end.ending) != "error":
            return None
        failure = self._failure if end.ending == "model_error" else ""
        return EvalError(message=failure or f"{end.ending}: {end.result}", traceback="", traceback_ansi="")

    def _limit(self) -> EvalSampleLimit | None:
        from inspect_ai.log import EvalSampleLimit

        ending = self.state.end.ending if self.state.end is not None else ""
        if ending not in _LIMITS:
            return None
        limit = getattr(self.state.begun.limits, ending.removeprefix("limit:"), None)
        return EvalSampleLimit(type=_LIMITS[ending], limit=limit or 0.0, reason=ending)

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
        status = "started" if state.end is None else _STATUS.get(state.end.ending, "success")
        usage = {start.model: self._parts.usage(state.usage, self._statements.usd(state))}
        scores = self._parts.scores(state)
        events = [event for _, _, event in sorted(self._events, key=lambda entry: entry[:2])]
        sample = EvalSample(
            id=start.task_name or "run", epoch=1, input=start.task, target="", messages=self._parts.last_prompt,
            output=self._last or ModelOutput(model=start.model), scores=scores, events=events,
            store={"heap": {name: chunk.content for name, chunk in state.heap.chunks.items()}},
            metadata={
                "run": self._run, "strategy": self._statements.strategy(start), "outcome": state.outcome,
                "result": state.result,
                "ending": state.end.ending if state.end is not None else "running",
            },
            error=self._error(), limit=self._limit(),
            model_usage=usage, started_at=stamp(self._began), completed_at=stamp(self._ended),
            total_time=max(0.0, self._ended - self._began), uuid=self._run,
        )  # fmt: skip
        spec = EvalSpec(
            created=stamp(self._began), task=start.task_name or "run", model=start.model, config=EvalConfig(),
            dataset=EvalDataset(name=start.task_name, samples=1, sample_ids=[sample.id]), run_id=self._run,
            eval_id=self._run, task_id=self._run, packages={"stackmem": start.version},
            metadata={"strategy": self._statements.strategy(start), "isolation": start.isolation, "rules": start.rules},
        )  # fmt: skip
        return EvalLog(
            status=status, eval=spec, error=self._error() if status == "error" else None,
            results=EvalResults(total_samples=1, completed_samples=int(status == "success")),
            stats=EvalStats(started_at=stamp(self._began), completed_at=stamp(self._ended), model_usage=usage),
            samples=[condense_sample(sample)],
        )  # fmt: skip


_STATUS: dict[str, EvalStatus] = {
    "model_error": "error", "workspace_error": "error", "halted": "error", "interrupted": "cancelled",
    "input_needed": "cancelled",
}  # fmt: skip
_LIMITS: dict[str, LimitType] = {
    "limit:steps": "turn", "limit:tokens": "token", "limit:usd": "cost", "limit:seconds": "time", "stalled": "custom",
}  # fmt: skip
_STOPS: dict[Stop, StopReason] = {
    "call": "tool_calls", "end": "stop", "truncated": "max_tokens", "refused": "content_filter",
    "window": "model_length", "paused": "unknown",
}  # fmt: skip


class InspectParts:
    """Converts values of stackmem to those of Inspect."""

    def __init__(self) -> None:
        self.last_prompt: list[ChatMessage] = []  # the messages of the last prompt
        self._converted: dict[int, tuple[Message, list[ChatMessage]]] = {}
        self._tools: dict[tuple[ToolSpec, ...], list[ToolInfo]] = {}
        self._systems: dict[str, ChatMessage] = {}
        self._replies = 0

    def messages(self, view: View) -> list[ChatMessage]:
        """Convert a prompt. Prompts of a frame share the messages that they have in common."""
        from inspect_ai.model import ChatMessageSystem

        messages: list[ChatMessage] = []
        if view.system:
            if view.system not in self._systems:
                self._systems[view.system] = ChatMessageSystem(content=view.system, id=f"system-{len(self._systems)}")
            messages.append(self._systems[view.system])
        for message in view.messages:
            if id(message) not in self._converted:
                self._converted[id(message)] = (message, self._message(message, f"message-{len(self._converted)}"))
            messages += self._converted[id(message)][1]
        self.last_prompt = messages
        return messages

    def _message(self, message: Message, name: str) -> list[ChatMessage]:
        from inspect_ai.model import ChatMessageTool, ChatMessageUser
        from inspect_ai.tool import ToolCallError

        if message.role == "assistant":
            return [self._assistant(message.parts, name)]
        messages: list[ChatMessage] = []
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                error = ToolCallError("unknown", part.text) if part.failed else None
                result = ChatMessageTool(
                    content=part.text, tool_call_id=part.call_id, error=error, id=f"{name}-{position}"
                )
                messages.append(result)
        text = "\n\n".join(part.text for part in message.parts if isinstance(part, Text))
        return [*messages, ChatMessageUser(content=text, id=name)] if text or not messages else messages

    def _assistant(self, parts: tuple[Part, ...], name: str) -> ChatMessageAssistant:
        from inspect_ai.model import ChatMessageAssistant, Content, ContentReasoning, ContentText

        content: list[Content] = []
        for part in parts:
            if isinstance(part, Thinking):
                thinking = part.raw.get("thinking")
                content.append(
                    ContentReasoning(reasoning=thinking if isinstance(thinking, str) else "", redacted=not thinking)
                )
            elif isinstance(part, Text):
                content.append(ContentText(text=part.text))
        calls = [
            self._call(part, f"{name}-call-{position}")
            for position, part in enumerate(parts)
            if isinstance(part, ToolCall)
        ]
        return ChatMessageAssistant(content=content, tool_calls=calls or None, id=name)

    def _call(self, call: ToolCall, fallback: str) -> Any:
        from inspect_ai.tool import ToolCall as TheirCall

        return TheirCall(
            id=call.id or fallback, function=call.name, arguments=arguments(call),
            parse_error=None if call.malformed is None else "the arguments are not a JSON object",
        )  # fmt: skip

    def tools(self, tools: tuple[ToolSpec, ...]) -> list[ToolInfo]:
        from inspect_ai.tool import ToolInfo, ToolParams
        from pydantic import ValidationError

        if tools not in self._tools:
            infos = []
            for tool in tools:
                try:
                    parameters = ToolParams.model_validate(tool.parameters)
                except ValidationError:  # another agent's tool, with a schema that Inspect cannot represent
                    parameters = ToolParams()
                infos.append(ToolInfo(name=tool.name, description=tool.description, parameters=parameters))
            self._tools[tools] = infos
        return self._tools[tools]

    def output(self, event: ModelReplied, model: str, usd: float | None, seconds: float) -> ModelOutput:
        from inspect_ai.model import ChatCompletionChoice, ModelOutput

        self._replies += 1
        message = self._assistant(event.parts, f"reply-{self._replies}")
        message.source = "generate"
        choice = ChatCompletionChoice(message=message, stop_reason=_STOPS[event.stop])
        return ModelOutput(model=model, choices=[choice], usage=self.usage(event.usage, usd), time=seconds)

    def usage(self, usage: Usage, usd: float | None) -> ModelUsage:
        from inspect_ai.model import ModelUsage

        return ModelUsage(
            input_tokens=usage.uncached, output_tokens=usage.output, total_tokens=usage.total,
            input_tokens_cache_read=usage.cache_read, total_cost=usd,
            input_tokens_cache_write=usage.cache_write_5m + usage.cache_write_1h,
        )  # fmt: skip

    def called(self, piece: CallSlice, when: dict[str, Any]) -> ToolEvent:
        from inspect_ai.event import ToolEvent
        from inspect_ai.tool import ToolCallError

        popped = next((fact.result for fact in piece.facts if isinstance(fact, FramePopped)), "")
        text = piece.result.text if piece.result is not None else popped
        failed = piece.result is not None and piece.result.failed
        refused = next((fact.code for fact in piece.facts if isinstance(fact, CallRejected)), "")
        return ToolEvent(
            id=piece.id, span_id=piece.frame.id, function=piece.call.name, arguments=arguments(piece.call),
            result=text, error=ToolCallError("approval" if refused else "unknown", text) if failed else None,
            failed=failed or None, agent_span_id=piece.opened or None,
            metadata={"step": piece.step, "refused": refused, "answered": piece.result is not None},
            working_time=piece.ended - piece.started, **when,
        )  # fmt: skip

    def store(self, frame: str, before: Heap, after: Heap, when: dict[str, Any]) -> StoreEvent:
        """Return the changes of the heap as changes of the sample's store."""
        from inspect_ai.event import StoreEvent

        changes: list[dict[str, str]] = []
        for name in {**before.chunks, **after.chunks}:
            old, new = before.chunks.get(name), after.chunks.get(name)
            path = f"/heap/{name.replace('~', '~0').replace('/', '~1')}"
            if new is None:
                changes.append({"op": "remove", "path": path})
            elif old is None or old.content != new.content:
                changes.append({"op": "replace" if old else "add", "path": path, "value": new.content})
        return StoreEvent.model_validate({"span_id": frame, "changes": changes, **when})

    def scores(self, state: State) -> dict[str, Score] | None:
        from inspect_ai.scorer import Score

        if state.checks is None:
            return None
        solved = Score(
            value="C" if state.solved else "I", answer=state.result,
            explanation=state.checks.error or state.checks.text, metadata={"rewards": state.checks.rewards},
        )  # fmt: skip
        return {"checks": solved}
