"""Checkpoints before a push and a pop: what the frame discovered and neither stored nor named.

Rule 1: The first attempt of a push or pop is answered with the list, and nothing else happens. The second attempt
    passes, whatever it contains. A push or pop that leaves out nothing passes immediately.
Rule 2: The list follows only from the frame's recorded turns, the heap and the call. The answer
    to a later push does not repeat the discoveries of an earlier answer.
Rule 3: Only a push or pop that hands something over is answered. A root whose heap ends with it, a frame of a program,
    a frame that must close, and a run with few steps left are not held up.

This applies only if the run's start says so (``RunStarted.checkpoints``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from stackmem.core.conversation.standing import active
from stackmem.core.facts import Checkpoint
from stackmem.core.heap import Heap
from stackmem.core.limits import closing_refusal
from stackmem.core.messages import ToolCall
from stackmem.core.state import Frame, Reply, Result, State
from stackmem.core.text import mark_cut
from stackmem.core.tools import (
    Branch,
    PopCall,
    PushFrame,
    ReadFile,
    Refusal,
    RunCommand,
    StartCall,
    tool_name,
    tools_that,
)

CODE = "checkpoint"
HandOver = PushFrame | StartCall | PopCall

_PREFIX = "checkpoint: "  # begins the answers, which do not count as results
_STARTING = tools_that(lambda behavior: behavior.frame == "starts")
_STEPS_KEPT_FREE = 3
_LISTED = 4  # per kind, the newest
_SHOWN_CHARS = 160
_RESULT_CHARS, _RESULT_LINES = 200, 3
_WORD = re.compile(r"[\w./-]{3,}")
_LONG_WORD = re.compile(r"[^\W\d_][\w./-]{4,}")
_COMMON = frozenset({"python", "python3", "bash", "sudo", "echo", "export", "node", "true", "false", "null", "dev"})
_EXITED = re.compile(r"\[exit (\d+)\]\s*\Z")
_HEADS = {
    "command": "a command that worked after others had failed",
    "file": "a file that was read",
    "result": "a result that was computed",
    "rule": "a rule of the user that it touches",
}


class FrameFinding(Struct, frozen=True):
    """Something that a frame discovered."""

    kind: Literal["command", "file", "result", "rule"]
    text: str  # how the model reads it
    # texts of which one must occur in what is handed over. Words separated by blanks may be apart
    mentions: tuple[str, ...]
    turn: int  # position of the turn in which it was found


class _Exchange(Struct, frozen=True):
    call: ToolCall
    answer: Result
    turn: int

    def text(self, argument: str) -> str:
        arguments = self.call.arguments
        value = arguments.get(argument) if isinstance(arguments, Mapping) else None
        return value.strip() if isinstance(value, str) else ""


def answer(state: State, call: HandOver) -> Refusal | None:
    """Return the answer to the first attempt of a push or pop. None if it passes."""
    if not _applies(state, call) or _earlier_attempt(state, call) is not None:
        return None
    missing = left_out(state, call)
    if not missing:
        return None
    tool = tool_name(call)
    reader = "the child" if tool in _STARTING else "a later frame"
    lines = [f"{_PREFIX}{tool} was not made yet. This frame found the following, and {reader} does not learn it:"]
    lines += [f"- {_HEADS[each.kind]}: {each.text}" for each in missing]
    way = "Store or name what is needed there, then call it again. The next attempt passes, changed or not."
    return Refusal(CODE, "\n".join([*lines, way]))


def effect(state: State, call: HandOver) -> Checkpoint | UnsetType:
    """Return whether the answer to the first attempt changed what is handed over. UNSET if there was no answer."""
    first = _earlier_attempt(state, call) if _applies(state, call) else None
    if first is None or state.pending is None:
        return UNSET
    stored = _contents(first.answer.heap) != _contents(state.heap)
    return "improved" if stored or first.call.arguments != state.pending.calls[0].arguments else "unchanged"


def left_out(state: State, call: HandOver) -> tuple[FrameFinding, ...]:
    """Return what the running frame found and what this push or pop neither stores nor names."""
    if isinstance(call, Branch):
        return ()  # it continues this conversation
    exchanges = list(_exchanges(state.running))
    starts = tool_name(call) in _STARTING
    since = max((each.turn for each in exchanges if starts and _is_answer(each, tool_name(call))), default=-1)
    text = _plain("\n".join(_texts(state, call)))
    findings = [*_commands(exchanges), *_files(exchanges), *_results(exchanges)]
    worked = {each.turn for each in findings if each.kind == "command"}
    findings = [each for each in findings if each.kind != "result" or each.turn not in worked]
    findings = [each for each in findings if each.turn > since and not _is_mentioned(each, text)]
    rules = list(_rules(state, call, text)) if starts and since < 0 else []
    return tuple(
        each
        for kind in _HEADS
        for each in [finding for finding in (*findings, *rules) if finding.kind == kind][-_LISTED:]
    )


def _applies(state: State, call: HandOver) -> bool:
    mode, frame = state.begun.checkpoints, state.running
    if mode is UNSET or frame.program:
        return False
    if tool_name(call) in _STARTING:
        if mode == "pops":
            return False
    elif not frame.depth and state.begun.heap is UNSET:
        return False
    steps = state.limits.steps
    return (steps is None or steps - state.step > _STEPS_KEPT_FREE) and closing_refusal(state) is None


def _earlier_attempt(state: State, call: HandOver) -> _Exchange | None:
    """Return the attempt of this push or pop that was answered, or None."""
    tool, frame = tool_name(call), state.running
    returned = {done.frame.call_id for done in state.popped if done.frame.parent == frame.id}
    for each in reversed(list(_exchanges(frame))):
        if each.call.name != tool:
            continue
        if _is_answer(each, tool):
            return each
        if each.call.id in returned:
            return None
    return None


def _is_answer(each: _Exchange, tool: str) -> bool:
    return each.call.name == tool and each.answer.failed and each.answer.text.startswith(_PREFIX)


def _exchanges(frame: Frame) -> Iterator[_Exchange]:
    """Yield the answered calls of a frame, oldest first."""
    calls: dict[str, ToolCall] = {}
    for position, turn in enumerate(frame.turns):
        if isinstance(turn, Reply):
            calls = {part.id: part for part in turn.parts if isinstance(part, ToolCall)}
        elif isinstance(turn, Result) and turn.call_id in calls:
            yield _Exchange(calls[turn.call_id], turn, position)


def _commands(exchanges: list[_Exchange]) -> Iterator[FrameFinding]:
    """Yield the commands that worked after similar ones had failed."""
    failing: list[str] = []
    for each in exchanges:
        if each.call.name != tool_name(RunCommand) or not (command := each.text("command")):
            continue
        if not _worked(each.answer):
            failing.append(command)
            continue
        similar = [other for other in failing if other != command and _telling(other) & _telling(command)]
        if similar and command not in failing:
            text = f"{_short(command)} (failed before: {_short(similar[-1])})"
            yield FrameFinding("command", text, (command, _words(command)), each.turn)
        failing = [other for other in failing if other not in similar]


def _files(exchanges: list[_Exchange]) -> Iterator[FrameFinding]:
    newest: dict[str, FrameFinding] = {}
    for each in exchanges:
        path = each.text("path").removeprefix("./")
        if each.call.name == tool_name(ReadFile) and path and not each.answer.failed:
            newest.pop(path, None)
            newest[path] = FrameFinding("file", _short(path), (path, path.rpartition("/")[2]), each.turn)
    yield from newest.values()


def _results(exchanges: list[_Exchange]) -> Iterator[FrameFinding]:
    """Yield short outputs that contain a number."""
    newest: dict[str, FrameFinding] = {}
    for each in exchanges:
        command = each.text("command")
        if each.call.name != tool_name(RunCommand) or not command or not _worked(each.answer):
            continue
        output = _EXITED.sub("", each.answer.text).strip()
        newest.pop(command, None)
        if output and len(output) <= _RESULT_CHARS and output.count("\n") < _RESULT_LINES and re.search(r"\d", output):
            text = f"{_short(command)} printed {_short(' '.join(output.split()))}"
            newest[command] = FrameFinding("result", text, (output, output.splitlines()[-1], command), each.turn)
    yield from newest.values()


def _rules(state: State, call: HandOver, text: str) -> Iterator[FrameFinding]:
    """Yield the standing words of the user that share a long word with the call and are not named in it."""
    own = _long_words("\n".join(_call_texts(call)))
    for entry in active(state.session.standing if state.session is not None else ()).values():
        if own & _long_words(entry.text):
            finding = FrameFinding(
                "rule", f"R{entry.number}, {_short(entry.text)}", (f"R{entry.number}", entry.text), 0
            )
            if not _is_mentioned(finding, text):
                yield finding


def _texts(state: State, call: HandOver) -> Iterator[str]:
    """Yield the texts that the next frame can see or read: those of the call, and the chunks on the heap."""
    yield from _call_texts(call)
    for chunk in state.heap.chunks.values():
        if not chunk.skill:
            yield from (chunk.name, chunk.description, chunk.source, chunk.content)


def _call_texts(call: HandOver) -> Iterator[str]:
    for name in ("objective", "context", "return_spec", "prompt", "result"):
        yield getattr(call, name, "")
    for entry in getattr(call, "store", ()):
        yield from (entry.name, entry.content, entry.description, entry.source)


def _is_mentioned(finding: FrameFinding, haystack: str) -> bool:
    for text in finding.mentions:
        mention = _plain(text)
        words = mention.split()
        if mention and (
            mention in haystack if finding.kind != "rule" else re.search(rf"\b{re.escape(mention)}\b", haystack)
        ):
            return True
        if finding.kind == "command" and words and all(word in haystack for word in words):
            return True
    return False


def _worked(result: Result) -> bool:
    exited = _EXITED.search(result.text)
    return not result.failed and exited is not None and exited[1] == "0"


def _words(command: str) -> str:
    return " ".join(dict.fromkeys(_WORD.findall(command)))


def _telling(command: str) -> set[str]:
    return {word for word in _WORD.findall(command.casefold()) if not word.startswith("-")} - _COMMON


def _long_words(text: str) -> set[str]:
    return set(_LONG_WORD.findall(text.casefold()))


def _contents(heap: Heap) -> dict[str, str]:
    return {name: chunk.content for name, chunk in heap.chunks.items()}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _short(text: str) -> str:
    return mark_cut(" ".join(text.split()), _SHOWN_CHARS)
