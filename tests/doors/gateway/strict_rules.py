"""The documented rules of the four APIs about the order of messages, checked as a strict provider checks them.

Unlike ``tests.providers.api_rules``, which covers our own requests, this accepts unknown fields and every form in which
other agents write a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.wire import WireFormat
from tests.providers.api_rules import signature

Json = dict[str, Any]
THOUGHTS = ("thinking", "redacted_thinking")
_MANUAL_ONLY = re.compile(r"claude-(3-7-|(opus|sonnet|haiku)-4(-[0-5])?(-2025\d+)?$)")
_MANUAL_TOO = re.compile(r"claude-(opus|sonnet)-4-6")
_BOUND = re.compile(r"claude-(fable-5-[1-9]|(opus|sonnet|haiku)-5-5)")


def fault(wire: WireFormat, body: Json, given: Mapping[str, Any]) -> str | None:
    """Return the message of the 400 for a request; None if it is valid.

    Args:
        given: For each call id, what the provider returned with the call: the thinking blocks of the reply, or the id
            of the reasoning item.
    """
    check = {MESSAGES.name: _messages, CHAT.name: _chat, GEMINI.name: _gemini}.get(wire.name, _responses)
    return next(check(body, given), None)


def binds_thinking(model: str) -> bool:
    """Return whether a model binds its thinking to everything before it."""
    return bool(_BOUND.match(model))


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _merged(messages: list[Json]) -> list[tuple[str, list[Json]]]:
    """Return the turns as the API sees them: adjacent messages of one role are one."""
    turns: list[tuple[str, list[Json]]] = []
    for one in messages:
        if one["role"] == "system":
            continue
        if turns and turns[-1][0] == one["role"]:
            turns[-1][1].extend(_blocks(one))
        else:
            turns.append((one["role"], list(_blocks(one))))
    return turns


def _messages(body: Json, given: Mapping[str, Any]) -> Iterator[str]:
    messages = body["messages"]
    roles = [one["role"] for one in messages]
    for at, role in enumerate(roles):
        if role == "system" and (at == 0 or roles[at - 1] != "user"):
            yield f"messages.{at}: role 'system' must follow a 'user' message"
        if role == "system" and at + 1 < len(roles) and roles[at + 1] != "assistant":
            yield f"messages.{at}: role 'system' must precede an 'assistant' message or end the array"
    turns = _merged(messages)
    if not turns or turns[0][0] != "user" or turns[-1][0] != "user":
        yield "messages: the first and the last turn must be the user's"
    yield from _pair_faults(turns)
    marks = str(body).count("'cache_control'")
    if marks > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    yield from _thinking_faults(body, turns, given)
    drops = (body.get("thinking", {}).get("block_binding") or {}).get("prefix_mismatch_behavior") == "drop_block"
    if binds_thinking(body["model"]) and not drops:
        yield from _binding_faults(body)


def _pair_faults(turns: list[tuple[str, list[Json]]]) -> Iterator[str]:
    waiting: list[str] = []
    for at, (_, blocks) in enumerate(turns):
        kinds = [block.get("type") for block in blocks]
        answered = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        if sorted(answered) != sorted(waiting):
            yield f"turn {at}: `tool_use` ids were found without `tool_result` blocks: {waiting} against {answered}"
        if any(kind != "tool_result" for kind in kinds[: len(answered)]):
            yield f"turn {at}: tool_result blocks must come first"
        if any(
            kind == "text" and not str(block.get("text")).strip() for kind, block in zip(kinds, blocks, strict=True)
        ):
            yield f"turn {at}: text content blocks must be non-empty"
        waiting = [block["id"] for block in blocks if block.get("type") == "tool_use"]
    if waiting:
        yield f"`tool_use` ids were found without `tool_result` blocks: {waiting}"


def _thinking_faults(body: Json, turns: list[tuple[str, list[Json]]], given: Mapping[str, Any]) -> Iterator[str]:
    mode = body.get("thinking", {}).get("type")
    if (mode == "enabled" and not _manual(body["model"])) or (mode == "adaptive" and _MANUAL_ONLY.match(body["model"])):
        yield f"thinking: type {mode!r} is not supported for {body['model']}"
    spoken = [blocks for role, blocks in turns if role == "assistant"]
    for blocks in spoken:
        if blocks[-1].get("type") in THOUGHTS:
            yield "The final block in an assistant message cannot be `thinking`."
        if any(block.get("type") in THOUGHTS and "cache_control" in block for block in blocks):
            yield "cache_control cannot be set on thinking blocks"
    loop = _running_loop(turns)
    if mode == "enabled" and loop and loop[0][0].get("type") not in THOUGHTS:
        yield "Expected `thinking`; a final `assistant` message must start with a thinking block"
    for blocks in loop[-1:]:
        shown = [_thought(block) for block in blocks if block.get("type") in THOUGHTS]
        meant = next((list(map(_thought, given[block["id"]])) for block in blocks if block.get("id") in given), shown)
        if shown != meant and (mode == "enabled" or shown):
            yield "`thinking` blocks in the latest assistant message cannot be modified"


def _thought(block: Json) -> Json:
    return {name: block.get(name) for name in ("type", "thinking", "signature", "data")}


def _manual(model: str) -> bool:
    return bool(_MANUAL_ONLY.match(model) or _MANUAL_TOO.match(model))


def _running_loop(turns: list[tuple[str, list[Json]]]) -> list[list[Json]]:
    """Return the replies since the user last wrote something other than results."""
    loop: list[list[Json]] = []
    for role, blocks in reversed(turns):
        if role == "user" and not any(block.get("type") == "tool_result" for block in blocks):
            break
        if role == "assistant":
            loop.insert(0, blocks)
    return loop


def _binding_faults(body: Json) -> Iterator[str]:
    for at, message in enumerate(body["messages"]):
        for block in _blocks(message):
            if block.get("type") == "thinking" and block["signature"] != signature(body, at, block["thinking"]):
                yield f"messages.{at}: the thinking block is bound to a different conversation"


def _chat(body: Json, _: Mapping[str, Any]) -> Iterator[str]:
    waiting: set[str] = set()
    for at, one in enumerate(body["messages"]):
        if one["role"] == "tool":
            if one["tool_call_id"] not in waiting:
                yield f"messages.{at}: 'tool' must follow a message with 'tool_calls' that has its id"
            waiting.discard(one["tool_call_id"])
            continue
        if waiting:
            yield f"messages.{at}: these tool_call_ids have no response: {sorted(waiting)}"
        calls = one.get("tool_calls") or []
        waiting = {call["id"] for call in calls}
        if one["role"] == "assistant" and not one.get("content") and not calls:
            yield f"messages.{at}: content or tool_calls must be set"
    if waiting:
        yield f"these tool_call_ids have no response: {sorted(waiting)}"


def _responses(body: Json, given: Mapping[str, Any]) -> Iterator[str]:
    items = body["input"] if isinstance(body["input"], list) else []
    called: set[str] = set()
    answered: set[str] = set()
    reasoned: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "reasoning":
            reasoned.add(item["id"])
            after = items[at + 1] if at + 1 < len(items) else {}
            if after.get("type") not in ("function_call", "custom_tool_call") and after.get("role") != "assistant":
                yield f"Item {item['id']!r} of type 'reasoning' was provided without its required following item."
        elif kind in ("function_call", "custom_tool_call"):
            called.add(item["call_id"])
            if (wanted := given.get(item["call_id"])) and wanted not in reasoned:
                yield f"{kind} {item['call_id']!r} was provided without its required 'reasoning' item {wanted!r}."
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if item["call_id"] not in called or item["call_id"] in answered:
                yield f"No tool call found for function call output with call_id {item['call_id']}."
            answered.add(item["call_id"])
    if not body.get("previous_response_id") and called - answered:
        yield f"No tool output found for function call {sorted(called - answered)}."


def _gemini(body: Json, _given: Mapping[str, Any]) -> Iterator[str]:
    waiting: list[str] = []
    contents = body["contents"]
    for place, one in enumerate(contents):
        calls = [part["functionCall"]["name"] for part in one["parts"] if "functionCall" in part]
        responses = [part["functionResponse"] for part in one["parts"] if "functionResponse" in part]
        # Gemini CLI repeats them after a resume, with the same ids
        answers = [each["name"] for at, each in enumerate(responses) if "id" not in each or each not in responses[:at]]
        if answers != waiting:
            yield f"content {place}: function responses {answers} do not follow the calls {waiting}"
        if place and one["role"] == contents[place - 1]["role"]:
            yield f"content {place}: the roles do not alternate"
        waiting = calls
    if waiting:
        yield f"calls without a response: {waiting}"
