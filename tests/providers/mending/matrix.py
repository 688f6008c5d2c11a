"""Oddities of servers by kind: each is played, and ``python -m tests.providers.mending.matrix`` prints the table of the
outcomes for docs/models.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx2
from msgspec import Struct

from stackmem.core.facts import ModelFailed
from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.requests import AskModel
from stackmem.core.tool_schemas import unreadable
from stackmem.providers.mending.arguments import with_mended_arguments
from tests.fuzz.providers import TOOLS, answer, conversation, model_of, notes_of
from tests.providers.mending.situations import ACCEPTED, stream
from tests.providers.views import READ_FILE, asking, user

WORKS, MENDED, NOT_SENT, REFUSED = "works", "mended", "not sent", "refused"


class Server(Struct, frozen=True):
    """A provider or a server, with the wording of its refusals; an empty one does not occur there."""

    name: str
    wire: str
    schema: str
    thought: str
    thought_words: str
    """Words of a request that this server refuses because of a thought."""
    field: str
    field_words: str


COMBINED = "input_schema does not support oneOf, allOf, or anyOf at the top level"
INVALID = "Invalid schema for function 'files__find': schema must be a JSON Schema"
ITEM = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
SERVERS = (
    Server("Anthropic", "anthropic", f"tools.1.custom.input_schema: {COMBINED}",
           "messages.1.content.0: Invalid `signature` in `thinking` block", "c2ln",
           "tools.0.custom.strict: Extra inputs are not permitted", '"strict"'),
    Server("Bedrock", "anthropic", f"The model returned the following errors: tools.1.custom.input_schema: {COMBINED}",
           "The model returned the following errors: messages.1.content.0: Invalid signature in thinking block", "c2ln",
           "tool_choice.disable_parallel_tool_use: Extra inputs are not permitted", "disable_parallel_tool_use"),
    Server("LiteLLM", "anthropic", "litellm.BadRequestError: tools[1].input_schema is invalid",
           "litellm.BadRequestError: thinking blocks cannot be modified", "c2ln",
           "cache_control.ttl: Extra inputs are not permitted", '"ttl"'),
    Server("OpenAI", "chat", INVALID, "Unrecognized request argument: messages[1].reasoning_content",
           "reasoning_content", "Unknown parameter: 'parallel_tool_calls'", "parallel_tool_calls"),
    Server("OpenAI Responses", "responses", INVALID, ITEM, "rs_1", "Unknown parameter: 'include'", '"include"'),
    Server("Azure", "responses", INVALID, "The encrypted content gAAA could not be verified.", "gAAA",
           "Unsupported parameter: parallel_tool_calls", "parallel_tool_calls"),
    Server("Gemini", "gemini", "tools[0].function_declarations[1].parameters: unknown name",
           "Corrupted thought signature.", "c2ln", "Invalid value at 'generation_config'", "generationConfig"),
    Server("DeepSeek", "chat", INVALID, "unexpected field reasoning_content", "reasoning_content",
           "unknown field parallel_tool_calls", "parallel_tool_calls"),
    Server("Mistral", "chat", "Invalid tool definition: files__find", "reasoning_content: Extra inputs not permitted",
           "reasoning_content", "stream_options: Extra inputs are not permitted", "stream_options"),
    Server("Ollama", "chat", "invalid tool schema for files__find", "unknown field reasoning_content",
           "reasoning_content", "unknown field stream_options", "stream_options"),
    Server("llama.cpp", "chat", "failed to parse grammar: JSON schema conversion failed",
           "reasoning_content is not supported", "reasoning_content", "parallel_tool_calls is not supported",
           "parallel_tool_calls"),
    Server("vLLM", "chat", "Invalid tool parameters: tools[1] schema is not supported",
           "Extra inputs are not permitted: reasoning_content", "reasoning_content",
           "max_completion_tokens is not supported, use max_tokens", "max_completion_tokens"),
)  # fmt: skip


def _played(server: Server, request: AskModel, refusal: str, refuses: Callable[[str], bool]) -> str:
    """Return the outcome of a request to a server that refuses some bodies for good."""

    def answers(sent: httpx2.Request) -> httpx2.Response:
        if refusal and refuses(sent.content.decode()):
            body = json.dumps({"error": {"message": refusal, "code": 400}}).encode()
            return answer(body, 0, 400, "application/json")
        return answer(ACCEPTED[server.wire])

    with model_of(server.wire, answers) as model:
        outcome = model.reply(request)
    if isinstance(outcome, ModelFailed):
        return REFUSED if refusal[:20] in outcome.detail else f"lost its reason: {outcome.detail}"
    return MENDED if notes_of(outcome) else WORKS


def _offering(schema: object) -> AskModel:
    tool = ToolSpec("files__find", "Find.", json.dumps(schema))
    return asking(user("Do it."), tools=(READ_FILE, tool))


EITHER = {"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}
PLAIN = {"type": "object", "properties": {"a": {"type": "string"}}}


def combined(server: Server) -> str:
    return _played(server, _offering(EITHER), COMBINED, lambda body: "oneOf" in body)


def named(server: Server) -> str:
    odd = {"type": "object", "properties": {"$.x": {}}}
    return _played(server, _offering(odd), "Property keys should match pattern", lambda body: "$.x" in body)


def schemas(server: Server) -> str:
    return _played(server, _offering(PLAIN), server.schema, lambda body: "files__find" in body)


def ids(server: Server) -> str:
    messages = [Message("user", (Text("Do it."),))]
    for path in ("a", "b"):
        messages.append(Message("assistant", (ToolCall("c", "read_file", {"path": path}),)))
        messages.append(Message("user", (ToolResult("c", path, False),)))
    request = AskModel(View("", (READ_FILE,), Log(messages), ()), step=1, facts=0)
    seen: list[str] = []

    def repeats(body: str) -> bool:
        seen.append(body)
        if server.wire == "gemini":
            return False  # it matches results by name
        return body.replace(" ", "").count('"id":"c"') > 1 or body.replace(" ", "").count('"call_id":"c"') > 2

    outcome = _played(server, request, "tool ids must be unique", repeats)
    renamed = "c_2" in seen[-1]
    return MENDED if outcome == WORKS and renamed else outcome


def thoughts(server: Server) -> str:
    request = conversation(server.wire, calls=1)
    return _played(server, request, server.thought, lambda body: server.thought_words in body)


def unsigned(server: Server) -> str:
    thought = Thinking({"type": "thinking", "thinking": "a thought without a signature"})
    done = Message("assistant", (thought, Text("Done.")))
    seen: list[str] = []

    def refuses(body: str) -> bool:
        seen.append(body)
        return server.wire == "anthropic" and "a thought without" in body

    outcome = _played(server, asking(user("Do it."), done, user("Go on.")), "signature: Field required", refuses)
    return NOT_SENT if outcome == WORKS and "a thought without" not in seen[-1] else outcome


def _reply(server: Server, arguments: str, *, ends: bool = True) -> str:
    with model_of(server.wire, lambda _: answer(_call(server.wire, arguments, ends))) as model:
        request = asking(user("Do it."))
        outcome = model.reply(request)
    if isinstance(outcome, ModelFailed):
        return REFUSED if outcome.kind == "incomplete" and outcome.detail else outcome.detail
    outcome = with_mended_arguments(outcome, request)
    (call,) = (part for part in outcome.parts if isinstance(part, ToolCall))
    if not isinstance(call.arguments, dict):
        return REFUSED if "not JSON" in unreadable(call) else f"no reason for {call}"
    return MENDED if notes_of(outcome) else WORKS


def _call(wire: str, arguments: str, ends: bool) -> bytes:
    match wire:
        case "anthropic":
            used = {"type": "tool_use", "id": "c", "name": "read_file", "input": {}}
            events = [{"type": "content_block_start", "index": 0, "content_block": used},
                      {"type": "content_block_delta", "index": 0,
                       "delta": {"type": "input_json_delta", "partial_json": arguments}}]  # fmt: skip
            end = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
        case "responses":
            item = {"type": "function_call", "id": "i", "call_id": "c", "name": "read_file", "arguments": arguments}
            events = [{"type": "response.output_item.done", "output_index": 0, "item": item}]
            end = [{"type": "response.completed", "response": {"id": "r"}}]
        case "gemini":
            part = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}  # always an object
            events = [{"candidates": [{"content": {"parts": [part]}}]}]
            end = [{"candidates": [{"finishReason": "STOP"}]}]
        case _:
            function = {"name": "read_file", "arguments": arguments}
            delta = {"tool_calls": [{"index": 0, "id": "c", "function": function}]}
            events = [{"choices": [{"index": 0, "delta": delta}]}]
            end = [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    return stream(*events, *(end if ends else []))


def fields(server: Server) -> str:
    marks = (Breakpoint(-1, 0, "1h"), Breakpoint(0, 0, "5m"))
    request = asking(user("Do it."), tools=(TOOLS[0],), breakpoints=marks)
    return _played(server, request, server.field, lambda body: server.field_words in body)


KINDS: dict[str, Callable[[Server], str]] = {
    "`oneOf` at the top": combined,
    "odd parameter name": named,
    "schema refused": schemas,
    "repeated call id": ids,
    "thought refused": thoughts,
    "unsigned thought": unsigned,
    "almost JSON": lambda server: _reply(server, '{"path": "a",}'),
    "cut JSON": lambda server: _reply(server, '{"path": "a'),
    "field refused": fields,
    "stream breaks off": lambda server: _reply(server, '{"path": "a"}', ends=False),
}


def table() -> str:
    """Return the table for the documents."""
    rows = [f"| server | {' | '.join(KINDS)} |", f"|---|{'---|' * len(KINDS)}"]
    rows += [f"| {server.name} | {' | '.join(play(server) for play in KINDS.values())} |" for server in SERVERS]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table())  # noqa: T201 - its output goes into docs/models.md
