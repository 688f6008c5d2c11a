"""Assembles the chunks of a streamed Chat Completions reply from any server.

- Accepts the deviations that other clients accept: numeric ids, content in parts, calls without an index, a
  complete body in place of a stream. Anything else is a failed attempt, never a guess.
- A stream is a reply only if a finish reason or ``[DONE]`` ended it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Struct, field

from stackmem.core.facts import ModelFailed, ModelReplied, Stop
from stackmem.core.messages import FailureKind, ReplyPart, Text, Thinking, ToolCall, Usage
from stackmem.core.text import whole, whole_value

from .failures import failed, kind_of_error, kind_of_status, sentence, web_page
from .json_text import MAX_TOKENS, left_out, parse_arguments
from .openai_messages import FOREIGN_THOUGHT

Json = dict[str, Any]

_DONE = "[DONE]"
_STOPS: dict[str, Stop] = {
    "stop": "end", "eos": "end", "eos_token": "end", "end_turn": "end", "stop_sequence": "end", "complete": "end",
    "tool_calls": "call", "tool_call": "call", "tool_use": "call", "function_call": "call",
    "length": "truncated", "max_tokens": "truncated", "max_output_tokens": "truncated", "model_length": "truncated",
    "content_filter": "refused", "safety": "refused", "sensitive": "refused", "recitation": "refused",
}  # fmt: skip
_BROKEN_OFF: dict[str, FailureKind] = {
    "error": "server_error", "insufficient_system_resource": "overloaded", "network_error": "connection",
}  # fmt: skip
"""Finish reasons with which a server reports that it gave up."""
_MAX_CALLS = 1_000
_MAX_CHOICES = 100
_REPEATED_CHARS = 4_000
_LONGEST_PERIOD = 400
_PIECES_BETWEEN_LOOKS = 100
_THOUGHTS = ("reasoning_content", "reasoning")
_WANTED_BACK = re.compile(r"(?!(reasoning|reasoning_content)$)(reasoning|thought|thinking|encrypted|extra_content)")
"""Message fields that a provider may require back unchanged."""
_CALL_FIELDS = {"id", "index", "type", "function", "name", "arguments"}


class _Call(Struct):
    id: str
    name: str
    index: int | None
    arguments: list[str]
    more: Json

    @property
    def is_whole(self) -> bool:
        return any(self.arguments) and parse_arguments("".join(self.arguments))[1] is None


class _ChatReply(Struct):
    texts: list[str]
    thoughts: list[str]
    refusals: list[str]
    calls: list[_Call]
    more: Json
    notes: dict[str, None] = field(default_factory=dict)
    others: dict[int, _ChatReply] = field(default_factory=dict)  # further choices, of which none was asked for
    thought_field: str = FOREIGN_THOUGHT
    usage: Usage = Usage()
    id: str = ""
    finish_reason: str | None = None
    ended: bool = False
    looked_at: int = 0
    error: ModelFailed | None = None


def read_chat(events: Iterable[str], facts: int, secret: str = "") -> ModelReplied | ModelFailed:
    """Return the reply, or a failure if the stream contains an error, is malformed, or ends early.

    Calls without an id are named after ``facts``, so that results can be matched to them.
    """
    reply = _ChatReply([], [], [], [], {})
    try:
        for text in events:
            if text.strip() == _DONE:
                reply.ended = True
                break
            if text.startswith("<"):
                return web_page(text, secret)
            for chunk in read_objects(text):
                _take(reply, chunk, secret)
                if reply.error is not None:
                    return reply.error
            if _repeats_itself(reply):
                # Small models can repeat one line until their window is full; stop reading then.
                reply.finish_reason, reply.ended = "length", True
                break
    except (ValueError, RecursionError) as error:
        return failed("incomplete", f"the reply's stream is malformed: {error}", secret)
    _with_others(reply)
    reason = (reply.finish_reason or "").lower()
    if reason in _BROKEN_OFF:
        return failed(_BROKEN_OFF[reason], f"the server broke its reply off: {reason}")
    parts = _parts(reply, facts)
    if not reason and not (reply.ended and parts):
        return failed("incomplete", "the reply's stream ended before its end was announced")
    refusal = whole("".join(reply.refusals))
    mapped = _STOPS.get(reason)
    stop: Stop = "call" if reply.calls and mapped in {None, "end"} else mapped or "end"
    return ModelReplied(
        parts=parts,
        stop="refused" if refusal else stop,
        usage=reply.usage,
        detail=refusal[:500] or ("" if mapped or not reason else f"finish reason {reply.finish_reason!r:.80}"),
        reply_id=whole(reply.id)[:200],
        repairs=tuple(reply.notes) or UNSET,
    )


def _repeats_itself(reply: _ChatReply) -> bool:
    """Return whether the text or the last call's arguments end in one short piece repeated over and over."""
    pieces = reply.calls[-1].arguments if reply.calls else reply.texts
    if len(pieces) - reply.looked_at < _PIECES_BETWEEN_LOOKS:
        return False
    reply.looked_at = len(pieces)
    tail = ""
    for piece in reversed(pieces):
        tail = piece + tail
        if len(tail) >= _REPEATED_CHARS:
            break
    tail = tail[-_REPEATED_CHARS:]
    end = tail[-_LONGEST_PERIOD:]
    period = len(tail) - len(end) - tail.rfind(end, 0, len(tail) - 1)
    return len(tail) == _REPEATED_CHARS and period <= _LONGEST_PERIOD and tail[period:] == tail[:-period]


