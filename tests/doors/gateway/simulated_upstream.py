"""The simulated reader behind Chat Completions: an upstream for third-party agents."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

from stackmem.core.facts import ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Text, ToolCall, ToolResult, View
from stackmem.core.requests import AskModel
from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.lab.simulated.reader import BoundedReader

from .upstream import RawAnswer

_INDEX = re.compile(r"^HEAP (?:INDEX|CHANGES): ", re.MULTILINE)
_OPENING = re.compile(r"^FRAME '", re.MULTILINE)


class SimulatedUpstream:
    """Answers one-reply requests.

    Attributes:
        prompts: Tokens of each prompt, by the reader's own estimate.
    """

    def __init__(self) -> None:
        self.prompts: list[int] = []
        self._lock = threading.Lock()

    def answer(self, body: bytes) -> RawAnswer:
        """Return the reader's next call; outside any frame its pop becomes a final message, as an agent's end is."""
        asked = CHAT.read(body)
        messages = [
            Message("assistant" if one.role == "assistant" else "user", told(one.parts)) for one in asked.messages
        ]
        view = View(asked.system, asked.tools, Log(messages), ())
        with self._lock:
            number = len(self.prompts) + 1
            reply = BoundedReader(window_tokens=10_000_000).reply(AskModel(view, number, number))
            assert isinstance(reply, ModelReplied)
            self.prompts.append(reply.usage.prompt)
        words = "".join(part.text for part in reply.parts if isinstance(part, Text))
        (call,) = (part for part in reply.parts if isinstance(part, ToolCall))
        shown = any(
            _OPENING.search(part.text) for one in messages for part in one.parts if isinstance(part, ToolResult)
        )
        message: dict[str, Any] = {"role": "assistant", "content": words}
        if call.name == "pop_frame" and not shown:
            message["content"] = str(call.arguments["result"])
        else:
            given = {"name": call.name, "arguments": json.dumps(call.arguments)}
            message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": given}]
        usage = {"prompt_tokens": reply.usage.prompt, "completion_tokens": reply.usage.output}
        finish = "tool_calls" if "tool_calls" in message else "stop"
        completion = {
            "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": asked.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {**usage, "total_tokens": sum(usage.values())},
        }  # fmt: skip
        return RawAnswer((json.dumps(completion).encode(),), headers=(("content-type", "application/json"),))


def told(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Append a result's heap information as text, where the reader looks for it in our own runs."""
    split: list[Part] = []
    for part in parts:
        found = _INDEX.search(part.text) if isinstance(part, ToolResult) else None
        split.append(part)
        if found is not None and isinstance(part, ToolResult):
            split.append(Text(part.text[found.start() :]))
    return tuple(split)
