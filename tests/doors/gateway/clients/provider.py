"""A scripted loopback provider for third-party clients: it makes them call a shell, over four wire formats.

It refuses what a real provider refuses, fails once, bills by a prefix cache, and makes clients that support sub-agents
start one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.messages import Text, ToolSpec
from stackmem.doors.gateway.wires import model_in, wire_of
from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat
from tests.doors.gateway.strict_rules import binds_thinking, fault
from tests.doors.gateway.upstream import RawAnswer, message_events, sse
from tests.models.api_rules import signature

Json = dict[str, Any]

TASK = "Count the lines of every file, one command at a time, and say how many there are."
SUBTASK = "SUBTASK: list the folder once and report what it holds."
SUMMARY = "total = 7; next = the last file"
DONE = "All is counted: 7 files."
CALLS = 10
OUTPUT = 20
"""Tokens of every answer."""
_ASKS = b"COMPACTION REQUEST"
_SHELLS = ("bash", "run_shell_command", "shell_command", "shell", "exec_command", "run_command", "run")
_AGENTS = ("agent", "task")


class Reply(Struct, frozen=True):
    """The model's reply: a text, and a tool call if ``tool`` names one."""

    text: str
    tool: str = ""
    arguments: Json = {}


FAREWELL = Reply(DONE)