def read_objects(text: str) -> list[Json]:
    """Parse an event: one object, a list of objects, or several objects on separate lines."""
    try:
        value = json.loads(text) if text.strip() else []
    except ValueError:
        lines = [line.removeprefix("data:").strip() for line in text.splitlines()]
        if len(lines) < 2:
            raise
        value = [json.loads(line) for line in lines if line and line != _DONE]
    return [_object(item) for item in (value if isinstance(value, list) else [value])]


def _take(reply: _ChatReply, chunk: Json, secret: str) -> None:
    choices = [_object(choice) for choice in _list(chunk.get("choices"))]
    if (error := _error(chunk, whole_body=not choices)) is not None:
        reply.error = _failure(error, secret, mid_stream=bool(reply.texts))
        return
    reply.id = scalar(chunk.get("id")) or reply.id
    groq = _object(chunk.get("x_groq"))
    for usage in (chunk.get("usage"), groq.get("usage"), *(choice.get("usage") for choice in choices)):
        if isinstance(usage, dict):
            reply.usage = _counted(usage)
    for choice in choices:
        number = _number(choice.get("index"))
        if number and number not in reply.others and len(reply.others) >= _MAX_CHOICES:
            raise ValueError(f"more than {_MAX_CHOICES:,} choices")
        _grow(reply.others.setdefault(number, _ChatReply([], [], [], [], {})) if number else reply, choice)


def _with_others(reply: _ChatReply) -> None:
    """Take the calls of another choice if the first has none: some gateways send the text and the call apart."""
    for number, other in sorted(reply.others.items()):
        reply.notes |= other.notes
        if other.calls and not reply.calls:
            reply.calls, reply.finish_reason = other.calls, other.finish_reason or reply.finish_reason
            reply.notes[f"took the calls from choice {number} of the reply"] = None
            other.calls = []
        if not (any(reply.texts) or reply.calls or any(reply.refusals)):
            reply.texts, other.texts = other.texts, []
            if any(reply.texts):
                reply.notes[f"took the text from choice {number} of the reply"] = None
        text = "".join(
            (*other.thoughts, *other.texts, *other.refusals, *("".join(call.arguments) for call in other.calls))
        )
        if text:
            reply.notes[left_out(f"choice {number} of the reply", text)] = None


