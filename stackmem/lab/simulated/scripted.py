"""A model that answers from a script: for tests, demos and benchmarks.

It keeps no state between calls. The request's count of model events selects the entry, so a run that is resumed in
another process continues at the right place.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never

from msgspec import json
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied, Stop
from stackmem.core.messages import (
    FailureKind,
    Message,
    Part,
    ReplyPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    View,
)
from stackmem.core.requests import AskModel

from .script_language import Expectation, Fault, PlannedCall, Script, ScriptedReply, read_script

CHARS_PER_TOKEN = 2.5

_DEFAULT_CALL = PlannedCall("list_files", {})
_EXCERPT_CHARS = 80
_JSON = re.compile(r"[{}\[\]]|\"\s*[:,]")
_SPACING = re.compile(r"\s*([{}\[\]:,])\s*")
_LINES_COMPARED = 2_000


class ScriptedModel:
    """Replies with the script's entry number ``request.facts``; a parallel frame has its own entries."""

    def __init__(self, script: Script, sleep: Callable[[float], None] = time.sleep) -> None:
        self._script = script
        self._sleep = sleep

    @classmethod
    def from_file(cls, path: Path) -> ScriptedModel:
        """Open a script file; raises ``UsageError`` like ``read_script``."""
        return cls(read_script(path))

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Return the entry's reply or fault; a ``script`` failure if entries ran out or an expectation failed."""
        replies, number = self._script.replies, request.facts
        if request.parallel:
            replies, number = self._script.frames.get(request.parallel, ()), request.facts - request.facts_before
        if self._script.memory_optional:
            replies = _without_memory(replies, request.view)
        if number >= len(replies):
            return ModelFailed("script", self._ran_dry(request, len(replies), number))
        entry = replies[number]
        if entry.expect is not None:
            unmet = list(_unmet(entry.expect, request))
            if unmet:
                details = "\n".join(unmet)
                return ModelFailed("script", f"{self._location(entry, number)}: expected otherwise\n{details}")
        if entry.latency_seconds:
            self._sleep(entry.latency_seconds)
        return _answer(entry, request)

    def _location(self, entry: ScriptedReply, index: int) -> str:
        path = self._script.path
        return f"{path}:{entry.line}: reply {index + 1}" if entry.line else f"{path}: reply {index + 1}"

    def _ran_dry(self, request: AskModel, has: int, number: int) -> str:
        replies = "reply" if has == 1 else "replies"
        group = f" under frames.{request.parallel}" if request.parallel else ""
        return (
            f"the script {self._script.path} has no reply left: it has {has} {replies}{group}, and this is request "
            f"{number + 1}, in frame {request.frame!r} at depth {request.depth}; add what the model "
            f"answers there, or end the run with pop_frame at depth 0"
        )


def _answer(entry: ScriptedReply, request: AskModel) -> ModelReplied | ModelFailed:
    match entry.fault:
        case "429":
            return _failure(entry, "rate_limited")
        case "529":
            return _failure(entry, "overloaded")
        case "timeout":
            return _failure(entry, "timeout")
        case "disconnect":
            return _failure(entry, "connection")
        case None | "malformed" | "two_calls" | "no_call" | "truncated" | "refusal":
            return _reply(entry, entry.fault, request)
        case _:
            assert_never(entry.fault)


def _failure(entry: ScriptedReply, kind: FailureKind) -> ModelFailed:
    return ModelFailed(kind, f"the script says fault {entry.fault}", entry.retry_after_seconds)


def _reply(entry: ScriptedReply, fault: Fault | None, request: AskModel) -> ModelReplied:
    calls = entry.calls
    if fault in {"malformed", "two_calls"} and not calls:
        calls = (_DEFAULT_CALL,)
    if fault == "two_calls":
        calls = calls * 2
    spoiled = fault in {"malformed", "truncated"}
    parts: list[ReplyPart] = []
    if text := entry.text or _default_text(fault, calls):
        parts.append(Text(text))
    for index, call in enumerate(calls):
        name = f"call_{request.facts}_{index}"
        if spoiled and index == len(calls) - 1:  # the stream ends inside the last call
            parts.append(ToolCall(name, call.tool, None, json.encode(call.args).decode()[:-1]))
        else:
            parts.append(ToolCall(name, call.tool, call.args))
    return ModelReplied(
        parts=tuple(parts),
        stop=_stop(fault, calls),
        usage=entry.usage or _estimate(request.view, parts),
        detail="the script says so" if fault == "refusal" else "",
        reply_id=f"reply_{request.facts}",
    )


def _default_text(fault: Fault | None, calls: tuple[PlannedCall, ...]) -> str:
    if fault == "no_call":
        return "Let me think about this."
    if fault == "truncated" and not calls:
        return "This reply ends in the middle of a sen"
    return ""


def _stop(fault: Fault | None, calls: tuple[PlannedCall, ...]) -> Stop:
    if fault == "truncated":
        return "truncated"
    if fault == "refusal":
        return "refused"
    return "call" if calls else "end"


