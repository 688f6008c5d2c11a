"""Estimates the next prompt by kind, the part that the provider's cache may contain, and the cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from stackmem.core.facts import FramePushed
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import Text, ToolCall, ToolResult, View, shown_chars
from stackmem.core.person_facts import PersonSaid
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.memory.shared.linear import CHARS_PER_TOKEN

Kind = Literal[
    "system", "tools", "run and project", "standing words", "earlier requests", "heap index", "this request", "replies",
    "results",
]  # fmt: skip
_REQUEST = "\nREQUEST\n"


class PromptPart(Struct, frozen=True):
    """A part of a prompt. ``sent`` says whether an earlier prompt began with the same text up to its end."""

    kind: Kind
    tokens: int
    sent: bool


class NextPrompt(Struct, frozen=True):
    """The estimated next prompt."""

    parts: tuple[PromptPart, ...]
    window_tokens: int  # the context window of the model
    # its cost without the reply, if the cache still holds all that was sent. None without a known price
    usd: float | None

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)

    @property
    def sent_tokens(self) -> int:
        return sum(part.tokens for part in self.parts if part.sent)

    def by_kind(self) -> dict[Kind, int]:
        """Return the tokens of each kind, in the order of the prompt."""
        sums: dict[Kind, int] = {}
        for part in self.parts:
            sums[part.kind] = sums.get(part.kind, 0) + part.tokens
        return sums


def next_prompt(state: State, strategy: MemoryStrategy) -> NextPrompt:
    """Return the next prompt of a run: of the request in progress, or of an empty next one."""
    working = _with_request(state, strategy)
    parts = tuple(_parts(strategy.render(working), began=bool(state.step), fresh=working is not state))
    price = state.begun.price
    usd = None
    if price is not None:
        usd = sum(part.tokens * (price.cache_read if part.sent else price.cache_write_5m) for part in parts) / 1_000_000
    return NextPrompt(parts, working.window_tokens, usd)


def _with_request(state: State, strategy: MemoryStrategy) -> State:
    """Return the state with an empty request open if none is in progress."""
    if state.session is None or state.session.working or state.end is not None:
        return state
    opened = evolve(state, PersonSaid(""))
    upcoming = advance(opened, strategy)
    return evolve(opened, upcoming) if isinstance(upcoming, FramePushed) else opened


def _parts(view: View, *, began: bool, fresh: bool) -> Iterator[PromptPart]:
    def part(kind: Kind, chars: int, *, sent: bool) -> PromptPart:
        return PromptPart(kind, round(chars / CHARS_PER_TOKEN), began and sent)

    yield part("system", len(view.system), sent=True)
    tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in view.tools)
    yield part("tools", tools, sent=True)
    first = view.messages[0].parts
    texts = [each.text for each in first if isinstance(each, Text)]
    alone = len(view.messages) == 1
    newest = max(
        (position for position, text in enumerate(texts) if text.startswith("REQUEST ")), default=len(texts) - 1
    )
    for position, text in enumerate(texts):
        sent = not alone or position < min(newest, len(texts) - 1)
        if position < len(texts) - 1 or not position:
            yield part(_kind_of(text, position), len(text), sent=sent)
            continue
        index, separator, request = text.rpartition(_REQUEST)
        if index:
            yield part("heap index", len(index), sent=sent)
        yield part("this request", len(separator) + len(request), sent=sent)
    last = len(view.messages) - 1
    for number in range(1, len(view.messages)):
        message = view.messages[number]
        kind: Kind = "replies" if message.role == "assistant" else "results"
        yield part(kind, sum(map(_chars, message.parts)), sent=number < last or (fresh and number < last - 1))


def _kind_of(text: str, position: int) -> Kind:
    if not position:
        return "run and project"
    return "standing words" if text.startswith("STANDING ") else "earlier requests"


def _chars(part: object) -> int:
    if isinstance(part, ToolCall):
        return len(part.name) + len(str(part.arguments))
    return shown_chars(part) if isinstance(part, Text | ToolResult) else len(str(part))


def summary_line(before: State, after: State, strategy: MemoryStrategy) -> str:
    """Return how much shorter the next prompt is after a summary."""
    was, now = (next_prompt(each, strategy).tokens for each in (before, after))
    return f"summarized: the next prompt has about {now:,} tokens, before {was:,}"