def _grow(reply: _ChatReply, choice: Json) -> None:
    """Add a delta, or a whole message if a server does not send deltas."""
    reply.finish_reason = scalar(choice.get("finish_reason")) or reply.finish_reason
    whole_message = not isinstance(choice.get("delta"), dict) and isinstance(choice.get("message"), dict)
    delta = _object(choice.get("message" if whole_message else "delta"))
    reply.ended = reply.ended or whole_message
    _speak(reply, delta.get("content") if delta.get("content") is not None else choice.get("text"))
    if (field := next((name for name in _THOUGHTS if delta.get(name)), None)) is not None:
        reply.thoughts.append(_text(delta[field]))
        reply.thought_field = field
    _keep(reply.more, {name: value for name, value in delta.items() if _WANTED_BACK.match(name)})
    reply.refusals.append(_text(delta.get("refusal")))
    calls = _list(delta.get("tool_calls"))
    if isinstance(delta.get("function_call"), dict):
        calls = [{"index": 0, "function": delta["function_call"]}]
    for position, call in enumerate(calls):
        _call(reply.calls, _object(call), position if whole_message else None)


def _speak(reply: _ChatReply, content: Any) -> None:
    """Add content: a text, or parts of which some are thoughts."""
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in {"thinking", "reasoning"}:
            reply.thoughts.append(_text(part))
            reply.thought_field = "content"
        else:
            text = _text(part)
            if part and not text and not _is_blank(part):
                reply.notes[left_out(f"a part of the kind {kind!r:.40}", part)] = None
            (reply.refusals if kind == "refusal" else reply.texts).append(text)


def _is_blank(part: Any) -> bool:
    return isinstance(part, dict) and not any(value for name, value in part.items() if name not in ("type", "index"))


