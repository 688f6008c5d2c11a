"""OpenAI's Responses API: converts views to its input, and streamed events to a reply.

Nothing is stored at the provider. Each request contains the whole conversation, including the provider's encrypted
reasoning, unchanged. Only a stream whose last event contains the complete response is a reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from stackmem.core.facts import ModelFailed, ModelReplied, Stop
from stackmem.core.images import no_image
from stackmem.core.messages import (
    OPENAI_SUMMARY,
    Message,
    ReplyPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    View,
)
from stackmem.core.text import whole, whole_value

from .failures import failed, kind_of_error, sentence, web_page
from .images import Sight, data_url
from .json_text import left_out, parse_arguments
from .openai_messages import FOREIGN_THOUGHT, named_parameters, spelled_call
from .openai_stream import Json, read_objects, scalar, token_count, tokens_in

_PIECES = (
    "response.output_item.added", "response.output_item.done", "response.function_call_arguments.delta",
    "response.function_call_arguments.done", "response.output_text.delta",
)  # fmt: skip
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CUT: dict[str, Stop] = {"max_output_tokens": "truncated", "content_filter": "refused"}
_NOTHING = "(no text)"


def responses_body(view: View, model: str, sight: Sight | None = None) -> Json:
    """Build the body, without ``stream`` and reply limit; equal views give equal bytes.

    Without ``sight``, images are left out.
    """
    sight = sight or Sight(view, None, no_image)
    body: Json = {
        "model": model,
        "input": [item for message in view.messages for item in _items(message, sight)],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if view.system.strip():
        body["instructions"] = whole(view.system)
    if view.tools:
        body["tools"] = [responses_tool(tool) for tool in view.tools]
        body["tool_choice"] = "auto"
        body["parallel_tool_calls"] = False
    return body


def responses_tool(tool: ToolSpec) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": whole(tool.description),
        "parameters": named_parameters(tool),
        "strict": False,
    }


def _items(message: Message, sight: Sight) -> list[Json]:
    """Convert a message: reasoning, text, then calls; for a user message, results, then text."""
    if message.role == "user":
        return _user(message, sight)
    text = "\n\n".join(whole(part.text) for part in message.parts if isinstance(part, Text) and part.text.strip())
    raw = next((part.raw for part in message.parts if isinstance(part, Thinking)), {})
    items: list[Json] = list(raw.get("items", ()))
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    if text or not calls:
        items.append(_message("assistant", "output_text", text or _NOTHING) | raw.get("message", {}))
    for call in calls:
        function = spelled_call(call)
        item = {"type": "function_call", "call_id": function["id"], **function["function"]}
        items.append(item | raw.get("calls", {}).get(call.id, {}))
    return items


def _user(message: Message, sight: Sight) -> list[Json]:
    """Convert a message of the user. A summary by the provider comes first, as the items that it returned."""
    window = [
        item
        for part in message.parts
        if isinstance(part, Thinking) and part.raw.get("type") == OPENAI_SUMMARY
        for item in part.raw.get("items", ())
    ]
    if window and all(isinstance(part, Thinking) for part in message.parts):
        return window
    return [*window, *_user_items(message, sight)]


def _user_items(message: Message, sight: Sight) -> list[Json]:
    results: list[Json] = []
    texts: list[str] = []
    pictures: list[Json] = []
    for part in message.parts:
        if not isinstance(part, Text | ToolResult):
            continue
        pairs, note = sight.of(part)
        images: list[Json] = [{"type": "input_image", "image_url": data_url(*each), "detail": "auto"} for each in pairs]
        text = whole(part.text) + note
        if isinstance(part, ToolResult):
            output = [{"type": "input_text", "text": text}, *images] if images else text
            results.append({"type": "function_call_output", "call_id": part.call_id or _NOTHING, "output": output})
        else:
            texts += [text] if text.strip() else []
            pictures += images
    if not (texts or pictures or not results):
        return results
    user_message = _message("user", "input_text", "\n\n".join(texts) or _NOTHING)
    return [*results, {**user_message, "content": [*user_message["content"], *pictures]}]


def _message(role: str, kind: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def read_response(events: Iterable[str], facts: int, secret: str = "") -> ModelReplied | ModelFailed:
    """Return the reply, or a failure if the stream contains an error, is malformed, or ends early."""
    items, ids = dict[Any, Json](), dict[Any, Any]()
    try:
        for text in events:
            if text.startswith("<"):
                return web_page(text, secret)
            for event in read_objects(text):
                kind = event.get("type")
                if kind in _PIECES:
                    _grow(items, ids, kind, event)
                elif kind in _ENDS or event.get("object") == "response":
                    response = event["response"] if isinstance(event.get("response"), dict) else event
                    return _ended(response, [*items.values()], facts, secret)
                elif kind == "error" or (kind is None and event.get("error")):
                    return _failure(event.get("error") or event, secret)
    except (ValueError, RecursionError) as error:
        return failed("incomplete", f"the reply's stream is malformed: {error}", secret)
    return failed("incomplete", "the reply's stream ended before its end was announced")


def _item_key(items: dict[Any, Json], ids: dict[Any, Any], event: Json, item: Json, *, begins: bool) -> Any:
    """Return the key of an event's item: by its id, otherwise by its index. Some servers change the id on the way."""
    identity, index = event.get("item_id") or item.get("id"), event.get("output_index")
    identity = identity if isinstance(identity, str | int) else None
    index = index if isinstance(index, str | int) else None
    if identity is not None and identity in ids:
        return ids[identity]
    key: Any = index
    if index is None and identity is None:
        return ""  # the only item without a name
    if index is None or (begins and index in items):
        key = (identity, len(items))
    if identity is not None:
        ids[identity] = key
    return key


