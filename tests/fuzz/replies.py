"""Replies of providers on all wires: raw bytes, replies that are made with oddities, and refusals.

Rule 1: Every attempt ends with a reply or with a named reason.
Rule 2: A made reply is complete, so it is never a failure, and each of its words is in the trace, unless a note says
    what was left out.
Rule 3: After a refusal, a request is never sent again unchanged, and each change has a note.
"""

import json
from pathlib import Path
from typing import Any

import httpx2

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import ToolCall
from stackmem.providers.mending.arguments import with_mended_arguments
from tests.fuzz.choices import Choices
from tests.fuzz.providers import (
    MAX_REQUESTS,
    answer,
    conversation,
    lost_words,
    model_of,
    named,
    notes_of,
)
from tests.fuzz.seeds import answers_of
from tests.providers.views import asking, user

Json = dict[str, Any]


def raw_reply(data: bytes, place: Path, *, wire: str) -> None:
    """The first line of an input is the response's status, type and size of pieces; the rest is its body."""
    head, _, body = data.partition(b"\n")
    status, kind, piece = _head(head)
    with model_of(wire, lambda _: answer(body, piece, status, kind)) as model:
        named(model.reply(asking(user("Do it."))))


def _head(line: bytes) -> tuple[int, str, int]:
    words = line.decode("ascii", "replace").split()
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 6]
    status = next((one for one in numbers if 200 <= one < 600), 200)
    kind = next((word for word in words if "/" in word and word.isascii() and word.isprintable()), "text/event-stream")
    return status, kind, numbers[-1] % 400 if numbers else 0


def raw_seeds(wire: str) -> list[bytes]:
    name = {"anthropic": "anthropic-messages", "chat": "openai-chat", "responses": "openai-responses"}.get(wire, wire)
    refusal = b'400 application/json 0\n{"error": {"message": "no", "type": "invalid_request_error"}}'
    made = [make(wire, Choices(bytes(start)))[0] for start in ((), (7, 3, 1, 2), (9, 2, 2, 5, 1))]
    return [
        *(b"200 text/event-stream 64\n" + body for body in answers_of(name) if body[:2] != b"\x1f\x8b"),
        *(b"200 text/event-stream 7\n" + body for body in made),
        refusal,
        b"200 text/html 0\n<!doctype html><title>Log in</title>",
        b"503 text/plain 3\nupstream connect error",
    ]


def made_reply(data: bytes, place: Path, *, wire: str) -> None:
    choices = Choices(data)
    body, words = make(wire, choices)
    piece = choices.of(0, 1, 3, 50)
    request = asking(user("Do it."))
    with model_of(wire, lambda _: answer(body, piece)) as model:
        outcome = model.reply(request)
    named(outcome)
    assert isinstance(outcome, ModelReplied), f"{outcome}\n{body.decode(errors='replace')}"
    outcome = with_mended_arguments(outcome, request)
    unread = [part for part in outcome.parts if isinstance(part, ToolCall) and part.malformed is not None]
    assert not unread, f"unread arguments {unread[0].malformed!r}"
    lost = lost_words(outcome, words)
    left_out = [note for note in notes_of(outcome) if "left out" in note or "without" in note]
    assert not lost or left_out, f"lost {lost} of {body.decode(errors='replace')}\nin {outcome}"


def made_seeds(_: str) -> list[bytes]:
    return [bytes(row) for row in (range(40), range(80, 20, -1), [1] * 30, [3, 1, 2] * 12)]


Plan = list[tuple[str, str]]


def make(wire: str, choices: Choices) -> tuple[bytes, list[str]]:
    """Return the body of a reply, and the words in it."""
    plan = [("text", choices.word())]
    plan += [(choices.of("text", "call", "thought", "odd"), choices.word()) for _ in range(choices.below(3))]
    if choices.below(3):
        plan.append(("call", choices.word()))
    body = {"anthropic": _messages, "chat": _chat, "responses": _responses, "gemini": _gemini}[wire](plan, choices)
    return body, [word for _, word in plan]


def _stream(events: list[Json], choices: Choices, *, names: bool = False, done: bool = False) -> bytes:
    """Spell events with line ends and comments that differ between servers."""
    end = choices.of("\n", "\r\n", "\r")
    comment = choices.of("", f": keep-alive{end}{end}")
    blank = choices.of(" ", "")
    texts = []
    for event in events:
        name = f"event: {event.get('type')}{end}" if names and choices.below(4) else ""
        texts.append(f"{comment}{name}data:{blank}{json.dumps(event, ensure_ascii=bool(choices.below(2)))}{end}{end}")
    return ("".join(texts) + (f"data: [DONE]{end}{end}" if done else "")).encode()