def _estimate(view: View, parts: list[ReplyPart]) -> Usage:
    fixed = len(view.system) + sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in view.tools)
    # The fold continues where it stopped at the last step, so a long conversation is not counted again.
    prompt = fixed + view.messages.fold(_add_chars, 0)
    return Usage(
        uncached=int(prompt / CHARS_PER_TOKEN),
        output=int(sum(map(_part_chars, parts)) / CHARS_PER_TOKEN),
        estimated=True,
    )


def _add_chars(total: int, message: Message) -> int:
    return total + sum(map(_part_chars, message.parts))


def _part_chars(part: Part) -> int:
    return len(_part_text(part))


def _part_text(part: Part) -> str:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return text
        case ToolCall():
            return f"{part.name} {part.malformed or json.encode(part.arguments).decode()}"
        case Thinking():
            return json.encode(part.raw).decode()
        case _:
            assert_never(part)


def _without_memory(replies: tuple[ScriptedReply, ...], view: View) -> tuple[ScriptedReply, ...]:
    """Return the entries that make sense without frames or heap, or all of them if both are offered.

    A fork to such a strategy shows memory calls that were made before, so its next entry is that of the whole script.
    Expectations are left out too, because they are about prompts with frames and heap.
    """
    offered = {tool.name for tool in view.tools}
    used = {call.tool for entry in replies for call in entry.calls}
    if used <= offered or _shows_calls(view, used - offered):
        return replies
    entries, depth = list[ScriptedReply](), 0
    for entry in replies:
        tools = {call.tool for call in entry.calls}
        if "push_frame" in tools:
            depth += 1
        ends_frame = depth > 0 and "pop_frame" in tools
        if tools <= offered and not (ends_frame and "push_frame" not in offered):
            entries.append(replace(entry, expect=None))
        depth -= ends_frame
    return tuple(entries)


def _shows_calls(view: View, tools: set[str]) -> bool:
    return any(isinstance(part, ToolCall) and part.name in tools for message in view.messages for part in message.parts)


def _unmet(expect: Expectation, request: AskModel) -> Iterator[str]:
    """Yield a sentence for each unmet expectation, with the actual value."""
    if expect.depth is not None and expect.depth != request.depth:
        yield f"depth: expected {expect.depth}, is {request.depth} in frame {request.frame!r}"
    if expect.frame is not None and expect.frame != request.frame:
        yield f"frame: expected {expect.frame!r}, is {request.frame!r} at depth {request.depth}"
    for name in expect.heap_has:
        if name not in request.chunks:
            yield f"heap_has: no chunk {name!r}; the heap has {', '.join(request.chunks) or 'nothing'}"
    if not expect.contains and not expect.absent:
        return
    prompt = _prompt_text(request.view)
    for text in expect.contains:
        if not _holds(prompt, text):
            yield f"contains: the prompt has no {_clipped(text)!r}{_closest(text, prompt)}"
    for text in expect.absent:
        if _holds(prompt, text):
            yield f"absent: the prompt has {_clipped(text)!r}\n{_around(text, prompt)}"


def _holds(prompt: str, text: str) -> bool:
    """Return whether the prompt contains the text; JSON is compared without spacing."""
    return text in prompt or (_JSON.search(text) is not None and _tight(text) in _tight(prompt))


def _tight(text: str) -> str:
    return _SPACING.sub(r"\1", text)


def _prompt_text(view: View) -> str:
    """Return the system prompt and the conversation, with tool calls as name and JSON arguments."""
    parts = [_part_text(part) for message in view.messages for part in message.parts]
    return "\n".join([view.system, *parts])


def _closest(text: str, prompt: str) -> str:
    """Return a diff between the text's first line and the most similar line of the prompt."""
    first_line = text.strip().split("\n", 1)[0][:500]
    lines = [line.strip()[:500] for line in prompt.splitlines()[-_LINES_COMPARED:] if line.strip()]
    matches = difflib.get_close_matches(first_line, lines, n=1, cutoff=0.3)
    if not matches:
        return ""
    return "\n" + "\n".join(line.rstrip("\n") for line in difflib.ndiff([first_line], [matches[0]]))


def _around(text: str, prompt: str) -> str:
    if text not in prompt:  # JSON with different spacing
        text, prompt = _tight(text), _tight(prompt)
    at = prompt.index(text)
    before = prompt[max(0, at - _EXCERPT_CHARS) : at]
    after = prompt[at + len(text) : at + len(text) + _EXCERPT_CHARS]
    excerpt = f"…{before}>>>{_clipped(text)}<<<{after}…"
    return "\n".join(f"  {line}" for line in excerpt.splitlines())


def _clipped(text: str) -> str:
    return text if len(text) <= 2 * _EXCERPT_CHARS else f"{text[: 2 * _EXCERPT_CHARS]}…"