class ScriptedProvider:
    """Answers requests by their content.

    Attributes:
        last: The end of the work: a reply without a call, if a client needs nothing else.
        talks: Texts for a client without tools: it receives these in turn, then the last word.
        refused: A sentence per refused request; ``seen`` contains the accepted bodies.
        billed: The sums of the tokens that the answers stated: uncached, read from the cache, written to it, output.
    """

    def __init__(self, last: Reply = FAREWELL, talks: tuple[str, ...] = ()) -> None:
        self.last, self.talks = last, talks
        self.refused: list[str] = []
        self.seen: list[bytes] = []
        self.billed = [0, 0, 0, 0]
        self._given: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._cached: list[bytes] = []
        self._calls = self._failures = self._sub = 0

    def answer(self, path: str, body: bytes) -> RawAnswer:
        """Answer a request at a path."""
        wire = wire_of(path)
        with self._lock:
            if wire is None:
                given = {"input_tokens": len(body) // 4} if path.endswith("count_tokens") else {"data": []}
                return _json(200, given)
            value = json.loads(body)
            if wire is GEMINI:  # the path says what the other formats say in the body
                value |= {"stream": ":stream" in path, "model": model_in(path)}
            asked = wire.read(body)
            if refusal := fault(wire, value, self._given):
                self.refused.append(refusal)
                return _json(400, wire.error("invalid_request_error", refusal))
            if self._calls == 4 and not self._failures and _ASKS not in body:
                self._failures += 1
                return _json(500, wire.error("api_error", "try again"))
            self.seen.append(body)
            thoughts = self._thoughts(wire, value)
            if wire is MESSAGES:
                self._given[f"toolu_{len(self.seen):04}"] = thoughts
            used = self._usage(wire, body)
            self.billed = [whole + part for whole, part in zip(self.billed, (*used, OUTPUT), strict=True)]
            return _spoken(wire, value, self._reply(asked, body), used, len(self.seen), thoughts)

    def _thoughts(self, wire: WireFormat, value: Json) -> list[Json]:
        """Return the thinking that begins the next reply, signed as the model signs it."""
        if wire is not MESSAGES or value.get("thinking", {}).get("type") not in ("enabled", "adaptive"):
            return []
        words = f"Thought {len(self.seen)}."
        bound = binds_thinking(value["model"])
        return [{"type": "thinking", "thinking": words,
                 "signature": signature(value, len(value["messages"]), words) if bound else "c2lnbmVk"}]  # fmt: skip

    def _reply(self, asked: ForeignRequest, body: bytes) -> Reply:
        if _ASKS in body:
            return Reply(SUMMARY)
        opening = " ".join(part.text for one in asked.messages[:3] for part in one.parts if isinstance(part, Text))
        if asked.wants_json or (not asked.tools and not self.talks):
            return Reply('{"title": "Counting", "isNewTopic": true}')
        if SUBTASK in opening and TASK not in opening:
            self._sub += 1
            return self._call(asked, "ls") if self._sub == 1 else Reply("It holds seven files.")
        self._calls += 1
        if self.talks:
            return Reply(self.talks[self._calls - 1]) if self._calls <= len(self.talks) else self.last
        agent = _named(asked, _AGENTS)
        if self._calls == 2 and agent is not None:
            given = {"prompt": SUBTASK, "description": "List", "subagent_type": "general-purpose"}
            return Reply("I have it listed.", agent.name, _filled(agent, given))
        if self._calls <= CALLS:
            return self._call(asked, f"seq {self._calls} {self._calls + 500}")
        return self.last

    def _call(self, asked: ForeignRequest, command: str) -> Reply:
        shell = _named(asked, _SHELLS)
        if shell is None:
            return Reply(f"No shell tool among {[tool.name for tool in asked.tools]}.")
        given = {"command": command, "cmd": command, "description": "Counts."}
        return Reply(f"Step {self._calls}.", shell.name, _filled(shell, given))

    def _usage(self, wire: WireFormat, body: bytes) -> tuple[int, int, int]:
        """Return the tokens of a prompt (uncached, read from the cache, written to it); four bytes are one token."""
        longest = max((_common(body, one) for one in self._cached), default=0) // 4
        read = longest if longest >= 1_024 else 0
        self._cached = [*self._cached[-20:], body]
        rest = len(body) // 4 - read
        return (8, read, max(0, rest - 8)) if wire is MESSAGES else (rest, read, 0)


def _named(asked: ForeignRequest, names: tuple[str, ...]) -> ToolSpec | None:
    tools = {tool.name.lower(): tool for tool in reversed(asked.tools)}
    return next((tools[name] for name in names if name in tools), None)


def _filled(tool: ToolSpec, given: Json) -> Json:
    """Build arguments from the tool's schema: values for known names, a placeholder for other required fields."""
    schema = json.loads(tool.schema) or {}
    known = schema.get("properties", {})
    filled = {name: value for name, value in given.items() if name in known}
    if known.get("command", {}).get("type") == "array":
        filled["command"] = ["bash", "-lc", given["command"]]
    plain = {"string": "x", "integer": 1_000, "number": 1_000, "boolean": False, "array": [], "object": {}}
    for name in schema.get("required", ()):
        filled.setdefault(name, plain.get(str(known.get(name, {}).get("type")), "x"))
    return filled


def _common(one: bytes, other: bytes) -> int:
    """Return the length of two bodies' common prefix in bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _json(status: int, value: Json) -> RawAnswer:
    headers = (("content-type", "application/json"), ("retry-after-ms", "10"))
    return RawAnswer((json.dumps(value).encode(),), status, headers)


def _spoken(
    wire: WireFormat, asked: Json, reply: Reply, used: tuple[int, int, int], number: int, thoughts: list[Json]
) -> RawAnswer:
    spell = {CHAT.name: _chat, GEMINI.name: _gemini}.get(wire.name, _responses)
    spoken = _messages(asked, reply, used, number, thoughts) if wire is MESSAGES else spell(asked, reply, used, number)
    pieces = tuple(spoken)
    kind = "text/event-stream" if asked.get("stream") else "application/json"
    return RawAnswer(pieces, headers=(("content-type", kind),))


def _messages(
    asked: Json, reply: Reply, used: tuple[int, int, int], number: int, thoughts: list[Json]
) -> Iterator[bytes]:
    blocks: list[Json] = [*thoughts, {"type": "text", "text": reply.text}]
    if reply.tool:
        blocks.append({"type": "tool_use", "id": f"toolu_{number:04}", "name": reply.tool, "input": reply.arguments})
    stop = "tool_use" if reply.tool else "end_turn"
    usage = {"input_tokens": used[0], "cache_read_input_tokens": used[1], "cache_creation_input_tokens": used[2],
             "cache_creation": {"ephemeral_5m_input_tokens": used[2], "ephemeral_1h_input_tokens": 0}}  # fmt: skip
    begun = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    message = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": asked["model"], **begun}
    if not asked.get("stream"):
        whole = {**message, "content": blocks, "stop_reason": stop, "usage": {**usage, "output_tokens": OUTPUT}}
        yield json.dumps(whole).encode()
        return
    yield from sse({"type": "message_start", "message": message})
    yield from message_events(*blocks, stop=stop)[1:]


def _chat(asked: Json, reply: Reply, used: tuple[int, int, int], number: int) -> Iterator[bytes]:
    function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
    calls = [{"id": f"call_{number}", "type": "function", "function": function}] if reply.tool else []
    finish = "tool_calls" if calls else "stop"
    prompt = used[0] + used[1]
    usage = {"prompt_tokens": prompt, "completion_tokens": OUTPUT, "total_tokens": prompt + OUTPUT,
             "prompt_tokens_details": {"cached_tokens": used[1]}}  # fmt: skip
    about = {"id": f"chatcmpl-{number}", "created": 1, "model": asked["model"]}
    said = {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
    if not asked.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": finish, "logprobs": None}
        yield json.dumps({**about, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        return
    pieces = {**said, "tool_calls": [{"index": 0, **one} for one in calls]} if calls else said
    chunk = {**about, "object": "chat.completion.chunk"}
    for delta, reason in ((pieces, None), ({}, finish)):
        shown = {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        yield f"data: {json.dumps(shown)}\n\n".encode()
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode()


def _gemini(asked: Json, reply: Reply, used: tuple[int, int, int], number: int) -> Iterator[bytes]:
    parts: list[Json] = [{"text": reply.text}]
    if reply.tool:
        call = {"name": reply.tool, "args": reply.arguments}
        parts.append({"functionCall": call, "thoughtSignature": f"s{number}"})
    usage = {"promptTokenCount": used[0] + used[1], "cachedContentTokenCount": used[1], "candidatesTokenCount": OUTPUT,
             "totalTokenCount": used[0] + used[1] + OUTPUT}  # fmt: skip
    said = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [said], "usageMetadata": usage, "modelVersion": asked["model"], "responseId": f"r{number}"}
    yield f"data: {json.dumps(whole)}\n\n".encode() if asked["stream"] else json.dumps(whole).encode()


def _responses(asked: Json, reply: Reply, used: tuple[int, int, int], number: int) -> Iterator[bytes]:
    output: list[Json] = [
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": reply.text, "annotations": []}]}
    ]  # fmt: skip
    if reply.tool:
        named = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": reply.tool, "status": "completed"}
        output.append({"type": "function_call", **named, "arguments": json.dumps(reply.arguments)})
    prompt = used[0] + used[1]
    usage = {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": used[1]}, "output_tokens": OUTPUT,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + OUTPUT}  # fmt: skip
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed",
                "model": asked["model"], "output": output, "usage": usage, "parallel_tool_calls": True,
                "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, "instructions": None,
                "metadata": {}, "temperature": 1.0, "top_p": 1.0}  # fmt: skip
    if not asked.get("stream"):
        yield json.dumps(response).encode()
        return
    events: list[Json] = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}]
    for place, item in enumerate(output):
        events.append({"type": "response.output_item.added", "output_index": place, "item": item})
        if item["type"] == "message":
            part = {"item_id": item["id"], "output_index": place, "content_index": 0}
            events.append({"type": "response.content_part.added", **part, "part": {**item["content"][0], "text": ""}})
            events.append({"type": "response.output_text.delta", **part, "delta": reply.text, "logprobs": []})
            events.append({"type": "response.output_text.done", **part, "text": reply.text, "logprobs": []})
            events.append({"type": "response.content_part.done", **part, "part": item["content"][0]})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": "response.completed", "response": response})
    yield from sse(*({**one, "sequence_number": at} for at, one in enumerate(events)))
