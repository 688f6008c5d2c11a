"""What passes between the harness and a model, in no provider's format."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Literal

from msgspec import DecodeError, Struct, json

from .log import Log
from .strict_json import decode_json

FailureKind = Literal[
    "rate_limited", "overloaded", "server_error", "timeout", "connection", "incomplete",  # asked again
    "window",  # the prompt is longer than the model takes: the frame is popped
    "spend_limit", "authentication", "rejected", "script",  # hopeless
]  # fmt: skip


class Text(Struct, frozen=True, tag="text"):
    text: str


class Thinking(Struct, frozen=True, tag="thinking"):
    """A provider's own block, never read here, passed back as it came."""

    raw: dict[str, Any]


class ToolCall(Struct, frozen=True, tag="call"):
    """A call the model asks for.

    Attributes:
        id: The provider's name for it; its result carries the same.
        arguments: The parsed JSON value, whatever its type.
        malformed: The arguments' text where it was no JSON; ``arguments`` is then None.
    """

    id: str
    name: str
    arguments: Any = None
    malformed: str | None = None


class ToolResult(Struct, frozen=True, tag="result"):
    call_id: str
    text: str
    failed: bool = False


ReplyPart = Text | Thinking | ToolCall
Part = Text | Thinking | ToolCall | ToolResult


class Message(Struct, frozen=True):
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class Usage(Struct, frozen=True):
    """Tokens of one reply; the whole prompt is the first four together.

    Attributes:
        uncached: Prompt tokens neither read from nor written to the provider's cache.
        output: Tokens of the reply, thinking included.
        estimated: True where the model reports nothing and characters / 2.5 stand in.
    """

    uncached: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    estimated: bool = False

    @property
    def prompt(self) -> int:
        return self.uncached + self.cache_read + self.cache_write_5m + self.cache_write_1h

    @property
    def total(self) -> int:
        return self.prompt + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.uncached + other.uncached,
            self.cache_read + other.cache_read,
            self.cache_write_5m + other.cache_write_5m,
            self.cache_write_1h + other.cache_write_1h,
            self.output + other.output,
            self.estimated or other.estimated,
        )


class PromptText(Struct, frozen=True):
    """A prompt by the name of its file; its slots are filled when it is sent."""

    name: str
    text: str


class ToolSpec(Struct, frozen=True):
    """A tool as a model is shown it; ``schema`` is JSON text, so that its bytes never change.

    Attributes:
    A decoder refuses a tool whose schema is neither JSON nor empty: making one raises ``ValueError``.
    """

    name: str
    description: str
    schema: str

    def __post_init__(self) -> None:
        if self.schema and not _is_json(self.schema):
            raise ValueError(f"the schema of the tool {self.name[:80]!r} is not JSON")

    @property
    def parameters(self) -> dict[str, Any]:
        """The schema as an object; empty if the tool has none, as tools that a provider runs itself may."""
        value = json.decode(self.schema) if self.schema else None
        return value if isinstance(value, dict) else {}


@lru_cache(maxsize=256)  # every record that starts a run brings the same tools
def _is_json(text: str) -> bool:
    try:
        decode_json(text, object)
    except DecodeError:
        return False
    return True


class Breakpoint(Struct, frozen=True):
    """A place up to which the provider may cache: after the system prompt (``message`` -1) or after a part."""

    message: int
    part: int
    ttl: Literal["1h", "5m"]


class View(Struct, frozen=True):
    """What the model sees: a function of the state, made by a strategy.

    Attributes:
        messages: The conversation; it ends with a user message.
        breakpoints: At most four, in prompt order, longer time to live first.
    """

    system: str
    tools: tuple[ToolSpec, ...]
    messages: Log[Message]
    breakpoints: tuple[Breakpoint, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 over everything above, chained per message, so that an unchanged prefix costs nothing."""
        chained = self.messages.fold(_chain, _prefix_digest(self.system, self.tools), (self.system, self.tools))
        return hashlib.sha256(chained + json.encode(self.breakpoints)).hexdigest()


@lru_cache(maxsize=8)
def _prefix_digest(system: str, tools: tuple[ToolSpec, ...]) -> bytes:
    return hashlib.sha256(json.encode((system, tools))).digest()


def _chain(digest: bytes, message: Message) -> bytes:
    return hashlib.sha256(digest + json.encode(message)).digest()
