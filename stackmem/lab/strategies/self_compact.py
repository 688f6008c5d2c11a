"""``self_compact:TOKENS``: the model decides when its conversation is replaced by a summary that it writes.

The tool ``compact_context`` takes the summary. From then on the model sees the task, this call and what follows. The
system prompt contains a rubric: compact if the last piece of work is closed, what matters fits in a few facts, there
was progress since the last time, and the work is not stuck. Once the prompt has TOKENS, every few steps it ends with a
line that asks the model to check the rubric. Later prompts leave the line out. If the prompt reaches three tenths of
the window anyway, a summary is requested as under ``compact``.

Parameters: ``tokens`` (24,000), ``every`` (5): steps between checks.

Source: SelfCompact, "Self-Compacting Language Model Agents" (arXiv 2606.23525, 2026), with its rubric for search
agents. There, one request asks for a verdict with quotes, and a second one writes the summary.
"""

from __future__ import annotations

from stackmem.core.conversation.calls import CompactContext
from stackmem.core.messages import ToolCall, ToolResult, View
from stackmem.core.state import State
from stackmem.memory.shared.linear import Cut, Exchange, Linear, Rules, conversation, view
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Count
from stackmem.memory.shared.parameters import parameters as parse

from .compacting import THRESHOLD, Summarizing, standing_for
from .summaries import COMPACT

CHECK = "COMPACTION CHECK: "
_BACKSTOP = 3  # tenths of the window


def _compacts(exchange: Exchange) -> bool:
    """Return whether an exchange is a call of ``compact_context`` that was not refused."""
    done = {part.call_id for part in exchange.told.parts if isinstance(part, ToolResult) and not part.failed}
    calls = (part for part in exchange.said.parts if isinstance(part, ToolCall))
    return any(call.name == "compact_context" and call.id in done for call in calls)


def _cut(linear: Linear) -> Cut:
    last = len(linear.past) - 1
    return Cut(last, last) if _compacts(linear.past[last]) else linear.cut


def _head(linear: Linear) -> str:
    """Return the requested summary, unless the conversation begins with one that the model passed to its tool."""
    dropped = linear.cut.dropped
    if dropped < len(linear.past) and _compacts(linear.past[dropped]):
        return ""
    return standing_for(COMPACT.most, linear)


def _due(window_tokens: int, linear: Linear) -> int | None:
    return len(linear.past) if linear.tokens >= window_tokens * _BACKSTOP // 10 else None


class SelfCompacting(Summarizing, frozen=True):
    """A conversation that its model compacts."""

    tokens: int = THRESHOLD  # prompts that are shorter ask for no check
    every: int = 1  # number of exchanges between two checks

    def render(self, state: State) -> View:
        linear = conversation(state, self.rules, self.name, summarizes=True)
        return view(state, linear, self._check(linear))

    def _check(self, linear: Linear) -> str:
        """Return the line at the end of a prompt that asks for a check, or an empty text."""
        if linear.tokens < self.tokens or (len(linear.past) - linear.cut.dropped) % self.every:
            return ""
        return (
            f"{CHECK}this prompt has about {linear.tokens:,} tokens. If all four conditions are true, call "
            "`compact_context` now. If not, continue with the work."
        )


def self_compact(parameters: str) -> SelfCompacting:
    options = parse("self_compact", parameters, (Count("tokens", THRESHOLD), Count("every", 5)))
    tools = (*ONE_FRAME[:-1], CompactContext, ONE_FRAME[-1])
    rules = Rules(_cut, _head)
    tokens, every = options.counts.values()
    return SelfCompacting(options.name, COMPACT, _due, rules, tools, "full+compacts", tokens=tokens, every=every)
