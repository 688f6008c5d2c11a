"""``dashboard:TOKENS``: each prompt ends with a table of what it contains, and the model archives what it can spare.

The table has a row for each long result: its step, its tool, its tokens, how many steps ago it came, and how often it
was shown again. Above it are the tokens in use and the budget. A line ``ARCHIVE 3, 5-9`` next to a call shortens these
results; ``expand`` shows an archived result in full again. Nothing is archived unless the model asks for it.

Parameters: ``tokens`` (100,000), the budget that the table states; ``chars`` (200), what stays of an archived result.

Source: VISTA, "LLM Agents Are Latent Context Managers: Eliciting Self-Managed Context via a Proprioceptive Dashboard"
(arXiv 2606.30005, 2026). There the blocks have more types, and archiving is a tool; the layout is ours.
"""

from __future__ import annotations

import re

from stackmem.core.conversation.calls import Expand
from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.core.state import State
from stackmem.core.text import quantity
from stackmem.memory.shared.linear import (
    CHARS_PER_TOKEN,
    Eviction,
    Exchange,
    Linear,
    OneConversation,
    Rules,
    freed,
    unmoved,
)
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

from .results import shorten

_ARCHIVE = re.compile(r"^ARCHIVE ([\d,\- ]{1,400})$", re.MULTILINE)
_STEPS = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?")
MIN_TOKENS = 200
"""Shorter results have no row: archiving them frees less than the row costs."""
MAX_ROWS = 40
"""A longer table has the rows of the longest results only."""


def _evict(linear: Linear) -> Eviction:
    """Add what the newest reply archives."""
    newest = linear.past[-1]
    spans = [span for part in newest.said.parts if isinstance(part, Text) for span in _spans(part.text)]
    if not spans:
        return linear.evicted
    # the model has not used the last result yet, so that one stays
    steps = {
        exchange.step
        for number, exchange in enumerate(linear.past)
        if number < linear.answer
        and any(first <= exchange.step <= end for first, end in spans)
        and freed(linear, number) > 0
    }
    return Eviction(linear.evicted.short | steps)


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the ranges of steps that a text archives."""
    return [
        (int(span[1]), int(span[2] or span[1])) for line in _ARCHIVE.finditer(text) for span in _STEPS.finditer(line[1])
    ]


def _table(tokens: int, state: State, linear: Linear) -> str:
    """Return the dashboard at the end of a prompt."""
    none: dict[int, int] = {}
    expanded = linear.past.fold(_count, none, "expanded")
    rows = [(exchange.step, _tool(exchange), _result_tokens(exchange)) for exchange in linear.past]
    long_rows = [row for row in rows if row[2] >= MIN_TOKENS]
    visible = [row for row in long_rows if row[0] not in linear.evicted.short]
    listed = sorted(sorted(visible, key=lambda row: -row[2])[:MAX_ROWS])
    lines = [f"CONTEXT: {linear.tokens:,} of {tokens:,} tokens"]
    if listed:
        lines.append("result of step | tool | tokens | steps ago | expanded")
    for step, tool, result_tokens in listed:
        lines.append(f"{step} | {tool} | {result_tokens:,} | {state.step - step} | {expanded.get(step, 0)}")
    if len(visible) > len(listed):
        lines.append(f"{len(visible) - len(listed)} more, each shorter than these")
    if linear.evicted.short:
        archived = sum(row[2] for row in rows if row[0] in linear.evicted.short)
        lines.append(f"archived: {archived:,} tokens in {quantity(len(linear.evicted.short), 'result')}")
    return "\n".join(lines)


def _count(counts: dict[int, int], exchange: Exchange) -> dict[int, int]:
    """Count how often each result was expanded."""
    calls = [part for part in exchange.said.parts if isinstance(part, ToolCall) and part.name == "expand"]
    values = [call.arguments.get("index") for call in calls if isinstance(call.arguments, dict)]
    indexes = [index for index in values if isinstance(index, int)]
    return {**counts, **{index: counts.get(index, 0) + 1 for index in indexes}} if indexes else counts


def _tool(exchange: Exchange) -> str:
    return next((part.name for part in exchange.said.parts if isinstance(part, ToolCall)), "none")


def _result_tokens(exchange: Exchange) -> int:
    chars = sum(len(part.text) for part in exchange.told.parts if isinstance(part, ToolResult))
    return int(chars / CHARS_PER_TOKEN)


def dashboard(parameters: str) -> OneConversation:
    options = parse("dashboard", parameters, (Count("tokens", 100_000), Count("chars", 200)))
    tokens, chars = options.counts.values()
    rules = Rules(unmoved, shorten=Partial(shorten, (chars,)), evict=_evict)
    tools = (*ONE_FRAME[:-1], Expand, ONE_FRAME[-1])
    return OneConversation(options.name, rules, tools, "expandable+dashboard", Partial(_table, (tokens,)))