def _arguments(word: str, choices: Choices) -> Any:
    """Return arguments that have one meaning, as servers spell them."""
    text = json.dumps({"path": word, "line": 3})
    return choices.of(
        text, text[:-1] + ",}", text + "<|im_end|>", "```json\n" + text + "\n```", text + text, "{}" + text,
        text.replace("3}", '"3"}'), json.dumps({"path": word + "\n", "line": 3}).replace("\\n", "\n"), json.dumps(text),
    )  # fmt: skip


def _pieces(text: str, choices: Choices) -> list[str]:
    size = choices.of(len(text) or 1, 1, 5)
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def _chat(plan: Plan, choices: Choices) -> bytes:
    deltas: list[Json] = []
    called = last = 0
    for kind, word in plan:
        last = len(deltas)
        if kind == "call":
            deltas += _chat_call(word, called, choices)
            called += 1
        elif kind == "thought":
            field = choices.of("reasoning_content", "reasoning", "content")
            deltas.append({field: [{"type": "thinking", "thinking": word}] if field == "content" else word})
        elif kind == "odd":
            deltas.append({"content": [choices.of(
                {"type": "image_url", "image_url": {"url": word}}, {"type": "citation", "source": word},
                {"type": "output_text", "text": word}, {"type": "audio", "data": word}, word,
            )]})  # fmt: skip
        else:
            deltas.append({"content": choices.of(word, [{"type": "text", "text": word}], {"text": word})})
    finish = choices.of("tool_calls" if called else "stop", "stop", "", "STOP", "finished", None)
    choice = choices.of(0, 0, 0, 1, "0", None)
    chunks: list[Json] = [{"id": choices.of("r", 7, None), "choices": [{"index": 0, "delta": {"role": "assistant"}}]}]
    for place, delta in enumerate(deltas):
        # some gateways put the call into a second choice
        index = choice if place >= last and choice else 0
        chunks.append({"choices": [{"index": index, "delta": delta, "finish_reason": None}]})
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": choices.of({}, None), "finish_reason": finish}]})
    chunks.append({"choices": choices.of([], None), "usage": choices.of({"prompt_tokens": 5}, None, {})})
    if finish and choices.rarely() and all("content" not in delta or delta["content"] for delta in deltas):
        return _whole_chat(plan, finish, choices)
    return _stream(chunks, choices, done=not finish or bool(choices.below(2)))


def _whole_chat(plan: Plan, finish: str, choices: Choices) -> bytes:
    """Return a body that is not a stream."""
    message: Json = {"role": "assistant", "content": "".join(word for kind, word in plan if kind in ("text", "odd"))}
    thoughts = "".join(word for kind, word in plan if kind == "thought")
    if thoughts:
        message["reasoning_content"] = thoughts
    calls = [word for kind, word in plan if kind == "call"]
    if calls:
        message["tool_calls"] = [
            {"id": choices.of(f"c{place}", "c", ""), "function": {"name": "read_file", "arguments": {"path": word}}}
            for place, word in enumerate(calls)
        ]
    body = {"choices": [{"index": choices.of(0, None), "message": message, "finish_reason": finish}]}
    return json.dumps(body, indent=choices.of(None, 1)).encode()


def _chat_call(word: str, number: int, choices: Choices) -> list[Json]:
    arguments = _arguments(word, choices)
    identity = choices.of(f"call_{number}", f"call_{number}", number, "x" * 90 + str(number))
    index = choices.of(number, float(number), str(number))
    function: Json = {"name": "read_file"}
    if choices.rarely():
        whole = {**function, "arguments": choices.of(arguments, {"path": word})}
        return [{"tool_calls": [{"index": index, "id": identity, "type": "function", "function": whole}]}]
    pieces = _pieces(arguments, choices)
    first = {"index": index, "id": identity, "function": {**function, "arguments": choices.of("", None)}}
    repeated = choices.of({}, {"id": identity}, {"id": None, "type": None}, {"id": ""})
    more = [{"index": index, **repeated, "function": {"arguments": piece}} for piece in pieces]
    return [{"tool_calls": [each]} for each in (first, *more)]


