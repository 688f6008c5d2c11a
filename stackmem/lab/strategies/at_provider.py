"""Strategies that leave the work to the provider: ``context_editing`` and ``compact_provider``.

The request asks the provider to edit or summarize the prompt. Without a provider, the same happens here by the
documented rules, so that simulated models, bills and ``whatif`` see what a model would see.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.compaction import compact
from stackmem.core.log import Log
from stackmem.core.messages import (
    OPENAI_SUMMARY,
    Breakpoint,
    Message,
    Part,
    PromptEdits,
    ProviderRequest,
    Text,
    Thinking,
    ToolResult,
    View,
)
from stackmem.core.requests import Compact, Effect
from stackmem.core.state import State
from stackmem.core.tools import Tool
from stackmem.memory.shared.conversation import own_view
from stackmem.memory.shared.linear import CHARS_PER_TOKEN, Linear, one_line, size, view, without_images
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

from .compacting import Summarizing, request_text, summary_rules, text_of_request
from .summaries import COMPACT, everything_due


class ContextEditing(Struct, frozen=True):
    name: str
    edits: PromptEdits
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    prefix_stable: bool = False
    edits_at_provider: bool = True
    providers: tuple[str, ...] = ("anthropic/",)

    def render(self, state: State) -> View:
        sent = own_view(state, self.name, lambda: f"TASK\n{state.running.task}")
        return edited(sent, self.edits)

    def upkeep(self, state: State) -> Effect | None:
        return None


def context_editing(parameters: str) -> ContextEditing:
    """``context_editing:TOKENS``: the provider clears old tool results, and old thinking, before the model sees them.

    Every request contains the whole history and the rules. From TOKENS on, the provider replaces all tool results but
    the newest ``keep`` by a placeholder, if that frees at least ``least`` tokens. Each request is edited from its
    start, so from then on one more result is cleared at each step, and the cache can read only what comes before it.
    ``tokens=0`` clears no results. ``thinking=N`` keeps the thinking of the newest N turns of the assistant, 0 keeps
    all. A turn ends at a message of the user, so it acts only in conversations.

    Only models of Anthropic's API edit the prompt. Simulated models see it edited by the same rules.

    Parameters: ``tokens`` (100,000), ``keep`` (3), ``least`` (0), ``thinking`` (0, all).

    Source: Anthropic's context editing (``clear_tool_uses_20250919`` with trigger, keep and clear_at_least,
    ``clear_thinking_20251015``), as documented in November 2026. ``clear`` does the same in batches, on our side.
    """
    accepted = (
        Count("tokens", 100_000, low=0), Count("keep", 3, low=0), Count("least", 0, low=0), Count("thinking", 0, low=0),
    )  # fmt: skip
    parsed = parse("context_editing", parameters, accepted)
    return ContextEditing(parsed.name, PromptEdits(*parsed.counts.values()))


def edited(sent: View, edits: PromptEdits) -> View:
    """Return the view with its messages as the provider would leave them, and the request that asks for it."""
    messages = sent.messages
    cleared = _results_cleared(sent, edits)
    turns = _thinking_from(messages, edits.thinking_turns)
    edited_messages = messages
    if cleared or turns:
        edited_messages = Log(_edited(message, cleared, index < turns) for index, message in enumerate(messages))
    points = _points(sent, cleared)
    remaining = tuple(point for point in points if _remains(point, edited_messages))
    return replace(
        sent, messages=edited_messages, breakpoints=remaining, provider=ProviderRequest(messages, points, edits)
    )


def _points(sent: View, cleared: frozenset[int]) -> tuple[Breakpoint, ...]:
    """Return the breakpoints, with one after the last cleared result: up to there the next prompt is the same."""
    if not cleared:
        return sent.breakpoints
    messages = sent.messages
    border = max(index for index, message in enumerate(messages) if any(id(part) in cleared for part in message.parts))
    rolling = (Breakpoint(index, len(messages[index].parts) - 1, "5m") for index in (border, len(messages) - 1))
    return tuple(dict.fromkeys((*(point for point in sent.breakpoints if point.message <= 0), *rolling)))


def _remains(point: Breakpoint, messages: Log[Message]) -> bool:
    return point.message < 0 or point.part < len(messages[point.message].parts)


def _results_cleared(sent: View, edits: PromptEdits) -> frozenset[int]:
    """Return the ids of the parts that are cleared: all results but the newest, if the prompt is long enough."""
    standing = len(sent.system) + sum(len(f"{tool.name}{tool.description}{tool.schema}") for tool in sent.tools)
    total = standing + sum(map(size, sent.messages))
    if not edits.tokens or total <= edits.tokens * CHARS_PER_TOKEN:
        return frozenset()
    results = [part for message in sent.messages for part in message.parts if isinstance(part, ToolResult)]
    old = results[: len(results) - edits.keep] if edits.keep else results
    freed = sum(_chars(part) - _chars(_placeholder(part)) for part in old)
    return frozenset(map(id, old)) if freed >= edits.least * CHARS_PER_TOKEN else frozenset()


def _chars(result: ToolResult) -> int:
    return size(Message("user", (result,)))


def _placeholder(result: ToolResult) -> ToolResult:
    return without_images(one_line("cleared", result, 0))


def _thinking_from(messages: Log[Message], keep: int) -> int:
    """Return the number of the first message whose thinking stays. Before it are all but the newest turns."""
    if not keep:
        return 0
    begins = [
        index
        for index, message in enumerate(messages)
        if message.role == "user" and not any(isinstance(part, ToolResult) for part in message.parts)
    ]
    return begins[-keep] if len(begins) > keep else 0


def _edited(message: Message, cleared: frozenset[int], unthinking: bool) -> Message:
    parts: tuple[Part, ...] = message.parts
    if unthinking and any(isinstance(part, Thinking) for part in parts):
        parts = tuple(part for part in parts if not isinstance(part, Thinking))
    if any(id(part) in cleared for part in parts):
        parts = tuple(
            _placeholder(part) if isinstance(part, ToolResult) and id(part) in cleared else part for part in parts
        )
    return message if parts is message.parts else replace(message, parts=parts)


class ProviderCompacting(Summarizing, frozen=True):
    """A strategy whose summaries the provider writes, with its own prompt."""

    providers: tuple[str, ...] = ("anthropic/", "responses/")

    def render(self, state: State) -> View:
        linear = self._conversation(state)
        return _begun_by_block(view(state, linear), linear)

    def upkeep(self, state: State) -> Effect | None:
        linear = self._conversation(state)
        turns = self.due(state.window_tokens, linear)
        return None if turns is None else self._compaction(state, linear, turns)

    def summary(self, state: State) -> Effect | None:
        linear = self._conversation(state)
        return self._compaction(state, linear, len(linear.past))

    def _compaction(self, state: State, linear: Linear, turns: int) -> Compact | None:
        """Return the request for a summary of the first exchanges. The last result always stays, with its call."""
        turns = min(turns, linear.answer)
        if turns <= linear.cut.dropped:
            return None
        last = linear.past[turns - 1].step
        full_view = _begun_by_block(view(state, linear), linear)
        end = 2 * (turns - linear.cut.dropped)
        points = tuple(point for point in full_view.breakpoints if point.message <= end)
        sent = (
            Log(full_view.messages[: end + 1])
            if full_view.provider is None
            else Log(full_view.provider.messages[: end + 1])
        )
        prompt = request_text(text_of_request(state, self.request), self.request, last, len(linear.past) - turns)
        last_message = full_view.messages[end]
        messages = Log([*full_view.messages[:end], replace(last_message, parts=(*last_message.parts, Text(prompt)))])
        request = ProviderRequest(sent, _sent_points(points, sent), summarizes=True)
        return compact(state, View(full_view.system, full_view.tools, messages, points, request), last)


def _begun_by_block(plain: View, linear: Linear) -> View:
    """Return the view with the provider's own summary at the beginning of what is sent, if the provider wrote one."""
    if linear.block is None:
        return plain
    block = Thinking(linear.block)
    # OpenAI's summary contains the user's messages, so the task would be there twice
    opening = () if linear.block.get("type") == OPENAI_SUMMARY and len(plain.messages) > 1 else linear.opening
    sent = Log([Message("user", (block, *opening)), *plain.messages[1:]])
    points = tuple(
        replace(point, part=min(point.part, len(linear.opening) - 1) + 1) if not point.message else point
        for point in plain.breakpoints
    )
    return replace(plain, provider=ProviderRequest(sent, _sent_points(points, sent)))


