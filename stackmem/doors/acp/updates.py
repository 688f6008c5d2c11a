"""Converts events of a conversation to editor updates, as a pure function of an event and its states.

A call is announced when the model requests it, becomes ``in_progress`` once it is allowed, and ends with its
result. Paths are those of the user's folder; paths outside it are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from stackmem.cli.screen.frames import FrameLine, FrameStatus
from stackmem.core import facts
from stackmem.core.conversation import keeping
from stackmem.core.declarations import VoiceKind
from stackmem.core.frames import last_words
from stackmem.core.messages import Text, ToolCall
from stackmem.core.network import WebFetch, WebSearch
from stackmem.core.parallel.facts import FrameReturned
from stackmem.core.person_facts import PersonAttached, PersonDecided, PersonRan, PersonSaid, PersonSteppedIn, TurnEnded
from stackmem.core.program_facts import UserAnswered
from stackmem.core.requests import AskPermission
from stackmem.core.state import State
from stackmem.core.text import mark_cut, quantity
from stackmem.core.tools import (
    AskQuestion,
    EditFile,
    ListFiles,
    ReadFile,
    RunCommand,
    SearchFiles,
    WriteFile,
    tool_name,
)

Update = dict[str, Any]

_KINDS = {
    tool_name(ReadFile): "read", tool_name(ListFiles): "search", tool_name(SearchFiles): "search",
    tool_name(WriteFile): "edit", tool_name(EditFile): "edit", tool_name(RunCommand): "execute",
    tool_name(WebFetch): "fetch", tool_name(WebSearch): "fetch",
}  # fmt: skip
HIDDEN: frozenset[VoiceKind] = frozenset(
    {"internal", "run", "reply", "result", "memory", "frame", "verdict", "user", "program"}
)
"""Kinds that an editor shows as calls, messages and plans, or knows from its user."""
_TITLE_CHARS, _TEXT_CHARS = 200, 20_000
_FRAME_STATUSES: dict[FrameStatus, str] = {
    "running": "in_progress", "waiting": "pending", "done": "completed", "merged": "completed", "ended": "failed",
    "conflict": "failed",
}  # fmt: skip
_TICKS = re.compile("`+")


class Shown(Struct, frozen=True):
    """The editor's knowledge of the conversation, and access to file contents."""

    folder: str  # the user's folder, absolute
    # returns a file's text in a given state; None if the file is missing or not text
    text_before: Callable[[State, str], str | None]
    streamed: str = ""  # the part of the current reply that was already streamed
    run: str = ""  # distinguishes the conversation's runs in call ids: undo and fork continue in a new run
    history: bool = False  # whether this replays an earlier conversation, including the user's messages


def updates(event: facts.Event, before: State, after: State, view: Shown) -> list[Update]:
    """Return the editor updates for an event, in order.

    Args:
        before, after: The states before and after the event.
    """
    sent = [
        *_ended_calls(event, before, after, view),
        *_returned_frame(event, after, view.run if view.history else None),
    ]
    sent += [message(f"({text})\n") for text in keeping.messages_about(event, before, after)]
    match event:
        case PersonSaid(text=text) | PersonSteppedIn(text=text) if view.history:
            sent.append(_chunk("user_message_chunk", text))
        case UserAnswered(text=str(text)) if view.history:
            sent.append(_chunk("user_message_chunk", text))
        case facts.ModelReplied():
            sent += [*_reply(event, after, view), *_usage(after)]
        case PersonDecided(allow=True) if before.pending is not None and before.pending.calls:
            sent.append(_progress(_call_id(before, before.pending.calls, 0, view), "in_progress"))
        case facts.FramePushed() | facts.FramePopped():
            if isinstance(event, facts.FramePopped) and before.running.request:
                sent += _result(event.result, before)
            sent += _plan(after)
        case TurnEnded(result=result):
            sent += _result(result, before)
        case PersonRan(command=command, output=output):
            sent += [_chunk("user_message_chunk", f"!{command}")] if view.history else []
            sent.append(message(_output(output)))
        case PersonAttached(failed=True):
            sent.append(message(f"(not attached: {event.name}: {mark_cut(event.content, 500)})\n"))
        case facts.ModelFailed(kind=kind, detail=detail):
            sent.append(_chunk("agent_thought_chunk", f"The provider failed ({kind}): {mark_cut(detail, 500)}\n"))
        case facts.CallRejected() | facts.ReplyNudged() | facts.NoticeGiven():
            pass  # the agent corrects itself; the result of the call says what was refused
        case _:
            voice = event.voice
            if voice.kind not in HIDDEN:
                sent.append(_chunk("agent_thought_chunk", f"{voice.line}\n{mark_cut(voice.text, 500)}".strip() + "\n"))
    return sent


