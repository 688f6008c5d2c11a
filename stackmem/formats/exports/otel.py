"""OpenTelemetry spans in the generative AI conventions: frames, model calls, tool calls, and memory.

Ids are digests of what a span describes, so exporting a run twice gives the same spans. Content is included only on
request, and without repeating it in every prompt.

Source: semantic-conventions-genai, schema 1.42.0, stability "development".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stackmem.core import facts
from stackmem.core.messages import Text, ToolCall
from stackmem.review.measure.moments import Moment
from stackmem.trace.record import Record

from .otlp import CLIENT, INTERNAL, Json, Value, event, request, span
from .slices import AttemptSlice, CallSlice, FrameSlice, slices, walk
from .spelling import arguments, compact, mendings_of, model_of, opening_text, prompt_text, provider, view_of
from .stated import StatedRun

SPANS_PER_REQUEST = 1_000
_FINISH = {"call": "tool_call", "end": "stop", "truncated": "length", "refused": "content_filter"}


def otel(records: Iterable[Record], run: str) -> Iterator[str]:
    """Yield lines of OTLP JSON without content, each a complete request of at most 1,000 spans.

    Raise TraceError if a record is broken.
    """
    return (compact(each) + "\n" for each in requests(records, run))


def otel_with_content(records: Iterable[Record], run: str) -> Iterator[str]:
    """Yield the same as ``otel``, with first prompts, replies, arguments and results.

    Raise TraceError if a record is broken, or the run's strategy is not installed.
    """
    return (compact(each) + "\n" for each in requests(records, run, content=True))


def requests(records: Iterable[Record], run: str, *, content: bool = False) -> Iterator[Json]:
    """Yield the requests as values, each an ``ExportTraceServiceRequest``."""
    batch: list[Json] = []
    for each in _Spans(run, content).all(records):
        batch.append(each)
        if len(batch) == SPANS_PER_REQUEST:
            yield request(run, batch)
            batch = []
    if batch:
        yield request(run, batch)


def spans(records: Iterable[Record], run: str) -> Iterator[Json]:
    """Yield each span without content, as soon as its end is known."""
    return _Spans(run, content=False).all(records)


class _Spans:
    def __init__(self, run: str, content: bool) -> None:
        self._run = run
        self._content = content
        self._openings: dict[str, tuple[str, str]] = {}
        self._verdicts: list[Json] = []
        self._statements = StatedRun(())

    def all(self, records: Iterable[Record]) -> Iterator[Json]:
        self._statements = StatedRun(records)
        for piece in slices(self._with_openings(records)):
            match piece:
                case AttemptSlice():
                    yield self._chat(piece)
                case CallSlice():
                    yield self._tool(piece)
                    yield from self._memory(piece)
                case FrameSlice():
                    yield self._agent(piece)
                case Moment():
                    yield from self._moment(piece)

    def _with_openings(self, records: Iterable[Record]) -> Iterator[Moment]:
        for moment in walk(records):
            if self._content and len(moment.after.stack) > len(moment.before.stack):
                view = view_of(moment.after)
                self._openings[moment.after.running.id] = (view.system, opening_text(view))
            yield moment

    def _agent(self, piece: FrameSlice) -> Json:
        frame = piece.frame
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider(piece.start.model),
            "gen_ai.agent.id": f"{self._run}/{frame.id}",
            "gen_ai.agent.name": frame.name,
            "gen_ai.agent.version": piece.start.version,
            "gen_ai.conversation.id": self._run,
            "gen_ai.request.model": piece.start.model,
            "stackmem.frame.id": frame.id,
            "stackmem.frame.depth": frame.depth,
            "stackmem.frame.name": frame.name,
            "stackmem.strategy": self._statements.strategy(piece.start),
        }
        if self._content and frame.id in self._openings:
            system, opening = self._openings[frame.id]
            attributes["gen_ai.system_instructions"] = compact([{"type": "text", "content": system}])
            attributes["gen_ai.input.messages"] = compact([_user_message(opening)])
        error = ""
        if piece.popped is None:
            attributes["stackmem.frame.ending"] = "open"
        else:
            attributes["stackmem.frame.ending"] = error = piece.popped.forced
            attributes["stackmem.frame.verified"] = piece.popped.verified
            if not error:
                attributes["stackmem.frame.ending"] = "popped"
        return span(
            self._run, f"frame/{frame.id}", f"invoke_agent {frame.name}", INTERNAL, piece.started, piece.ended,
            parent=f"call/{piece.push.step}/{piece.push.position}" if piece.push else "",
            attributes=attributes, error=error, events=[] if frame.parent else self._verdicts,
        )  # fmt: skip

    def _chat(self, piece: AttemptSlice) -> Json:
        moment, model = piece.moment, model_of(piece.event, piece.moment.before)
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider(model),
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": self._run,
            "stackmem.step": piece.step,
            "stackmem.frame.id": moment.frame.id,
            "stackmem.heap.chars": moment.before.heap.chars,
        }
        if changes := mendings_of(piece.event):
            attributes["stackmem.mendings"] = changes if self._content else len(changes)
        error = ""
        match piece.event:
            case facts.ModelReplied() | facts.ContextCompacted() as reply:
                usage = reply.usage
                attributes |= {
                    "gen_ai.response.finish_reasons": [_FINISH.get(reply.stop, reply.stop)],
                    "gen_ai.usage.input_tokens": usage.prompt,
                    "gen_ai.usage.output_tokens": usage.output,
                    "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
                    "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_5m + usage.cache_write_1h,
                    "stackmem.usage.estimated": usage.estimated,
                }
                if reply.reply_id:
                    attributes["gen_ai.response.id"] = reply.reply_id
                if piece.usd is not None:
                    attributes["stackmem.usd"] = piece.usd
                if isinstance(reply, facts.ContextCompacted):
                    attributes["gen_ai.conversation.compacted"] = True
                if self._content and moment.view is not None:
                    attributes["gen_ai.input.messages"] = compact([_user_message(prompt_text(moment.view))])
                if self._content:
                    attributes["gen_ai.output.messages"] = compact([_reply(reply)])
            case facts.ModelFailed() as failure:
                error = failure.kind
                if self._content:
                    attributes["stackmem.failure.detail"] = failure.detail
        return span(
            self._run, f"chat/{moment.seq}", f"chat {model}", CLIENT, moment.since, moment.at,
            parent=f"frame/{moment.frame.id}", attributes=attributes, error=error,
        )  # fmt: skip

    def _tool(self, piece: CallSlice) -> Json:
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": piece.call.name,
            "gen_ai.tool.call.id": piece.id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": self._run,
            "stackmem.step": piece.step,
            "stackmem.frame.id": piece.frame.id,
        }
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = compact(arguments(piece.call))
            if piece.result is not None:
                attributes["gen_ai.tool.call.result"] = piece.result.text
        refused = next((fact.code for fact in piece.facts if isinstance(fact, facts.CallRejected)), "")
        failed = "failed" if piece.result is not None and piece.result.failed else ""
        return span(
            self._run, f"call/{piece.step}/{piece.position}", f"execute_tool {piece.call.name}", INTERNAL,
            piece.started, piece.ended, parent=f"frame/{piece.frame.id}", attributes=attributes,
            error=refused or failed,
        )  # fmt: skip

    def _memory(self, piece: CallSlice) -> Iterator[Json]:
        """Yield a span for each chunk that the call used.

        Each names its chunk, as a span without a name means all chunks.
        """
        under = f"call/{piece.step}/{piece.position}"
        for fact in piece.facts:
            match fact:
                case facts.ChunkAllocated():
                    yield self._chunk("create_memory", fact.name, under, piece.started, piece.ended)
                case facts.ChunkWritten():
                    yield self._chunk("update_memory", fact.name, under, piece.started, piece.ended)
                case facts.ChunkRead():
                    for name in fact.names:
                        yield self._chunk("search_memory", name, under, piece.started, piece.ended)
                case facts.ChunkFreed():
                    yield self._chunk("delete_memory", fact.name, under, piece.started, piece.ended)
                case facts.FramePushed() | facts.FramePopped():
                    for name in fact.stored:
                        yield self._chunk("upsert_memory", name, under, piece.started, piece.started)

    def _chunk(self, operation: str, name: str, under: str, started: float, ended: float) -> Json:
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": operation,
            "gen_ai.memory.store.id": f"{self._run}/heap",
            "gen_ai.memory.record.id": name,
            "gen_ai.memory.record.count": 1,
            "gen_ai.conversation.id": self._run,
        }
        made_of = f"memory/{under}/{operation}/{name}"
        return span(self._run, made_of, operation, INTERNAL, started, ended, parent=under, attributes=attributes)

    def _moment(self, moment: Moment) -> Iterator[Json]:
        """Store the verdict for the root's span, and yield the heap changes of a fork."""
        match moment.event:
            case facts.ChecksReturned() as checks:
                for name, reward in checks.rewards.items():
                    attributes: dict[str, Value] = {
                        "gen_ai.evaluation.name": name,
                        "gen_ai.evaluation.score.value": reward,
                    }
                    self._verdicts.append(event("gen_ai.evaluation.result", moment.at, attributes))
            case facts.RunForked() as fork:
                under = f"frame/{moment.frame.id}"
                for name in fork.dropped:
                    yield self._chunk("delete_memory", name, under, moment.at, moment.at)
                for chunk in fork.chunks:
                    yield self._chunk("upsert_memory", chunk.name, under, moment.at, moment.at)


def _user_message(text: str) -> Json:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def _reply(reply: facts.ModelReplied | facts.ContextCompacted) -> Json:
    parts: list[Json] = []
    for part in reply.parts if isinstance(reply, facts.ModelReplied) else (Text(reply.text),):
        if isinstance(part, Text):
            parts.append({"type": "text", "content": part.text})
        elif isinstance(part, ToolCall):
            parts.append({"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments(part)})
    return {"role": "assistant", "parts": parts, "finish_reason": _FINISH.get(reply.stop, reply.stop)}
