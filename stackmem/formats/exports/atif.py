"""ATIF 1.8, the trajectory format of Harbor. The root frame is the trajectory, and each child is a subagent.

Source: Harbor's models of the format (``harbor/models/trajectories``), autumn 2026.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import asdict

from stackmem.core import facts
from stackmem.core.messages import ToolCall, Usage
from stackmem.core.parallel.facts import FrameReturned
from stackmem.core.state import Notice, State
from stackmem.review.measure.moments import Moment
from stackmem.trace.record import Record

from .slices import HIDDEN, AttemptSlice, CallSlice, FrameSlice, call_ids, new_texts, write_slices
from .spelling import (
    arguments,
    compact,
    function,
    mended_about,
    model_of,
    opening_text,
    prompt_text,
    reply_text,
    stamp,
    thinking_text,
    view_of,
)
from .stated import StatedRun

Json = dict[str, Any]


def atif(records: Iterable[Record], run: str) -> Iterator[str]:
    """Yield the whole trajectory as one JSON object.

    Raise TraceError if a record is broken, or the run's strategy is not installed.
    """
    book = _Trajectories(run, StatedRun(records))
    write_slices(records, book)
    yield compact(book.finished()) + "\n"


class _Trajectories:
    """The trajectories by frame id."""

    def __init__(self, run: str, statements: StatedRun) -> None:
        self._statements = statements
        self._state = State()
        self._run = run
        self._trajectories: dict[str, Json] = {}
        self._replies: dict[int, Json] = {}

    def noted(self, moment: Moment) -> None:
        """Start the trajectory of a frame before its first reply is added."""
        if len(moment.after.stack) > len(moment.before.stack):
            self._opened(moment)
        self._state = moment.after

    def _opened(self, moment: Moment) -> None:
        """Start the trajectory of a frame with the content of its first prompt."""
        state = moment.after
        frame, start = state.running, state.begun
        view = view_of(state)
        agent: Json = {"name": "stackmem", "version": start.version, "model_name": start.model}
        agent["tool_definitions"] = [function(tool) for tool in start.tools]
        agent["extra"] = {"strategy": self._statements.strategy(start), "isolation": start.isolation}
        frame_info = {"frame": frame.id, "name": frame.name, "depth": frame.depth, "registers": asdict(frame.registers)}
        trajectory: Json = {
            "schema_version": "ATIF-v1.8",
            "session_id": self._run,
            "trajectory_id": frame.id,
            "agent": agent,
            "steps": [],
            "extra": {"stackmem": frame_info},
        }
        self._trajectories[frame.id] = trajectory
        if view.system:
            self._add(frame.id, "system", view.system, moment.at)
        memory = asdict(frame.registers) | {"heap": list(frame.opened.chunks)}
        self._add(frame.id, "user", opening_text(view), moment.at, {"registers": memory})
        if frame.parent:
            self._trajectories[frame.parent].setdefault("subagent_trajectories", []).append(trajectory)

    def _add(self, frame: str, source: str, message: str, at: float, metadata: Json | None = None) -> Json:
        steps = self._trajectories[frame]["steps"]
        step: Json = {"step_id": len(steps) + 1, "timestamp": stamp(at), "source": source, "message": message}
        if metadata:
            step["extra"] = {"stackmem": metadata}
        steps.append(step)
        return step

    def attempt(self, piece: AttemptSlice) -> None:
        moment, event = piece.moment, piece.event
        if isinstance(event, facts.ContextCompacted):
            self._compacted(piece, event)
            return
        if isinstance(event, facts.ModelFailed):
            failed = {"seq": moment.seq, "failure": event.kind} | mended_about(event)
            self._add(moment.frame.id, "system", f"The provider failed: {event.detail}", moment.at, failed)
            return
        if moment.view is not None:
            if moment.view.system:
                self._add(moment.frame.id, "system", moment.view.system, moment.since)
            self._add(moment.frame.id, "user", prompt_text(moment.view), moment.since)
        metadata = {"step": piece.step, "seq": moment.seq, "stop": event.stop} | mended_about(event)
        step = self._add(moment.frame.id, "agent", reply_text(event.parts), moment.at, metadata)
        step["model_name"] = model_of(event, moment.before)
        step["llm_call_count"] = 1
        if thinking := thinking_text(event.parts):
            step["reasoning_content"] = thinking
        calls = [part for part in event.parts if isinstance(part, ToolCall)]
        if calls:
            step["tool_calls"] = [_call(name, call) for name, call in zip(call_ids(calls), calls, strict=True)]
        step["metrics"] = _metrics(event.usage, piece.usd)
        self._replies[piece.step] = step

    def _compacted(self, piece: AttemptSlice, event: facts.ContextCompacted) -> None:
        """Add the boundary at which a summary replaced earlier steps. The summary is in its observation."""
        metadata: Json = {"seq": piece.moment.seq, "up_to_step": event.up_to_step}
        metadata |= {"stop": event.stop, "metrics": _metrics(event.usage, piece.usd)}
        message = f"The conversation up to step {event.up_to_step} was replaced by a summary."
        step = self._add(piece.moment.frame.id, "system", message, piece.moment.at, metadata)
        step["observation"] = {"results": [{"content": event.text}]}
        step["extra"]["context_management"] = {"type": "compaction", "boundary": "replace"}

    def call(self, piece: CallSlice) -> None:
        """Add a call's result to the step that made it."""
        result: Json = {"source_call_id": piece.id}
        popped = next((fact for fact in piece.facts if isinstance(fact, facts.FramePopped)), None)
        if piece.result is not None:
            result["content"] = piece.result.text
        elif popped is not None:
            result["content"] = popped.result
        metadata: Json = {"failed": piece.result.failed} if piece.result is not None else {}
        refused = next((fact.code for fact in piece.facts if isinstance(fact, facts.CallRejected)), "")
        if refused:
            metadata["refused"] = refused
        if metadata:
            result["extra"] = {"stackmem": metadata}
        opened = [{"trajectory_id": piece.opened, "session_id": self._run}] if piece.opened else []
        # each parallel frame has its trajectory in the export of that frame's run
        returned = [fact for fact in piece.facts if isinstance(fact, FrameReturned)]
        opened += [{"trajectory_id": each.frame, "session_id": each.run} for each in returned]
        if opened:
            result["subagent_trajectory_ref"] = opened
        if "content" in result or opened:
            step = self._replies[piece.step]
            step.setdefault("observation", {"results": []})["results"].append(result)

    def scope(self, piece: FrameSlice) -> None:
        extra = self._trajectories[piece.frame.id]["extra"]["stackmem"]
        extra["ended"] = "popped" if piece.popped else "open"
        if piece.popped is not None:
            extra |= {"forced": piece.popped.forced, "verified": piece.popped.verified}
            if piece.popped.forced:
                message = f"The harness popped this frame ({piece.popped.forced}); its last words were its result."
                self._add(piece.frame.id, "system", message, piece.ended)

    def moment(self, piece: Moment) -> None:
        """Add notices of the harness to the model, and the points at which the run was resumed or forked."""
        event, frame = piece.event, piece.frame.id
        if isinstance(event, facts.NoticeGiven | facts.ReplyNudged):
            source = "user" if event.code == "imported:user" else "system"
            for turn in new_texts(piece):
                if isinstance(turn, Notice):
                    self._add(frame, source, turn.text, piece.at, {"seq": piece.seq, "code": event.code})
        elif isinstance(event, facts.RunResumed):
            self._add(frame, "system", "The run was resumed.", piece.at, {"seq": piece.seq})
        elif isinstance(event, facts.RunForked):
            metadata = {"seq": piece.seq, "parent": event.parent, "at": event.at, "strategy": event.start.strategy}
            message = f"The run was forked from {event.parent} at record {event.at}."
            self._add(frame, "system", message, piece.at, metadata)
        elif event.voice.kind not in HIDDEN:
            text = f"{event.voice.line}\n{event.voice.text}".strip()
            self._add(frame, "system", text, piece.at, {"seq": piece.seq})

    def finished(self) -> Json:
        """Return the root's trajectory with the run's totals.

        The total_steps cover all trajectories, like the token totals.
        """
        root = self._trajectories["frame-0"]
        state, usage = self._state, self._state.usage
        totals: Json = {"total_prompt_tokens": usage.prompt, "total_completion_tokens": usage.output}
        totals["total_cached_tokens"] = usage.cache_read
        if (usd := self._statements.usd(state)) is not None:
            totals["total_cost_usd"] = round(usd, 6)
        totals["total_steps"] = sum(len(trajectory["steps"]) for trajectory in self._trajectories.values())
        totals["extra"] = {"replies": state.step, "outcome": state.outcome}
        if state.end is not None:
            totals["extra"]["ending"] = state.end.ending
        if state.checks is not None:
            totals["extra"] |= {"rewards": state.checks.rewards, "checks_error": state.checks.error}
        notes = "total_steps and the other totals count the subagents' steps too; frames are subagents."
        return {**root, "notes": notes, "final_metrics": totals}


def _call(name: str, call: ToolCall) -> Json:
    call_arguments = arguments(call)
    result: Json = {"tool_call_id": name, "function_name": call.name, "arguments": call_arguments}
    content = call_arguments.get("content")
    if call.name in ("heap_alloc", "heap_write") and isinstance(content, str):
        result["extra"] = {"stackmem": {"content_sha256": hashlib.sha256(content.encode()).hexdigest()}}
    return result


def _metrics(usage: Usage, usd: float | None) -> Json:
    metrics: Json = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
        "extra": {
            "cache_write_5m_tokens": usage.cache_write_5m,
            "cache_write_1h_tokens": usage.cache_write_1h,
            "estimated": usage.estimated,
        },
    }
    return metrics if usd is None else {**metrics, "cost_usd": round(usd, 6)}
