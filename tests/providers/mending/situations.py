"""Situations from bug reports about other agents, played without a network: each returns what came of it, as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.requests import AskModel
from stackmem.core.schemas.portable import portable
from stackmem.core.tool_schemas import unreadable
from stackmem.doors.tool_servers.connection import Connections
from stackmem.providers.mending.arguments import with_mended_arguments
from stackmem.settings.mcp_servers import Server
from stackmem.workspace.editing import edited
from tests.fuzz.providers import TOOLS, answer, conversation, model_of, notes_of
from tests.fuzz.tools import _pipes
from tests.providers.views import asking, user

Json = dict[str, Any]


def stream(*events: Json | str) -> bytes:
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def outcome_of(outcome: ModelReplied | ModelFailed, request: AskModel) -> str:
    """Return the reply or the failure in one line, with its notes."""
    if isinstance(outcome, ModelFailed):
        return f"{outcome.kind}: {outcome.detail}"
    outcome = with_mended_arguments(outcome, request)
    said = [part.text for part in outcome.parts if isinstance(part, Text)]
    calls = [
        unreadable(part) if not isinstance(part.arguments, dict) else f"{part.name} {json.dumps(part.arguments)}"
        for part in outcome.parts
        if isinstance(part, ToolCall)
    ]
    return " | ".join((*said, *calls, f"stop {outcome.stop}", *notes_of(outcome)))


def reads(wire: str, body: bytes) -> str:
    request = asking(user("Do it."))
    with model_of(wire, lambda _: answer(body)) as model:
        return outcome_of(model.reply(request), request)


def chat(*deltas: Json, finish: str | None = "stop", done: bool = True) -> str:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}] if finish else []
    return reads("chat", stream(*chunks, *end, *(["[DONE]"] if done else [])))


def call(arguments: Any, identity: Any = "c") -> Json:
    function = {"name": "read_file", "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": identity, "function": function}]}


def arguments(*pieces: Any) -> str:
    more = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces[1:]]
    return chat(call(pieces[0]), *more, finish="tool_calls")


ACCEPTED = {
    "anthropic": stream(
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Done."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ),
    "chat": stream({"choices": [{"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}]}),
    "responses": stream({"type": "response.completed", "response": {"id": "r", "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "Done."}]}]}}),
    "gemini": stream({"candidates": [{"content": {"parts": [{"text": "Done."}]}, "finishReason": "STOP"}]}),
}  # fmt: skip


def refused(
    wire: str, sentence: str, unless: Callable[[str], bool] | None = None, request: AskModel | None = None
) -> str:
    """A server refuses requests with a sentence until one passes ``unless``, or until the second one."""
    asked = request or conversation(wire, calls=1)
    bodies: list[str] = []

    def answers(sent: httpx2.Request) -> httpx2.Response:
        bodies.append(sent.content.decode())
        accepted = unless(bodies[-1]) if unless else len(bodies) > 1
        if accepted:
            return answer(ACCEPTED[wire])
        return answer(json.dumps({"error": {"message": sentence, "code": 400}}).encode(), 0, 400, "application/json")

    with model_of(wire, answers) as model:
        first = outcome_of(model.reply(asked), asked)
        before = len(bodies)
        second = outcome_of(model.reply(asked), asked)
    return f"{first} | then {len(bodies) - before} request: {second.partition(' | ')[0]}"


def without(*words: str) -> Callable[[str], bool]:
    return lambda body: not any(word in body for word in words)


def sent_ids(wire: str, *identities: str, refusal: str = "") -> str:
    """Return the ids of calls and of results as they are sent for replies with these ids."""
    messages = [Message("user", (Text("Do it."),))]
    for identity in identities:
        messages.append(Message("assistant", (ToolCall(identity, "read_file", {"path": "a"}),)))
        messages.append(Message("user", (ToolResult(identity, "content", False),)))
    asked = AskModel(View("", TOOLS, Log(messages), ()), step=1, facts=0)
    bodies: list[Json] = []

    def answers(sent: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(sent.content))
        if refusal and len(bodies) == 1:
            return answer(json.dumps({"message": refusal}).encode(), 0, 400, "application/json")
        return answer(ACCEPTED[wire])

    with model_of(wire, answers) as model:
        model.reply(asked)
    calls, results = _ids(bodies[-1])
    right = calls == results and len(set(calls)) == len(calls) and all(0 < len(one) <= 64 for one in calls)
    return f"{'unique' if right else 'wrong'}: {' '.join(calls)}"


def _ids(body: Json) -> tuple[list[str], list[str]]:
    calls: list[str] = []
    results: list[str] = []
    for item in body.get("messages") or body["input"]:
        blocks = item["content"] if isinstance(item.get("content"), list) else []
        calls += [one["id"] for one in (*blocks, *item.get("tool_calls", ())) if one.get("type") in _CALLS]
        results += [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        results += [item["tool_call_id"]] if item.get("role") == "tool" else []
        calls += [item["call_id"]] if item.get("type") == "function_call" else []
        results += [item["call_id"]] if item.get("type") == "function_call_output" else []
    return calls, results


_CALLS = ("tool_use", "function")


def unsigned(wire: str) -> str:
    """Return whether a thought without a signature is sent."""
    thought = Thinking({"type": "thinking", "thinking": "a secret thought"})
    done = Message("assistant", (thought, Text("Done.")))
    asked = asking(user("Do it."), done, user("Go on."))
    bodies: list[str] = []

    def answers(sent: httpx2.Request) -> httpx2.Response:
        bodies.append(sent.content.decode())
        return answer(ACCEPTED[wire])

    with model_of(wire, answers) as model:
        model.reply(asked)
    return "sent" if "a secret thought" in bodies[0] else "not sent"


def schema(value: Any) -> str:
    try:
        tool, notes = portable(ToolSpec("odd__tool", "Odd.", json.dumps(value)))
    except ValueError as error:
        return f"left out: {error}"
    shown = tool.parameters
    return f"{shown.get('type')} of {sorted(shown.get('properties', {}))} | {' | '.join(notes)}"


GOOD: Json = {"name": "good", "inputSchema": {"type": "object"}}


def server(*tools: Any, result: Any = None, noise: tuple[str, ...] = (), place: Path = Path("/"), **odd: Any) -> str:
    """Return the tools that a server offers, the notes, and the result of calling its last tool."""
    listed = [GOOD, *tools]

    class Served:
        def answer(self, message: Json) -> list[str]:
            method, reply = message.get("method"), {}
            if "id" not in message:
                return []
            error: Any = {"code": -32601, "message": "no"} if method == "server/discover" else None
            if method == "initialize":
                error = odd.get("refuses")
                reply = {"protocolVersion": odd.get("version", "2025-06-18"), "capabilities": {"tools": {}},
                         "serverInfo": {"name": "odd", "version": "1"}}  # fmt: skip
            elif method == "tools/list":
                reply = {"tools": listed}
            elif method == "tools/call":
                reply = result or {"content": [{"type": "text", "text": "fine"}]}
            shown = {"error": error} if error else {"result": reply}
            return [*noise, json.dumps({"jsonrpc": "2.0", "id": message["id"], **shown})]

    with patch("mcp.client.stdio.stdio_client", _pipes(Served())), Connections(place, asks=False) as connections:
        try:
            offered = connections.connect("odd", Server(command=("odd",), seconds=5.0))
        except UsageError as error:
            return f"refused: {error}"
        text, failed = offered[-1].text({})
        names = " ".join(tool.name.removeprefix("odd__") for tool in offered)
    return " | ".join((names, *connections.notes, f"{'failed' if failed else 'result'}: {text}"))


def edits(before: bytes, old: str, new: str) -> bytes:
    return edited("a.txt", before, old, new, every=False, scrub=str)[0]
