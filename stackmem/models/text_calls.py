"""Calls as text, for a model that has no calls of its own: ``<tool_call>`` around one JSON object.

Many models were trained on it. The tools stand in the system prompt, a call in the reply's text, and its result in the
person's next message.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import ReplyPart, Text, ToolCall

from .json_text import parse_arguments

Json = dict[str, Any]

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]{1,200})"')
_HOW = """\
You call a tool by ending your reply with one block of this form, and nothing after it:
<tool_call>
{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}
</tool_call>
Its result comes back in <tool_response>. These are the tools:
"""


def as_text(body: Json) -> Json:
    """The body of a request with its tools, calls and results as text."""
    spoken = {
        name: value for name, value in body.items() if name not in {"tools", "tool_choice", "parallel_tool_calls"}
    }
    tools = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in body.get("tools", ()))
    messages: list[Json] = []
    for message in body["messages"]:
        spelled = _spelled(message)
        if spelled["role"] == "user" and messages and messages[-1]["role"] == "user":
            messages[-1] = {**spelled, "content": f"{messages[-1]['content']}\n\n{spelled['content']}"}
        else:
            messages.append(spelled)
    if tools:
        how = f"{_HOW}<tools>\n{tools}\n</tools>"
        if messages and messages[0]["role"] == "system":
            messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{how}"}
        else:
            messages.insert(0, {"role": "system", "content": how})
    return {**spoken, "messages": messages}


def _spelled(message: Json) -> Json:
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
    if "tool_calls" not in message:
        return message
    calls = [call["function"] for call in message["tool_calls"]]
    blocks = [
        f"<tool_call>\n{json.dumps({'name': call['name'], 'arguments': json.loads(call['arguments'])})}\n</tool_call>"
        for call in calls
    ]
    rest = {name: value for name, value in message.items() if name != "tool_calls"}
    return {**rest, "content": "\n".join(filter(None, (message["content"], *blocks)))}


def with_calls(reply: ModelReplied, facts: int) -> ModelReplied:
    """The reply with the calls that its text makes; one that has calls of its own stays as it is."""
    text = "".join(part.text for part in reply.parts if isinstance(part, Text))
    blocks = _CALL.findall(text)
    if not blocks or any(isinstance(part, ToolCall) for part in reply.parts):
        return reply
    calls = [_call(block.strip(), f"call_{facts}_{number}") for number, block in enumerate(blocks)]
    said = _CALL.sub("", text).strip()
    parts: list[ReplyPart] = [part for part in reply.parts if not isinstance(part, Text)]
    stop = "call" if reply.stop == "end" else reply.stop
    return replace(reply, parts=(*parts, *([Text(said)] if said else []), *calls), stop=stop)


def _call(block: str, identity: str) -> ToolCall:
    value, malformed = parse_arguments(block)
    if not isinstance(value, dict):
        name = _NAME.search(block)
        return ToolCall(identity, name.group(1) if name else "", None, malformed if malformed is not None else block)
    arguments = value.get("arguments", value.get("parameters", {}))
    return ToolCall(identity, str(value.get("name", "")), arguments)