def _messages(plan: Plan, choices: Choices) -> bytes:
    events: list[Json] = [{"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5}}}]
    called = False
    step = choices.of(1, 2, 0)  # some servers number every block 0
    for number, (kind, word) in enumerate(plan):
        index = number * step
        start, deltas = _block(kind, word, choices)
        called = called or kind == "call"
        if kind != "text" or choices.below(6) != 5 or not deltas or not step:
            events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        if not choices.rarely():
            events.append({"type": "content_block_stop", "index": index})
        if choices.rarely():
            events.append(choices.of({"type": "ping"}, {"type": "odd_event", "index": index}))
    reason = choices.of("tool_use" if called else "end_turn", "end_turn", "stop_sequence", "odd_reason")
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}})
    events.append({"type": "message_stop"})
    if choices.rarely():
        blocks = [_block(kind, word, Choices(b""))[0] | _filled(kind, word) for kind, word in plan]
        return json.dumps({"type": "message", "id": "m", "content": blocks, "stop_reason": reason}).encode()
    return _stream(events, choices, names=True)


def _filled(kind: str, word: str) -> Json:
    match kind:
        case "call":
            return {"input": {"path": word}}
        case "thought":
            return {"thinking": word}
        case "text":
            return {"text": word}
    return {}


def _block(kind: str, word: str, choices: Choices) -> tuple[Json, list[Json]]:
    match kind:
        case "call":
            start = {"type": "tool_use", "id": choices.of(f"t{word}", "t", "", 5), "name": "read_file", "input": {}}
            pieces = _pieces(_arguments(word, choices), choices)
            return start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        case "thought":
            signed = {"type": "signature_delta", "signature": "c2ln"}
            more = [] if choices.rarely() else [signed]
            return {"type": "thinking", "thinking": ""}, [{"type": "thinking_delta", "thinking": word}, *more]
        case "odd":
            return choices.of(
                ({"type": "redacted_thinking", "data": word}, []),
                ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                 [{"type": "input_json_delta", "partial_json": json.dumps({"query": word})}]),
                ({"type": "web_search_tool_result", "content": [{"url": word}]}, []),
                ({"type": "new_kind"}, [{"type": "text_delta", "text": word}]),
                ({"type": "text", "text": ""}, [{"type": "text_delta", "text": word},
                                                {"type": "citations_delta", "citation": {"url": "x"}}]),
            )  # fmt: skip
    if choices.rarely():
        return {"type": "text", "text": word}, []
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(word, choices)]


def _responses(plan: Plan, choices: Choices) -> bytes:
    events: list[Json] = [{"type": "response.created", "response": {"id": "r"}}]
    output: list[Json] = []
    named_by = choices.of("item_id", "output_index", "changing")
    for number, (kind, word) in enumerate(plan):
        item, pieces, field = _item(kind, word, number, choices)
        output.append(item)
        place: Json = {"output_index": number}
        if named_by != "output_index":
            place["item_id"] = item.get("id") if named_by == "item_id" else f"odd{number}"
        empty = {**item, field: [] if field == "content" else ""} if pieces else item
        events.append({"type": "response.output_item.added", "output_index": number, "item": empty})
        text = "output_text" if field == "content" else "function_call_arguments"
        if pieces:
            events += [{"type": f"response.{text}.delta", **place, "delta": piece} for piece in pieces]
        if pieces and field == "arguments":
            events.append({"type": f"response.{text}.done", **place, "arguments": "".join(pieces)})
        if not choices.rarely():
            events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    finished: Json = {"id": "r", "status": "completed", "usage": choices.of({"input_tokens": 3}, None)}
    finished |= choices.of({"output": output}, {"output": []}, {}, {"output": None})
    if finished.get("output") and choices.rarely():
        return json.dumps({"object": "response", **finished}).encode()
    return _stream([*events, {"type": "response.completed", "response": finished}], choices, names=True)


def _item(kind: str, word: str, number: int, choices: Choices) -> tuple[Json, list[str], str]:
    """Return an item, the pieces in which it is sent, and the field that they fill."""
    identity = {"id": f"i{number}"}
    match kind:
        case "call":
            arguments = _arguments(word, choices)
            call = {"type": "function_call", **identity, "call_id": choices.of(f"c{number}", "c", ""),
                    "name": "read_file", "arguments": arguments}  # fmt: skip
            return call, _pieces(arguments, choices) if choices.below(2) else [], "arguments"
        case "thought":
            summary = [{"type": "summary_text", "text": word}]
            return {"type": "reasoning", **identity, "summary": summary, "encrypted_content": "gAAA"}, [], ""
        case "odd":
            item = choices.of(
                {"type": "web_search_call", **identity, "action": {"query": word}},
                {"type": "message", **identity, "role": "assistant", "content": word},
                {"type": "message", **identity, "role": "assistant", "content": [{"type": "text", "text": word}]},
                {"type": "message", **identity, "role": "assistant", "content": [{"type": "chart", "data": word}]},
                {"type": "custom_tool_call", **identity, "call_id": "k", "name": "patch", "input": word},
                {"type": "mcp_call", **identity, "name": "find", "arguments": "{}", "output": word},
            )
            return item, [], ""
    content = [{"type": "output_text", "text": word}]
    message = {"type": "message", **identity, "role": "assistant", "content": content}
    return message, _pieces(word, choices) if choices.below(2) else [], "content"


