"""Progress lines of a run: one per step, indented by depth. A fold over the run's events."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct

from stackmem.core import facts
from stackmem.core.declarations import VoiceKind
from stackmem.core.messages import ToolCall
from stackmem.core.parallel.facts import FramesMerged, FramesPushed
from stackmem.core.retries import after_failure, wait_seconds
from stackmem.core.state import State

from .text import one_line, spell_cost

_LINES_OF_CHECKS = 10
HIDDEN: frozenset[VoiceKind] = frozenset({"internal", "run", "verdict", "user", "program"})
"""The user knows their own words, programs print their words, and the other kinds are part of other lines."""


class Progress(Struct):
    """Converts events to lines."""

    depth: int = 0  # depth of the frame in which the step began
    step: int = 0  # the current step
    call: str = ""  # its call, shortened to fit a line
    label: str = ""  # the name of a parallel frame, before what it did

    def lines(self, event: facts.Event, state: State) -> list[str]:
        """Return the lines for ``event``, given the state after it."""
        if isinstance(event, FramesPushed | FramesMerged):
            return self._group(event)
        lines, pending = self._lines(event, state), state.pending
        if pending is not None and pending.together:  # each of these calls has a line
            self.call = _calls(pending.calls[:1])
        return lines

    def _lines(self, event: facts.Event, state: State) -> list[str]:
        match event:
            case facts.RunStarted():
                return _beginning(event)
            case facts.ModelReplied() | facts.RunResumed():
                self._begin_step(event, state)
                return []
            case facts.ModelFailed(voice=voice):
                retries = after_failure(state) is None
                wait = f"next wait {wait_seconds(state.failures):g} s" if retries else ""
                return [self._line(f"{voice.line}: {one_line(voice.text)}", wait)]
            case facts.ToolReturned():
                ended = "" if event.exit_code in (None, 0) else f"exit {event.exit_code}"
                last = event.text.strip().rsplit("\n", 1)[-1] if event.failed else ""
                return [self._line(self.call, ended or last)]
            case facts.FramePushed() if event.program is not UNSET:  # pushed by the program, without a call
                self.call, self.depth = "", max(0, state.running.depth - 1)
                indent = f"{'':>4}  {'  ' * self.depth}"
                return [f"{indent}-> {event.frame}", f"{indent}R0 {one_line(event.intent)}"]
            case facts.FramePushed():
                return [
                    self._line(self.call, event.frame),
                    f"{'':>4}  {'  ' * self.depth}  R0 {one_line(event.intent)}",
                ]
            case facts.FramePopped():
                line = f"forced: {event.forced}" if event.forced else event.verified and f"verified: {event.verified}"
                return [self._line(self.call, line)]
            case facts.ContextCompacted(voice=voice):
                return [self._line(voice.line, f"{len(voice.text):,} chars")]
            case (
                facts.ChunkAllocated()
                | facts.ChunkRead()
                | facts.ChunkWritten()
                | facts.ChunkFreed()
                | facts.CallAnswered()
            ):
                return [self._line(self.call, f"{event.chars:,} chars")]
            case facts.CallRejected():
                return [self._line(f"refused {self.call}", event.reason)]
            case facts.ReplyNudged() | facts.NoticeGiven():
                return [self._line("notice", event.text)]
            case facts.ChecksReturned(voice=voice):
                return [one_line(voice.line), *([] if state.solved else _last_lines(voice.text))]
            case facts.RunEnded(voice=voice):
                return [voice.line]
            case _:
                voice = event.voice
                return [] if voice.kind in HIDDEN else [self._line(one_line(voice.line), voice.text)]

    def _group(self, event: FramesPushed | FramesMerged) -> list[str]:
        """Return the lines about parallel frames: what each has to do, or the conflicts between them."""
        indent, call, outcome = f"{'':>4}  {'  ' * self.depth}  ", event.voice.line, ""
        if isinstance(event, FramesPushed):
            call, outcome = self.call, ", ".join(each.frame for each in event.frames)
            more = [f"R0 {one_line(each.name)}: {one_line(each.intent)}" for each in event.frames]
        else:
            more = [one_line(line) for line in event.voice.text.splitlines()]
        return [self._line(call, outcome), *(f"{indent}{line}" for line in more)]

    def _begin_step(self, event: facts.ModelReplied | facts.RunResumed, state: State) -> None:
        self.step = state.step
        if state.stack:
            self.depth = state.running.depth
        if isinstance(event, facts.ModelReplied):
            self.call = _calls([part for part in event.parts if isinstance(part, ToolCall)])
        elif state.pending is not None:  # the stopped process left this call without a result; it is performed next
            self.call = _calls(state.pending.calls)

    def _line(self, action: str, outcome: str) -> str:
        arrow = f" -> {one_line(outcome)}" if outcome else ""
        return f"{self.step:>4}  {'  ' * self.depth}{self.label}{action}{arrow}"


def status(state: State, width: int | None = None) -> str:
    """Return the run's status in one line. Parts that do not fit ``width`` are left out, the least important first."""
    start = state.begun
    judged = state.end is None or state.checks is not None or not start.checked
    stack = " > ".join(frame.name for frame in state.stack) or ("done" if judged else "done, running checks")
    usage = f"{state.usage.total:,} tokens" + (" (estimated)" if state.usage.estimated else "")
    cost = spell_cost(state.cost_usd, state.usage.total)
    context = f"{state.running.context_tokens:,} of {state.window_tokens:,}" if state.stack else "-"
    heap = f"{state.heap.chars:,} of {start.budgets.heap_chars:,} chars in {len(state.heap.chunks)}"
    parts = [stack, f"step {state.step}", f"context {context}", usage, cost, f"heap {heap}"]
    for part in (parts[5], parts[3], parts[2], parts[4]):
        if width is None or len(" | ".join(parts)) <= width:
            break
        parts.remove(part)
    return " | ".join(parts)


def _beginning(start: facts.RunStarted) -> list[str]:
    listed = "" if start.allowed is UNSET else f" of {len(start.allowed)}"
    lines = [
        f"task {one_line(start.task_name)} | model {one_line(start.model)} | strategy {start.strategy} | "
        f"isolation {start.isolation} | network {start.network}{listed}"
    ]
    if start.window_source is not UNSET:
        price = one_line(start.price.source) if start.price else "unknown"
        lines.append(f"window {start.window_tokens:,} tokens ({one_line(start.window_source)}) | price: {price}")
    if start.unseen is not UNSET:
        lines += [f"note: {one_line(note)}" for note in start.unseen]
    return lines


def _calls(calls: Sequence[ToolCall]) -> str:
    return "; ".join(_call(call) for call in calls) or "no call"


def _call(call: ToolCall) -> str:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    name = next((str(arguments[key]) for key in ("name", "path", "command", "result") if key in arguments), "")
    return f"{one_line(call.name)} {one_line(name)}".strip()


def _last_lines(text: str) -> list[str]:
    """Return the last lines printed by the checks, which show why they failed."""
    return [f"      {one_line(line)}" for line in text.rstrip().splitlines()[-_LINES_OF_CHECKS:]]