def _grow(items: dict[Any, Json], ids: dict[Any, Any], kind: str, event: Json) -> None:
    """Add a piece to the items. Some servers send arguments or texts only in deltas, or in a separate event."""
    item = event["item"] if isinstance(event.get("item"), dict) else {}
    key = _item_key(items, ids, event, item, begins=kind.endswith("added"))
    fields = items.get(key, {})
    match kind:
        case "response.output_item.added":
            items[key] = dict(item)
        case "response.output_item.done":
            items[key] = {**fields, **{name: value for name, value in item.items() if value or name not in fields}}
        case "response.function_call_arguments.delta" if isinstance(event.get("delta"), str):
            fields["arguments"] = (fields.get("arguments") or "") + event["delta"]
        case "response.function_call_arguments.done" if isinstance(event.get("arguments"), str):
            fields["arguments"] = event["arguments"] or fields.get("arguments", "")
        case "response.output_text.delta" if isinstance(event.get("delta"), str) and fields.get("type", "message") == (
            "message"
        ):
            items[key] = fields = fields or {"type": "message"}  # some servers do not announce it
            full_text = "".join(_texts_in(fields.get("content"), "text")) + event["delta"]
            fields["content"] = [{"type": "output_text", "text": full_text}]


def _completed(listed: list[Json], pairs: list[Json]) -> list[Json]:
    """Return the items of the last event, with what only earlier events had of them."""
    by_name = {item[name]: item for item in pairs for name in ("id", "call_id") if isinstance(item.get(name), str)}
    return [
        {
            **by_name.get(item.get("call_id") or item.get("id"), {}),
            **{name: value for name, value in item.items() if value},
        }
        for item in listed
    ]


