"""Estimates the tokens of exchanges whose provider reports no usage, such as streams without ``include_usage``.

Counts are remembered by text, because every request repeats the conversation before it.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from threading import Lock

from stackmem.core.messages import Part, Text, Thinking, ToolCall, ToolResult, Usage
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat
from stackmem.models.tokens import count

_MAX_REMEMBERED = 20_000
_SHORT_CHARS = 64
_TOKENS_PER_MESSAGE = 4
"""Tokens of the markup around a message."""


class TokenEstimates:
    """Token counts of texts."""

    def __init__(self) -> None:
        self._cache: OrderedDict[bytes, int] = OrderedDict()
        self._lock = Lock()

    def usage(self, wire: WireFormat, request: ForeignRequest, written: Iterable[str]) -> Usage:
        """Estimate the usage of a request and the texts of its answer; all of the prompt counts as uncached."""
        model = f"openai/{request.model}" if wire.provider == "openai" and "/" not in request.model else request.model
        prompt = sum(self._tokens(text, model) for text in _prompt_texts(wire, request))
        output = self._tokens("".join(written), model)
        return Usage(uncached=prompt + _TOKENS_PER_MESSAGE * len(request.messages), output=output, estimated=True)

    def _tokens(self, text: str, model: str) -> int:
        if len(text) < _SHORT_CHARS:
            return count(text, model).tokens
        key = hashlib.blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            cached = self._cache.get(key)
        if cached is not None:
            return cached
        tokens = count(text, model).tokens
        with self._lock:
            self._cache[key] = tokens
            if len(self._cache) > _MAX_REMEMBERED:
                self._cache.popitem(last=False)
        return tokens


def part_texts(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the texts of a message that the model reads or writes."""
    for part in parts:
        match part:
            case Text(text=text) | ToolResult(text=text):
                yield text
            case Thinking(raw=raw):
                yield str(raw.get("thinking") or "")
            case ToolCall():
                yield part.name
                yield json.dumps(part.arguments) if part.malformed is None else part.malformed


def streamed_texts(events: Iterable[str]) -> Iterator[str]:
    """Yield the texts of an incomplete answer, of any wire format."""
    for event in events:
        try:
            value = json.loads(event)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            choices = value.get("choices")
            yield from _strings(value.get("delta"))
            for choice in choices if isinstance(choices, list) else ():
                yield from _strings(choice.get("delta") if isinstance(choice, dict) else None)


_WRITTEN = ("content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function", "name", "arguments",
            "text", "thinking", "partial_json")  # fmt: skip


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name in _WRITTEN:
            yield from _strings(value.get(name))


def _prompt_texts(wire: WireFormat, request: ForeignRequest) -> Iterator[str]:
    yield request.system
    for tool in request.tools:
        yield f"{tool.name}\n{tool.description}\n{tool.schema}"
    for message in request.messages:
        if message.role != "system" or wire.provider == "anthropic":  # elsewhere ``system`` includes these messages
            yield from part_texts(message.parts)