def _sent_points(points: tuple[Breakpoint, ...], messages: Log[Message]) -> tuple[Breakpoint, ...]:
    """Return the breakpoints on parts that are sent, each once."""
    return tuple(dict.fromkeys(point for point in points if _remains(point, messages)))


def compact_provider(parameters: str) -> ProviderCompacting:
    """``compact_provider:TOKENS``: like ``compact``, but the provider writes the summary, with its own prompt.

    Once the prompt reaches TOKENS, or four fifths of the model's window, one request asks for the summary of everything
    but the last turn. The provider's answer is recorded as it came and begins every later request. With Anthropic it is
    a signed text that can be read, with OpenAI an encrypted item.

    Works with models of Anthropic's API and with OpenAI's Responses (``responses/NAME``). Simulated models write the
    summary themselves.

    Parameters: ``tokens`` (150,000).

    Source: Anthropic's compaction on demand (``compact-2026-09-04``, keeping recent turns) and OpenAI's
    ``/responses/compact``, as documented in November 2026. The trigger is that of Anthropic's automatic compaction
    (``compact_20260112``).
    """
    parsed = parse("compact_provider", parameters, (Count("tokens", 150_000),))
    due = Partial(everything_due, (parsed.counts["tokens"],))
    return ProviderCompacting(parsed.name, COMPACT, due, summary_rules(COMPACT))