def _gemini(plan: Plan, choices: Choices) -> bytes:
    chunks: list[Json] = []
    for number, (kind, word) in enumerate(plan):
        part: Json = {"text": word}
        if kind == "call":
            identity = choices.of({}, {"id": f"g{number}"}, {"id": "g"}, {"id": ""})
            part = {"functionCall": {"name": "read_file", "args": {"path": word}, **identity}}
        elif kind == "thought":
            part = {"text": word, "thought": True}
        elif kind == "odd":
            part = choices.of(
                {"executableCode": {"language": "PYTHON", "code": word}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": word}},
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "text": word},
                {"fileData": {"fileUri": word}},
            )
        if choices.rarely():
            part["thoughtSignature"] = "c2ln"
        candidates = [{"content": {"role": "model", "parts": [part]}, "index": 0}]
        if choices.rarely():
            candidates.append({"content": {"role": "model", "parts": [{"text": "other"}]}, "index": 1})
        chunks.append({"candidates": candidates, "responseId": "r"})
    end = {"candidates": [{"content": choices.of({"parts": [{"text": ""}]}, {}, None), "index": 0,
                           "finishReason": choices.of("STOP", "FINISH_REASON_UNSPECIFIED", "NEW_REASON", "OTHER")}],
           "usageMetadata": choices.of({"promptTokenCount": 5}, None)}  # fmt: skip
    return _stream([*chunks, end], choices)


STATUSES = (400, 400, 400, 422, 413, 404, 500, 503, 429, 501)
WORDS = (
    "tools.1.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    "Invalid schema for function 'files__find': schema must be a JSON Schema of 'type: \"object\"'",
    "Invalid `signature` in `thinking` block", "thinking is not supported by this model",
    "Expected `thinking` or `redacted_thinking`, but found `tool_use`", "reasoning_content is missing in message 1",
    "Unrecognized request argument supplied: parallel_tool_calls", "Unknown parameter: 'stream_options'",
    "Unsupported parameter: 'max_tokens', use 'max_completion_tokens'", "`tool_use` ids must be unique",
    "Function call is missing a thought_signature", "function_declarations[1].parameters: unknown name",
    "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", "strict: Extra inputs are not permitted",
    "does not support tools", "cache_control.ttl: Extra inputs are not permitted", "tool_choice is not supported",
    "messages.1.content.0: unexpected field reasoning_details", "no", "", "This model does not support tool use",
    "item 'rs_1' of type 'reasoning' was provided without its required following item", "encrypted_content is invalid",
    "maximum context length is 10 tokens, however max_tokens", "disable_parallel_tool_use: not permitted",
)  # fmt: skip


def refusals(data: bytes, place: Path, *, wire: str) -> None:
    """A server refuses some requests, perhaps all of them."""
    choices = Choices(data)
    request = conversation(wire, calls=choices.of(2, 0, 1, 3), thought=choices.below(4) != 3)
    accepted = make(wire, Choices(b""))[0]
    stubborn = choices.rarely()
    asked: list[bytes] = []

    def answers(sent: httpx2.Request) -> httpx2.Response:
        asked.append(sent.content)
        assert len(asked) <= MAX_REQUESTS, f"{len(asked)} requests for one reply"
        assert sent.content not in asked[:-1], "a refused request was sent again unchanged"
        words = [choices.one(WORDS)] * 1 + [choices.one(WORDS) for _ in range(choices.below(2))]
        if not stubborn and not choices.below(3):
            return answer(accepted)
        error = {"message": "; ".join(words), "type": "invalid_request_error"}
        shape = choices.of({"error": error}, error, {"detail": error["message"]}, [{"error": error}])
        body = json.dumps(shape) if choices.below(5) else error["message"]
        return answer(body.encode(), 0, choices.one(STATUSES), "application/json")

    with model_of(wire, answers) as model:
        for _ in range(choices.of(1, 2)):
            before = len(asked)
            outcome = model.reply(request)
            named(outcome)
            changes = len(asked) - before - 1
            assert not changes or notes_of(outcome), f"{changes} changes of the request without a note: {outcome}"
            if isinstance(outcome, ModelFailed):
                break
            asked.clear()


def refusal_seeds(_: str) -> list[bytes]:
    return [bytes([0, 0, 0, number, 0, 1, 0, 1, 0]) for number in range(len(WORDS))]