def call_shown(state: State, view: Shown) -> Update:
    """Return the first pending call in the form used by permission requests."""
    pending = state.pending
    if pending is None or not pending.calls:
        return {"toolCallId": "none", "title": "a call"}
    return _call(state, pending.calls, 0, view)


def call_of_frame(question: AskPermission) -> Update:
    """Return the call of a parallel frame in the form used by permission requests. The state has another call."""
    detail = {"type": "content", "content": {"type": "text", "text": _output(question.detail)}}
    title = f"[{question.frame}] {question.tool}: {question.about}"
    return {
        "toolCallId": f"parallel-{question.frame}",
        "title": mark_cut(title, _TEXT_CHARS),
        "kind": _KINDS.get(question.tool, "other"),
        "status": "pending",
        "content": [detail] if question.detail else [],
    }


def frame_begins(line: FrameLine, run: str, intent: str) -> Update:
    """Announce the line of a frame. ``run`` distinguishes the runs of a conversation."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": _frame_id(run, line.frame),
        "title": mark_cut(" ".join(f"[{line.name}] {intent}".split()), _TITLE_CHARS),
        "kind": "think",
        "status": "in_progress",
    }


def frame_goes_on(line: FrameLine, run: str, now: float) -> Update:
    """Return the line of a frame with its present state."""
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": _frame_id(run, line.frame),
        "title": mark_cut(line.sentence(now), _TITLE_CHARS),
        "status": _FRAME_STATUSES[line.status],
    }


def _returned_frame(event: facts.Event, after: State, run: str | None) -> list[Update]:
    """Return the line of a frame of an earlier conversation, which has ended. ``run`` is None for a current one."""
    group = after.parallel.group
    if run is None or not isinstance(event, FrameReturned) or group is None:
        return []
    name = next((each.name for each in group.frames if each.frame == event.frame), event.frame)
    ending = "done" if event.ending == "popped" else event.ending
    return [
        {
            "sessionUpdate": "tool_call",
            "toolCallId": _frame_id(run, event.frame),
            "title": mark_cut(f"[{name}] {ending}, {quantity(event.steps, 'step')}", _TITLE_CHARS),
            "kind": "think",
            "status": "completed" if event.ending == "popped" else "failed",
        }
    ]


def _frame_id(run: str, frame: str) -> str:
    return f"{run}-{frame}"


def message(text: str) -> Update:
    """Build a message to the user."""
    return _chunk("agent_message_chunk", text)


def _output(text: str) -> str:
    """Return the output of the user's command as a code block, which no line of the output can end."""
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{fence}text\n{mark_cut(text, _TEXT_CHARS).rstrip()}\n{fence}\n"


def _chunk(kind: str, text: str) -> Update:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def _reply(event: facts.ModelReplied, after: State, view: Shown) -> list[Update]:
    text = "\n".join(part.text for part in event.parts if isinstance(part, Text)).strip()
    sent = []
    if rest := _unheard(text, view.streamed.strip()):
        sent.append(message(rest))
    calls = after.pending.calls if after.pending else ()
    for position, call in enumerate(calls):
        if call.name == tool_name(AskQuestion):
            sent.append(message(_question(call)))
            continue
        sent.append({"sessionUpdate": "tool_call", "status": "pending", **_call(after, calls, position, view)})
        granted = after.session.grants if after.session else ()
        if not position and any(grant.tool == call.name and not grant.pattern for grant in granted):
            sent.append(_progress(_call_id(after, calls, position, view), "in_progress"))
    return sent


def _unheard(text: str, streamed: str) -> str:
    """Return the part of a reply that was not streamed; all of it if a failed attempt was streamed."""
    if text.startswith(streamed):
        return text[len(streamed) :]
    if "".join(text.split()) == "".join(streamed.split()):
        return ""
    return f"\n\n{text}"


def _question(call: ToolCall) -> str:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    options = arguments.get("options")
    lines = [f"\n\n{arguments.get('question', '')}"]
    lines += [f"- {option}" for option in options] if isinstance(options, list) else []
    return "\n".join(lines)


def _result(result: str, before: State) -> list[Update]:
    """Return the result of a request, unless the last reply already said the same."""
    last_reply = mark_cut(last_words(before.running), before.begun.budgets.root_result_chars)
    return [] if result.strip() == last_reply.strip() else [message(f"\n\n{result}")]


def _call_id(state: State, calls: tuple[ToolCall, ...], position: int, view: Shown) -> str:
    """Identify a call by run, step and position from the end, because answered calls leave at the front."""
    return f"{view.run}-{state.step}-{len(calls) - position}"


def _progress(call: str, status: str, **more: Any) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, **more}


