"""A run as rows: one for each step, with everything that a table, a chart or an export of steps shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from stackmem.core import facts, program_facts
from stackmem.core.messages import ToolCall, Usage
from stackmem.core.person_facts import TurnEnded
from stackmem.core.pricing import reply_usd
from stackmem.core.program_facts import UserAnswered
from stackmem.core.state import Notice, Result

from .moments import Moment

Outcome = Literal["ok", "failed", "refused", "nudged", "pushed", "popped", "forced", "open"]

CHARS_PER_TOKEN = 2.5
_MAIN_ARGUMENTS = ("name", "path", "command", "result")
_ABOUT_CHARS = 400


class TimelineStep(Struct, frozen=True):
    """One reply of the model and its outcome."""

    step: int  # from 1
    record: int  # number of the reply's record, over the whole history
    at: float  # when the reply was complete, in seconds since 1970
    frame: str  # id of its frame; ``name`` and ``depth`` are that frame's
    name: str
    depth: int
    tool: str  # of its first call; empty if it has none
    # The call's name, path, command or result, whichever it has first; in a program, the first step that the reply led
    # to. At most 400 characters of untrusted text.
    about: str
    calls: int  # number of its calls
    attempts: int  # requests made for it, including failed ones and those for a summary before it
    context_tokens: int  # reported prompt tokens, or an estimate
    # An estimate of the prompt if no text had ever been left out: the first prompt, plus the tokens of every reply and
    # the characters / 2.5 of every result since then.
    history_tokens: int
    # usage, usd: tokens and cost of the reply and of the summaries before it; the cost is None if the price is unknown
    usage: Usage
    usd: float | None
    # ``failed`` is a failure of a tool (in a program, of all its tools, or its halt), ``refused`` one of the machine,
    # ``nudged`` a reply without a usable call, ``forced`` a frame popped by the harness, ``open`` a reply whose calls
    # were not answered
    outcome: Outcome
    detail: str  # exit code, code of the refusal or the nudge, id of the pushed frame, or why a pop was forced
    result_chars: int  # of the answer that the model reads
    # heap_chars, heap_chunks: after the step
    heap_chars: int
    heap_chunks: int
    model_seconds: float  # waiting for the reply, including summaries and failed attempts
    tools_seconds: float  # commands, files, verify, checks
    harness_seconds: float  # everything else
    compactions: int = 0  # number of summaries of the conversation that were written before it


def timeline(run: Iterable[Moment]) -> Iterator[TimelineStep]:
    """Yield the steps of a run, each as soon as the next step's first request is answered."""
    history = 0
    for part in _by_step(run):
        step = _step(part, history)
        if step is None:
            continue
        reply_tokens = sum(moment.event.usage.output for moment in part if isinstance(moment.event, facts.ModelReplied))
        grown = reply_tokens + int(step.result_chars / CHARS_PER_TOKEN)
        history = step.history_tokens + grown
        yield step


def _by_step(run: Iterable[Moment]) -> Iterator[list[Moment]]:
    """Yield the moments of each step together, starting with the failed attempts at its reply."""
    part: list[Moment] = []
    replied = False
    for moment in run:
        if replied and isinstance(moment.event, facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted):
            yield part
            part, replied = [], False
        part.append(moment)
        replied = replied or isinstance(moment.event, facts.ModelReplied)
    if part:
        yield part


def _step(part: list[Moment], history: int) -> TimelineStep | None:
    """Return the row for the moments of one step, or None if they contain no reply."""
    for index, moment in enumerate(part):
        if isinstance(moment.event, facts.ModelReplied):
            return _row(part, index, moment.event, history)
    return None


