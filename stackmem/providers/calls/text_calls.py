"""Tool calls as text: reads them from replies without native calls, and writes them for models that have none.

With ``--text-calls prompt`` the system prompt describes the tools, calls appear in ``<tool_call>`` around a JSON
object, and results in the next user message. Many models were trained on this form.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import ReplyPart, Text, ToolCall
from stackmem.core.requests import AskModel
from stackmem.providers.json_text import parse_arguments

from .argument_repair import mend_arguments
from .found import FoundCall
from .reader import find_calls

Json = dict[str, Any]

_HOW = """\
You call a tool by ending your reply with one block of this form, and nothing after it:
<tool_call>
{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}
</tool_call>
Its result comes back in <tool_response>. These are the tools:
"""


def as_text(body: Json) -> Json:
    """Convert a request body so that tools, calls and results are text."""
    fields = {
        name: value for name, value in body.items() if name not in {"tools", "tool_choice", "parallel_tool_calls"}
    }
    tools = "\n".join(map(tool_line, body.get("tools", ())))
    messages: list[Json] = []
    for message in body["messages"]:
        spelled = _spelled(message)
        if spelled["role"] == "user" and messages and messages[-1]["role"] == "user":
            messages[-1] = {**spelled, "content": _joined(messages[-1]["content"], spelled["content"])}
        else:
            messages.append(spelled)
    if tools:
        how = f"{_HOW}<tools>\n{tools}\n</tools>"
        if messages and messages[0]["role"] == "system":
            messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{how}"}
        else:
            messages.insert(0, {"role": "system", "content": how})
    return {**fields, "messages": messages}


def _joined(before: Any, after: Any) -> Any:
    """Join two contents of the user. One with images is a list that begins with a text."""
    if isinstance(after, list):
        return [{**after[0], "text": _joined(before, after[0]["text"])}, *after[1:]]
    return [*before, {"type": "text", "text": after}] if isinstance(before, list) else f"{before}\n\n{after}"


def tool_line(tool: Json) -> str:
    """Format a tool as one line of the system prompt."""
    return json.dumps(tool["function"], ensure_ascii=False)


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


def with_calls(reply: ModelReplied, request: AskModel) -> ModelReplied:
    """Add the calls in a reply's text, and repair arguments; ``repairs`` describes the changes.

    Replies with native calls, and replies to requests for text, are not searched. If there are several calls, the
    first counts. The others stay in the reply, and the machine answers that they were not performed.
    """
    if request.expects == "text":
        return reply
    tools_by_name = {tool.name: tool for tool in (*request.view.tools, *request.announced)}
    read = (
        reply if any(isinstance(part, ToolCall) for part in reply.parts) else _read_text(reply, request, tools_by_name)
    )
    parts: list[ReplyPart] = []
    notes = () if read.repairs is UNSET else read.repairs
    for part in read.parts:
        if isinstance(part, ToolCall) and part.name in tools_by_name:
            mended, more = mend_arguments(part, tools_by_name[part.name])
            parts.append(mended)
            notes = (*notes, *more)
        else:
            parts.append(part)
    return replace(read, parts=tuple(parts), repairs=notes) if notes else reply


def _read_text(reply: ModelReplied, request: AskModel, tool_names: Collection[str]) -> ModelReplied:
    text = "".join(part.text for part in reply.parts if isinstance(part, Text))
    result = find_calls(text, tool_names, answers=request.expects == "any")
    if result is None:
        return reply
    calls = [_call(call, f"call_{request.facts}_{number}") for number, call in enumerate(result.calls)]
    parts: list[ReplyPart] = [part for part in reply.parts if not isinstance(part, Text)]
    stop = "call" if reply.stop == "end" else reply.stop
    remaining = (Text(result.text),) if result.text else ()
    before = () if reply.repairs is UNSET else reply.repairs
    copies = [f"dropped {result.schemas} copies of tool schemas"] if result.schemas else []
    notes = (*before, _note(result.calls[0]), *copies)
    return replace(reply, parts=(*parts, *remaining, *calls), stop=stop, repairs=notes)


def recorded_call(
    parts: Sequence[ReplyPart], offered: Collection[str], identity: str
) -> tuple[tuple[ReplyPart, ...], str] | None:
    """Return a recorded reply with the first call in its text, and a note about it; None without a call.

    A recording does not say whether a plain answer was accepted, so an answer that quotes a call stays an answer.
    """
    if any(isinstance(part, ToolCall) for part in parts):
        return None
    result = find_calls("".join(part.text for part in parts if isinstance(part, Text)), offered, answers=True)
    if result is None:
        return None
    note = _note(result.calls[0])
    if len(result.calls) > 1:
        note += f"; left out {len(result.calls) - 1} more: {', '.join(call.name for call in result.calls[1:])}"[:500]
    remaining = (Text(result.text),) if result.text else ()
    others = [part for part in parts if not isinstance(part, Text)]
    return (*others, *remaining, _call(result.calls[0], identity)), note


def _note(call: FoundCall) -> str:
    return f"read a call from the text, written as {call.form}"


def _call(call: FoundCall, identity: str) -> ToolCall:
    arguments, malformed = call.arguments, call.malformed
    if isinstance(arguments, str):
        arguments, malformed = parse_arguments(arguments)
    return ToolCall(identity, call.name, arguments, malformed)