def _call(state: State, calls: tuple[ToolCall, ...], position: int, view: Shown) -> Update:
    call = calls[position]
    first = next(iter(call.arguments.values()), "") if isinstance(call.arguments, dict) else ""
    title = f"{call.name} {first}" if isinstance(first, str) else call.name
    update: Update = {
        "toolCallId": _call_id(state, calls, position, view),
        "title": mark_cut(" ".join(title.split()), _TITLE_CHARS),
        "kind": _KINDS.get(call.name, "think" if call.name in _of_memory(state) else "other"),
        "rawInput": call.arguments,
    }
    if path := _path(call, state, view):
        update["locations"] = [{"path": path}]
    if diff := _diff(call, state, view):
        update["content"] = [diff]
    return update


def _of_memory(state: State) -> frozenset[str]:
    return frozenset(tool.name for tool in state.begun.tools) - _KINDS.keys() - set(state.begun.registered)


def _path(call: ToolCall, state: State, view: Shown) -> str:
    """Return the absolute path in the user's folder that a call names; empty if it names none."""
    if _KINDS.get(call.name) not in ("read", "edit") or not (inside := _inside(call, state)):
        return ""
    return str(PurePosixPath(view.folder) / inside)


def _inside(call: ToolCall, state: State) -> str:
    """Return the path relative to the workspace; empty if it points outside."""
    target = call.arguments.get("path") if isinstance(call.arguments, dict) else None
    if not isinstance(target, str) or not target or "\0" in target:
        return ""
    path, root = PurePosixPath(target), PurePosixPath(state.begun.workspace)
    if path.is_absolute():
        if not path.is_relative_to(root):
            return ""
        path = path.relative_to(root)
    return "" if ".." in path.parts or not path.parts else str(path)


def _diff(call: ToolCall, state: State, view: Shown) -> Update | None:
    path, inside = _path(call, state, view), _inside(call, state)
    if _KINDS.get(call.name) != "edit" or not path or not isinstance(call.arguments, dict):
        return None
    arguments = call.arguments
    was = view.text_before(state, inside)
    if call.name == tool_name(WriteFile):
        new = arguments.get("content")
    else:
        old, fresh = arguments.get("old_string"), arguments.get("new_string")
        if not isinstance(old, str) or not isinstance(fresh, str):
            return None
        if was is not None and old and old in was:
            new = was.replace(old, fresh, -1 if arguments.get("replace_all") is True else 1)
        else:
            was, new = old, fresh
    return {"type": "diff", "path": path, "oldText": was, "newText": new} if isinstance(new, str) else None


def _ended_calls(event: facts.Event, before: State, after: State, view: Shown) -> list[Update]:
    """Return the final updates for the calls that an event completed."""
    calls = before.pending.calls if before.pending else ()
    remaining = len(after.pending.calls) if after.pending and after.step == before.step else 0
    sent = []
    for position, call in enumerate(calls[: len(calls) - remaining]):
        if call.name == tool_name(AskQuestion):
            continue
        text, failed = "", isinstance(event, facts.CallRejected)
        if isinstance(event, facts.ToolReturned):
            text, failed = event.text, event.failed
        elif isinstance(event, facts.CallRejected):
            text = event.reason
        elif isinstance(event, facts.RunEnded) or (before.session and after.session and after.session.stopped):
            failed = True
        diff = None if failed else _diff(call, before, view)
        output = {"type": "content", "content": {"type": "text", "text": mark_cut(text, _TEXT_CHARS)}}
        content = [diff] if diff else [output] if text else []
        sent.append(
            _progress(
                _call_id(before, calls, position, view), "failed" if failed else "completed",
                **({"content": content} if content else {}),
            )
        )  # fmt: skip
    return sent


def _usage(state: State) -> list[Update]:
    """Return the running frame's context size and the session's cost; empty if the window size is unknown."""
    if not state.stack or not state.window_tokens:
        return []
    update: Update = {
        "sessionUpdate": "usage_update",
        "used": state.running.context_tokens,
        "size": state.window_tokens,
    }
    if state.cost_usd is not None:
        update["cost"] = {"amount": state.cost_usd, "currency": "USD"}
    return [update]


def _plan(state: State) -> list[Update]:
    """Return the frames of the current request as a plan; empty if the agent pushed none."""
    frames = []
    for popped in reversed(tuple(state.popped)):
        if popped.frame.request:
            break
        frames.append(popped.frame)
    entries = [(frame.task or frame.registers.intent or frame.name, "completed") for frame in reversed(frames)]
    entries += [
        (frame.task or frame.registers.intent or frame.name, "in_progress")
        for frame in state.stack[1:]
        if not frame.request
    ]
    if not entries:
        return []
    return [
        {
            "sessionUpdate": "plan",
            "entries": [
                {"content": mark_cut(" ".join(text.split()), _TITLE_CHARS), "priority": "medium", "status": status}
                for text, status in entries
            ],
        }
    ]