def _row(part: list[Moment], index: int, reply: facts.ModelReplied, history: int) -> TimelineStep:
    reply_moment, last = part[index], part[-1].after
    summaries = [moment.event for moment in part if isinstance(moment.event, facts.ContextCompacted)]
    usage = sum((summary.usage for summary in summaries), reply.usage)
    frame, price = reply_moment.before.running, reply_moment.before.begun.price
    paid: list[facts.ModelReplied | facts.ContextCompacted] = [reply, *summaries]
    costs = [reply_usd(item.usage, price, item.answerer) for item in paid]
    calls = [item for item in reply.parts if isinstance(item, ToolCall)]
    outcome, detail = _outcome(part[index + 1 :])
    context = reply.usage.prompt or frame.context_tokens
    seconds = dict.fromkeys(("model", "tools", "harness", "away"), 0.0)
    for moment in part:
        seconds[moment.spender] += moment.seconds
    return TimelineStep(
        step=reply_moment.after.step,
        record=reply_moment.seq,
        at=reply_moment.at,
        frame=frame.id,
        name=frame.name,
        depth=frame.depth,
        tool=calls[0].name if calls else "",
        about=_main_argument(calls[0]) if calls else _entered(part[index + 1 :]),
        calls=len(calls),
        attempts=sum(
            isinstance(moment.event, facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted) for moment in part
        ),
        context_tokens=context,
        history_tokens=history or context,
        usage=usage,
        usd=None if None in costs else sum(usd or 0.0 for usd in costs),
        outcome=outcome,
        detail=detail,
        result_chars=sum(map(_added_chars, part)),
        heap_chars=last.heap.chars,
        heap_chunks=len(last.heap.chunks),
        model_seconds=round(seconds["model"], 3),
        tools_seconds=round(seconds["tools"], 3),
        harness_seconds=round(seconds["harness"], 3),
        compactions=len(summaries),
    )


def _outcome(part: list[Moment]) -> tuple[Outcome, str]:
    outcome: tuple[Outcome, str] = ("open", "")
    for moment in part:
        match moment.event:
            case facts.ToolReturned(failed=failed, exit_code=code):
                outcome = ("failed" if failed else "ok", "" if code is None else f"exit {code}")
            case (
                facts.ChunkAllocated()
                | facts.ChunkRead()
                | facts.ChunkWritten()
                | facts.ChunkFreed()
                | facts.CallAnswered()
            ):
                outcome = ("ok", "")
            case facts.FramePushed(frame=frame):
                outcome = ("pushed", frame)
            case facts.CallRejected(code=code):
                outcome = ("refused", code)
            case facts.ReplyNudged(code=code):
                outcome = ("nudged", code)
            case facts.FramePopped(forced="", verified=verified):
                outcome = ("popped", verified)
            case facts.FramePopped(forced=forced):
                outcome = ("forced", forced)
            case TurnEnded(forced=forced):
                outcome = ("forced", forced) if forced else ("popped", "")
            case UserAnswered() if outcome == ("open", ""):
                outcome = ("ok", "")
            case facts.RunEnded() if outcome == ("open", ""):
                outcome = ("open", moment.event.ending)
            case _:
                outcome = _program_outcome(moment.event, outcome)
    return outcome


def _program_outcome(event: facts.Event, outcome: tuple[Outcome, str]) -> tuple[Outcome, str]:
    """Return the outcome of a step after a fact of a program. One successful tool is enough for success."""
    match event:
        case program_facts.ToolAnswered(failed=""):
            return "ok", outcome[1] if outcome[0] == "ok" else ""
        case program_facts.ToolAnswered(failed=failure) if outcome[0] != "ok":
            return "failed", failure
        case program_facts.StepFailed(reason=reason):
            return "failed" if outcome[0] == "open" else outcome[0], outcome[1] or reason[:_ABOUT_CHARS]
        case program_facts.ProgramHalted(kind=kind):
            return "failed", kind
        case program_facts.StepLeft() | program_facts.UserAnswered() | program_facts.ProgramReturned() if outcome == (
            "open",
            "",
        ):
            return "ok", ""
        case _:
            return outcome


def _added_chars(moment: Moment) -> int:
    """Return the characters that the moment added for the frame that runs after it."""
    depth = len(moment.after.stack)
    if depth == 0 or depth > len(moment.before.stack):
        return 0
    return sum(len(turn.text) for turn in moment.new_turns if isinstance(turn, Result | Notice))


def _entered(part: list[Moment]) -> str:
    """Return the first step of a program among these moments."""
    entered = (moment.event for moment in part if isinstance(moment.event, program_facts.StepEntered))
    return next((step.call or step.path for step in entered), "")[:_ABOUT_CHARS]


def _main_argument(call: ToolCall) -> str:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    value = next((arguments[key] for key in _MAIN_ARGUMENTS if key in arguments), "")
    return str(value)[:_ABOUT_CHARS]
