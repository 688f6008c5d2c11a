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


ANTHROPIC_SUMMARY = "compaction"
OPENAI_SUMMARY = "compaction_window"
PROVIDER_SUMMARIES = (ANTHROPIC_SUMMARY, OPENAI_SUMMARY)
"""The types of blocks with a provider's own summary. Anthropic's is its block, with readable text and a signature.
OpenAI's has ``items``: the user's messages and an encrypted item, as the provider returned them."""


_ENCRYPTED = "(the provider encrypted this summary; only its own models can read it)"


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
    return len(part.text) if part.images is UNSET else len(part.text) + image_chars(part.images)


class Message(Struct, frozen=True):
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


def provider_summary(parts: tuple[Part, ...]) -> dict[str, Any] | None:
    """Return the first summary that a provider wrote, if there is one."""
    raws = (part.raw for part in parts if isinstance(part, Thinking))
    return next((raw for raw in raws if raw.get("type") in PROVIDER_SUMMARIES), None)


def summary_of(parts: tuple[ReplyPart, ...]) -> tuple[str, dict[str, Any] | None]:
    """Return the text of a summary, and its block if a provider wrote it."""
    block = provider_summary(parts)
    if block is not None:
        return str(block.get("content") or _ENCRYPTED), block
    return "\n".join(part.text for part in parts if isinstance(part, Text) and part.text.strip()), None


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


class ToolSpec(Struct, frozen=True, cache_hash=True):
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


class PromptEdits(Struct, frozen=True):
    """Rules by which a provider edits a prompt before the model sees it. Each request is edited again, from the start.

    Attributes:
        tokens: Length of the prompt from which on tool results are cleared; 0 clears none.
        keep: How many of the newest tool results stay.
        least: Tokens that a clearing must free; with fewer, nothing is cleared.
        thinking_turns: How many of the newest turns of the assistant keep their thinking; 0 keeps all thinking. A turn
            is everything between two messages of the user without a tool result.
    """

    tokens: int
    keep: int
    least: int = 0
    thinking_turns: int = 0


class ProviderRequest(Struct, frozen=True):
    """The request to a provider that edits or summarizes the prompt itself.

    The messages of the view are then what the model sees in the end, by the provider's documented rules. Simulations
    and bills use those; only the provider receives the messages here.

    Attributes:
        messages: As they are sent. The first part may be the provider's own summary, a ``Thinking``.
        edits: The edits that the request asks the provider to make.
        summarizes: Whether the answer is the provider's own summary of these messages. The last part of the view's
            messages then asks a simulated model for one.
    """

    messages: Log[Message]
    breakpoints: tuple[Breakpoint, ...] = ()
    edits: PromptEdits | None = None
    summarizes: bool = False

    @property
    def summary(self) -> dict[str, Any] | None:
        """The provider's own summary at the beginning, if there is one."""
        return provider_summary(self.messages[0].parts[:1]) if len(self.messages) else None

    @property
    def digest(self) -> bytes:
        chained = self.messages.fold(_chain, b"", "at the provider")
        return chained + json.encode((self.breakpoints, self.edits, self.summarizes))


class View(Struct, frozen=True):
    """The model's view of the run. A strategy builds it from the state.

    Attributes:
        messages: The conversation, which ends with a user message.
        breakpoints: At most four, in prompt order, longer time to live first.
        provider: What is sent instead if the provider edits or summarizes the prompt itself.
    """

    system: str
    tools: tuple[ToolSpec, ...]
    messages: Log[Message]
    breakpoints: tuple[Breakpoint, ...] = ()
    provider: ProviderRequest | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of all fields, chained per message, so that an unchanged prefix costs nothing."""
        chained = self.messages.fold(_chain, _prefix_digest(self.system, self.tools), (self.system, self.tools))
        sent = b"" if self.provider is None else self.provider.digest
        return hashlib.sha256(chained + json.encode(self.breakpoints) + sent).hexdigest()


@lru_cache(maxsize=8)
def _prefix_digest(system: str, tools: tuple[ToolSpec, ...]) -> bytes:
    return hashlib.sha256(json.encode((system, tools))).digest()


def _chain(digest: bytes, message: Message) -> bytes:
    return hashlib.sha256(digest + json.encode(message)).digest()
