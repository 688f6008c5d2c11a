"""Messages between the harness and a model, in a format that no provider uses."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Literal

from msgspec import UNSET, DecodeError, Struct, json

from .images import Images, image_chars
from .log import Log
from .strict_json import decode_json

FailureKind = Literal[
    "rate_limited", "overloaded", "server_error", "timeout", "connection", "incomplete",  # retried
    "window",  # the prompt exceeds the model's window: the frame is popped
    "spend_limit", "authentication", "rejected", "script",  # not retried
]  # fmt: skip


class Text(Struct, frozen=True, tag="text"):
    text: str
    images: Images = UNSET  # shown after the text, which names them; only in messages of the user


class Thinking(Struct, frozen=True, tag="thinking"):
    """A provider's own block. It is never interpreted here, and sent back unchanged."""

    raw: dict[str, Any]


class ToolCall(Struct, frozen=True, tag="call"):
    """A call that the model makes.

    Attributes:
        id: The provider's id of the call, which its result repeats.
        arguments: The parsed JSON value, whatever its type.
        malformed: The text of the arguments if it was not JSON. ``arguments`` is then None.
    """

    id: str
    name: str
    arguments: Any = None
    malformed: str | None = None


class ToolResult(Struct, frozen=True, tag="result"):
    call_id: str
    text: str
    failed: bool = False
    images: Images = UNSET  # shown after the text, which names them


ReplyPart = Text | Thinking | ToolCall
Part = Text | Thinking | ToolCall | ToolResult


def shown_chars(part: Text | ToolResult) -> int:
    """Return the characters of a part, with what its images count in an estimate."""
    return len(part.text) + image_chars(part.images)


class Message(Struct, frozen=True):
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class Usage(Struct, frozen=True):
    """Tokens of one reply. The first four fields add up to the whole prompt.

    Attributes:
        uncached: Prompt tokens neither read from nor written to the provider's cache.
        output: Tokens of the reply, thinking included.
        estimated: True if the model reports no usage and the numbers are characters / 2.5.
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

    def without(self, other: Usage) -> Usage:
        """Return what is left of a sum without one of its parts."""
        return Usage(
            self.uncached - other.uncached,
            self.cache_read - other.cache_read,
            self.cache_write_5m - other.cache_write_5m,
            self.cache_write_1h - other.cache_write_1h,
            self.output - other.output,
            self.estimated,
        )


class PromptText(Struct, frozen=True):
    """A prompt under the name of its file. Its slots are filled when it is sent."""

    name: str
    text: str


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it. ``schema`` is JSON text, so that its bytes never change.

    Raises:
        ValueError: ``schema`` is neither JSON nor empty. A decoder therefore refuses such a tool.
    """

    name: str
    description: str
    schema: str

    def __post_init__(self) -> None:
        if self.schema and not _is_json(self.schema):
            raise ValueError(f"the schema of the tool {self.name[:80]!r} is not JSON")

    @property
    def parameters(self) -> dict[str, Any]:
        """The schema as an object. Empty without a schema, as for tools that a provider runs itself."""
        value = json.decode(self.schema) if self.schema else None
        return value if isinstance(value, dict) else {}


@lru_cache(maxsize=256)  # every record that starts a run contains the same tools
def _is_json(text: str) -> bool:
    try:
        decode_json(text, object)
    except DecodeError:
        return False
    return True


class Breakpoint(Struct, frozen=True):
    """A position up to which the provider may cache: after the system prompt (``message`` -1) or after a part."""

    message: int
    part: int
    ttl: Literal["1h", "5m"]


class View(Struct, frozen=True):
    """The model's view of the run. A strategy builds it from the state.

    Attributes:
        messages: The conversation, which ends with a user message.
        breakpoints: At most four, in prompt order, longer time to live first.
    """

    system: str
    tools: tuple[ToolSpec, ...]
    messages: Log[Message]
    breakpoints: tuple[Breakpoint, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of all fields, chained per message, so that an unchanged prefix costs nothing."""
        chained = self.messages.fold(_chain, _prefix_digest(self.system, self.tools), (self.system, self.tools))
        return hashlib.sha256(chained + json.encode(self.breakpoints)).hexdigest()


@lru_cache(maxsize=8)
def _prefix_digest(system: str, tools: tuple[ToolSpec, ...]) -> bytes:
    return hashlib.sha256(json.encode((system, tools))).digest()


def _chain(digest: bytes, message: Message) -> bytes:
    return hashlib.sha256(digest + json.encode(message)).digest()