def _ended(response: Json, pairs: list[Json], facts: int, secret: str) -> ModelReplied | ModelFailed:
    if response.get("error") or response.get("status") == "failed":
        return _failure(response.get("error") or "the response failed", secret)
    listed = response.get("output")
    whole_items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    output = _completed(whole_items, pairs) if whole_items else pairs
    notes: list[str] = []
    parts, refusal = _parts(output, facts, notes)
    details = response.get("incomplete_details")
    reason = scalar(details.get("reason")) if isinstance(details, dict) else ""
    called = any(isinstance(part, ToolCall) for part in parts)
    stop: Stop = _CUT.get(reason, "truncated") if reason else "call" if called else "end"
    return ModelReplied(
        parts=parts,
        stop="refused" if refusal else stop,
        usage=response_usage(response.get("usage")),
        detail=refusal[:500],
        reply_id=whole(scalar(response.get("id")))[:200],
        repairs=tuple(notes) or UNSET,
    )


def _parts(output: list[Json], facts: int, notes: list[str]) -> tuple[tuple[ReplyPart, ...], str]:
    """Return the parts, with the thought first, and the refusal's text. Notes name what no part can contain."""
    raw: Json = {"type": FOREIGN_THOUGHT, "thinking": ""}
    texts: list[str] = []
    refusals: list[str] = []
    calls: list[ToolCall] = []
    for item in output:
        match item.get("type"):
            case "reasoning":
                raw.setdefault("items", []).append(whole_value(item))
                raw["thinking"] += "".join(
                    _texts_in(item.get("summary"), "text") or _texts_in(item.get("content"), "text")
                )
            case "message":
                texts += _message_texts(item.get("content"), notes)
                refusals += _texts_in(item.get("content"), "refusal")
                _keep(raw, "message", {name: item[name] for name in ("id", "phase") if item.get(name)})
            case "function_call" | "custom_tool_call":
                identity = whole(scalar(item.get("call_id"))) or f"call_{facts}_{len(calls)}"
                calls.append(called(item, identity))
                if item.get("id"):
                    _keep(raw, "calls", {identity: {"id": item["id"]}})
            case kind:
                notes.append(left_out(f"an item of the kind {kind!r:.40}", item))
    text = whole("".join(texts))
    thought = [Thinking(whole_value(raw))] if len(raw) > 2 else []
    return (*thought, *([Text(text)] if text else []), *calls), whole("".join(refusals))


def _message_texts(content: Any, notes: list[str]) -> list[str]:
    if isinstance(content, str):
        return [content]
    notes += [
        left_out("a part of a message", part)
        for part in (content if isinstance(content, list) else [content] if content else [])
        if not isinstance(part, dict) or not any(isinstance(part.get(name), str) for name in ("text", "refusal"))
    ]
    return _texts_in(content, "text")


def called(item: Json, identity: str) -> ToolCall:
    """Convert a function call, or a call of a custom tool, which has a text in place of arguments."""
    name = whole(scalar(item.get("name")))
    if item.get("type") == "custom_tool_call":
        return ToolCall(identity, name, {"input": whole(scalar(item.get("input")))})
    arguments = item.get("arguments")
    value, malformed = parse_arguments(arguments if isinstance(arguments, str) else json.dumps(arguments))
    return ToolCall(identity, name, value, malformed)


def _keep(raw: Json, name: str, fields: Json) -> None:
    if fields:
        raw[name] = {**raw.get(name, {}), **fields}


def _texts_in(content: Any, field: str) -> list[str]:
    parts = content if isinstance(content, list) else []
    return [part[field] for part in parts if isinstance(part, dict) and isinstance(part.get(field), str)]


def response_usage(usage: Any) -> Usage:
    counts = usage if isinstance(usage, dict) else {}
    details = counts.get("input_tokens_details")
    counted = details if isinstance(details, dict) else {}
    prompt = token_count(counts.get("input_tokens"))
    return tokens_in(prompt, counted, token_count(counts.get("output_tokens")))


def _failure(error: Any, secret: str) -> ModelFailed:
    fields = error if isinstance(error, dict) else {}
    kind = kind_of_error(scalar(fields.get("code") or fields.get("type")), json.dumps(error))
    return failed(kind, f"an error in mid-stream: {sentence(error) or json.dumps(error)}", secret)