def _keep(target: Json, more: Json) -> None:
    """Merge fields that arrive in pieces: texts and lists grow, and so does the last item of a continued list."""
    for name, value in more.items():
        old = target.get(name)
        if isinstance(old, str) and isinstance(value, str) and name not in {"type", "id", "format"}:
            target[name] = old + value
        elif isinstance(old, dict) and isinstance(value, dict):
            _keep(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            for item in value:
                if old and isinstance(item, dict) and isinstance(old[-1], dict) and _same_place(old[-1], item):
                    _keep(old[-1], item)
                else:
                    old.append(item)
        elif value is not None:
            target[name] = value


def _same_place(old: Json, new: Json) -> bool:
    return "index" in new and all(old.get(name) == new.get(name) for name in ("type", "index"))


def _call(calls: list[_Call], delta: Json, position: int | None) -> None:
    """Add a piece of a call to the call it belongs to."""
    function = delta["function"] if isinstance(delta.get("function"), dict) else delta
    name, identity = _text(function.get("name")), scalar(delta.get("id"))
    index = _number(delta.get("index"))
    call = _belonging(calls, position if index is None else index, identity, name)
    if call is None:
        if len(calls) >= _MAX_CALLS:
            raise ValueError(f"more than {_MAX_CALLS:,} calls")
        call = _Call("", "", position if index is None else index, [], {})
        calls.append(call)
    call.id = call.id or identity
    call.name = call.name or name
    _keep(call.more, {name: value for name, value in delta.items() if name not in _CALL_FIELDS})
    arguments = function.get("arguments")
    call.arguments.append(json.dumps(arguments) if isinstance(arguments, dict | list) else _text(arguments))


def _belonging(calls: list[_Call], index: int | None, identity: str, name: str) -> _Call | None:
    """Return the call that a piece continues; None if it starts a new call.

    Some servers number all calls 0, so a name with a different id starts one. Some send no numbers, so an id starts
    one, or a name after complete arguments. Some repeat the id in every piece.
    """
    last = next((call for call in reversed(calls) if index is None or call.index == index), None)
    if last is None:
        return None
    if identity and last.id and identity != last.id and (name or index is None):
        return next((call for call in calls if call.id == identity), None)
    begins = identity != last.id if identity else name and last.is_whole
    return None if index is None and last.name and begins else last


def _parts(reply: _ChatReply, facts: int) -> tuple[ReplyPart, ...]:
    parts: list[ReplyPart] = []
    raw = _wanted_back(reply, facts)
    if len(raw) > 2 or raw["thinking"]:
        parts.append(Thinking(raw))
    if text := whole("".join(reply.texts)):
        parts.append(Text(text))
    for number, call in enumerate(reply.calls):
        arguments = "".join(call.arguments)
        value, malformed = parse_arguments(arguments)
        if not arguments.strip() and reply.finish_reason == "length":
            value, malformed = None, ""
        if isinstance(value, str) and isinstance(twice := parse_arguments(value)[0], dict):
            value = twice  # was encoded twice
        parts.append(ToolCall(_identity(call, facts, number), whole(call.name), value, malformed))
    return tuple(parts)


def _identity(call: _Call, facts: int, number: int) -> str:
    return whole(call.id) or f"call_{facts}_{number}"


def _wanted_back(reply: _ChatReply, facts: int) -> Json:
    """Return the thought, its field, and other data of the message and its calls that the provider may require back."""
    raw: Json = {"type": FOREIGN_THOUGHT, "thinking": whole("".join(reply.thoughts))}
    if reply.thought_field != FOREIGN_THOUGHT:
        raw["field"] = reply.thought_field
    if reply.more:
        raw["message"] = whole_value(reply.more)
    calls = {_identity(call, facts, number): call.more for number, call in enumerate(reply.calls) if call.more}
    if calls:
        raw["calls"] = whole_value(calls)
    return raw


def _counted(usage: Json) -> Usage:
    """Convert usage of any server: DeepSeek lists cached tokens separately, Gemini has thoughts only in the total."""
    details = _object(usage.get("prompt_tokens_details"))
    prompt = token_count(usage.get("prompt_tokens"))
    read = token_count(details.get("cached_tokens")) or token_count(usage.get("prompt_cache_hit_tokens"))
    output = max(token_count(usage.get("completion_tokens")), token_count(usage.get("total_tokens")) - prompt)
    return tokens_in(prompt, {**details, "cached_tokens": read}, output)


def tokens_in(prompt: int, details: Json, output: int) -> Usage:
    """Return the usage, with the prompt split by the cache figures in ``details``."""
    read = min(token_count(details.get("cached_tokens")), prompt)
    written = min(token_count(details.get("cache_write_tokens")), prompt - read)
    return Usage(uncached=prompt - read - written, cache_read=read, cache_write_5m=written, output=output)


def token_count(count: Any) -> int:
    """Return the count, or 0 if it is not a valid one."""
    number = _number(count) or 0
    return number if 0 <= number <= MAX_TOKENS else 0


def _error(chunk: Json, *, whole_body: bool) -> Any:
    """Return a chunk's error; None if it is not an error."""
    if (error := chunk.get("error") or chunk.get("errors")) or not whole_body:
        return error or None
    if chunk.get("object") == "error" or any(isinstance(chunk.get(name), str | list) for name in ("detail", "message")):
        return chunk
    status = _object(chunk.get("base_resp"))
    return status if status.get("status_code") else None


def _failure(error: Any, secret: str, *, mid_stream: bool) -> ModelFailed:
    fields = error if isinstance(error, dict) else {}
    text = error if isinstance(error, str) else json.dumps(error)
    code = fields.get("code")
    if (status := _number(code)) is not None and 400 <= status < 600:
        kind = kind_of_status(status, text)
    else:
        kind = kind_of_error(scalar(fields.get("type") or fields.get("status") or code), text)
    location = "an error in mid-stream" if mid_stream else "an error in place of a reply"
    return failed(kind, f"{location}: {sentence(error) or text}", secret)


def _object(value: Any) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, not {value!r:.80}")
    return value


def _list(value: Any) -> list[Any]:
    """Return a list; a single object becomes a list of one."""
    if value is None or isinstance(value, dict):
        return [] if value is None else [value]
    if not isinstance(value, list):
        raise ValueError(f"a list was expected, not {value!r:.80}")
    return value


def _text(value: Any) -> str:
    """Return text that may consist of nested parts."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, list):
        return "".join(map(_text, value))
    if not isinstance(value, dict):
        raise ValueError(f"a text was expected, not {value!r:.80}")
    return next(
        (_text(value[name]) for name in ("text", "thinking", "reasoning", "refusal", "content") if name in value), ""
    )


def scalar(value: Any) -> str:
    """Return an id or name, which some servers send as a number."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _number(value: Any) -> int | None:
    """Parse a whole number, also from a float or digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value) if isinstance(value, int) else int(float(value))
    except (ValueError, OverflowError):
        return None
