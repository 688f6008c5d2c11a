"""Convert prompts, replies and calls of a trace to texts and values for exports."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.facts import ContextCompacted, ModelFailed, ModelReplied
from stackmem.core.heap import Heap
from stackmem.core.log import Log
from stackmem.core.messages import ReplyPart, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.state import Frame, State
from stackmem.core.strategy import MemoryStrategy
from stackmem.memory import open_strategy
from stackmem.memory.shared.conversation import Conversation, extend
from stackmem.trace.imported import imported_from

_LATEST = 253_402_300_799.0  # the last second of year 9999


def mendings_of(event: ModelReplied | ModelFailed | ContextCompacted) -> list[str]:
    """Return what was changed in a request or a reply so that the run could go on, one sentence each."""
    changes = (getattr(event, name, UNSET) for name in ("mended", "repairs"))
    return [change for each in changes if each is not UNSET for change in each]


def mended_about(event: ModelReplied | ModelFailed | ContextCompacted) -> dict[str, list[str]]:
    """Return the mendings as a field; empty if there are none."""
    changes = mendings_of(event)
    return {"mendings": changes} if changes else {}


def view_of(state: State) -> View:
    """Return the prompt of this state. For an imported run it is the plain conversation, as its prompts are unknown.

    Raise TraceError if the run's strategy is not installed.
    """
    start, frame = state.begun, state.running
    if not imported_from(start):
        return _strategy(start.strategy).render(state)
    conversation = Conversation(Log(), (Text(_opening(frame)),), Heap(), Heap(), _no_news)
    return View(start.system, start.tools, frame.turns.fold(extend, conversation, "imported").close().messages)


@lru_cache(maxsize=8)
def _strategy(spelled: str) -> MemoryStrategy:
    try:
        return open_strategy(spelled)
    except UsageError as error:
        message = f"the run used a strategy that is not installed ({error}); install the package that provides it"
        raise TraceError(message) from error


def _opening(frame: Frame) -> str:
    return frame.task or "\n\n".join(text for text in (frame.registers.intent, frame.context) if text)


def _no_news(before: Heap, heap: Heap) -> str:
    return ""


def prompt_text(view: View) -> str:
    """Return the messages of a program's completion; if there are several, each has its role as a heading."""
    texts = ["\n".join(part.text for part in message.parts if isinstance(part, Text)) for message in view.messages]
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(f"[{message.role}]\n{text}" for message, text in zip(view.messages, texts, strict=True))


def opening_text(view: View) -> str:
    """Return the opening of a frame: its first message, or the answer to the push if it continues its parent's."""
    last = view.messages[-1]
    return "\n".join(part.text for part in last.parts if isinstance(part, Text | ToolResult))


def reply_text(parts: tuple[ReplyPart, ...]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def thinking_text(parts: tuple[ReplyPart, ...]) -> str:
    """Return the thinking that the provider returned as text; empty if hidden or absent."""
    texts = [part.raw.get("thinking") or part.raw.get("text") for part in parts if isinstance(part, Thinking)]
    return "\n".join(text for text in texts if isinstance(text, str))


def arguments(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments as an object. Other values are stored under ``malformed``."""
    if isinstance(call.arguments, dict):
        return call.arguments
    return {"malformed": call.malformed if call.malformed is not None else call.arguments}


def compact(value: object) -> str:
    return msgspec.json.encode(value).decode()


def function(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool in the format of chat interfaces."""
    spelled = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": spelled}


def stamp(at: float) -> str:
    """Format a time like ``2026-11-20T15:10:08.123Z``."""
    moment = datetime.fromtimestamp(min(max(at, 0.0), _LATEST), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def model_of(event: ModelReplied | ContextCompacted | ModelFailed, before: State) -> str:
    """Return the name of the model; for a failure, that of the frame's model."""
    if isinstance(event, ModelFailed):
        return (before.stack[-1].model if before.stack else "") or before.begun.model
    return before.begun.model if event.answerer is UNSET else event.answerer.model


def provider(name: str) -> str:
    """Return the provider of a model name: ``anthropic``, ``openai``, or ``stackmem`` for scripts and people."""
    if name.startswith(("claude", "anthropic/")):
        return "anthropic"
    return "openai" if name.startswith("openai/") else "stackmem"
