"""Requests for summaries of old turns, shared by the summarizing strategies.

Shared prefix: the request is appended to the prompt that the provider already has in its cache, so all of that is read
at the price of a read. Cold prefix: the old turns are sent as plain text under a small system prompt. They are not in
the cache, but the request is shorter, contains the turns as they were recorded, and fits a smaller context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from stackmem.core.compaction import compact
from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Text, ToolResult, View
from stackmem.core.requests import Compact, Effect
from stackmem.core.state import State
from stackmem.core.text import fill, mark_cut
from stackmem.core.tools import Tool
from stackmem.memory.shared.linear import (
    CHARS_PER_TOKEN,
    Cut,
    Linear,
    Rules,
    breakpoints,
    conversation,
    unmoved,
    view,
    whole_result,
)
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Partial

from .transcript import transcript

Prefix = Literal["shared", "cold"]
PREFIXES = ("shared", "cold")
SYSTEM = "compaction_system"
THRESHOLD = 24_000
"""Default number of tokens of the whole prompt at which a summary is due.

A low threshold pays for many summaries, a high one reads a long history at every step. By the cache simulator, for 300
steps, summaries of 3,600 characters and reads at 0.1 of the input price, the minimum of the bill is at 12,000 tokens
for steps of 280 tokens, at 20,000 for 720 and at 28,000 for 1,440. With reads at 0.05 it is at 16,000, 24,000 and
40,000. The bill is flat around the minimum: 24,000 costs at most 17, 2 and 7 % more. Each summary loses information, so
of two thresholds with nearly the same cost the higher one is better.
"""


class CompactionRequest(Struct, frozen=True):
    """A request for a summary."""

    # as in the first line of the request
    kind: Literal["summary", "rolling", "structured", "tier", "condenser", "handoff"]
    text: str  # name of the prompt
    most: int  # maximum characters of the answer that are shown
    prefix: Prefix = "shared"

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the prompts that a run must record."""
        return (self.text, SYSTEM) if self.prefix == "cold" else (self.text,)


class Summarizing(Struct, frozen=True):
    """A strategy with one conversation that requests summaries from the model."""

    name: str
    request: CompactionRequest
    # returns how many exchanges a summary should cover now, given the window in tokens; None if none is due
    due: Callable[[int, Linear], int | None]
    rules: Rules  # as in strategies without summaries; they do not apply to the summarized exchanges
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    prefix_stable: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        return self.request.texts

    def render(self, state: State) -> View:
        return view(state, self._conversation(state))

    def upkeep(self, state: State) -> Effect | None:
        linear = self._conversation(state)
        turns = self.due(state.window_tokens, linear)
        return None if turns is None else compaction(state, linear, self.request, turns)

    def summary(self, state: State) -> Effect | None:
        linear = self._conversation(state)
        return compaction(state, linear, self.request, len(linear.past))

    def _conversation(self, state: State) -> Linear:
        return conversation(state, self.rules, self.name, summarizes=True)


def summary_rules(
    request: CompactionRequest,
    cut: Callable[[Linear], Cut] = unmoved,
    shorten: Callable[[ToolResult, int], ToolResult] = whole_result,
    *,
    first: int = 0,
) -> Rules:
    """Return the rules of a conversation whose beginning, except its ``first`` exchanges, is summarized."""
    return Rules(cut, Partial(standing_for, (request.most,)), shorten, first=first)


def compaction(state: State, view: Linear, request: CompactionRequest, turns: int) -> Compact | None:
    """Return the request for a summary of the first ``turns`` exchanges, including those of the last summary.

    None if the last summary already covers them. The last result is always kept.
    """
    turns = min(turns, view.answer)
    if turns <= view.cut.dropped:
        return None
    last = view.past[turns - 1].step
    prompt = _request_text(state, request, last, len(view.past) - turns)
    request_view = _cold(state, view, prompt, turns) if request.prefix == "cold" else _shared(state, view, prompt)
    return compact(state, request_view, last)


def standing_for(most: int, view: Linear) -> str:
    """Return the summary for the head of the conversation, once it has replaced the beginning."""
    if view.summary is None:
        return ""
    last = view.past[view.cut.dropped - 1].step if view.cut.dropped else 0
    text = mark_cut(view.summary.strip(), most) or "(no summary was written; the workspace is as those steps left it)"
    return f"SUMMARY of the steps up to {last:,}, which are no longer shown:\n{text}"


def worth(view: Linear, turns: int, tokens: float) -> bool:
    """Return whether the shown exchanges up to that one contain at least this many tokens."""
    chars = sum(exchange.chars for exchange in view.past[view.cut.dropped : turns])
    return chars >= tokens * CHARS_PER_TOKEN


def overfull(window_tokens: int, view: Linear) -> bool:
    """Return whether half of the window is used. At that point a summary is due even if a strategy would wait
    longer.
    """
    return view.tokens >= window_tokens // 2


def _request_text(state: State, request: CompactionRequest, last: int, remaining: int) -> str:
    return request_text(text_of_request(state, request), request, last, remaining)


def text_of_request(state: State, request: CompactionRequest) -> str:
    """Return the prompt of a request as the run recorded it."""
    return _text(state, request.text, _plain(request.kind))


def request_text(prompt: str, request: CompactionRequest, last: int, kept_exchanges: int) -> str:
    """Return the request for a summary up to step ``last``, after which ``kept_exchanges`` exchanges remain."""
    return fill(prompt, {"most_chars": f"{request.most}", "last_step": f"{last:,}", "kept": f"{kept_exchanges:,}"})


def _plain(kind: str) -> str:
    """Return the prompt for a run that did not record it, such as one forked from another strategy."""
    return (
        f"COMPACTION REQUEST (kind: {kind}; at most {{{{most_chars}}}} characters)\n\n"
        "Answer with a text that replaces the steps up to {{last_step}}: facts verbatim, progress, what failed, what "
        "is open. The last {{kept}} steps stay. No tool call."
    )


def _text(state: State, name: str, otherwise: str) -> str:
    return next((each.text for each in state.begun.texts or () if each.name == name), otherwise)


def _shared(state: State, linear: Linear, prompt: str) -> View:
    """Return the next prompt followed by the request. The request itself is not written to the cache."""
    messages = linear.shown
    last = messages[-1]
    extended = messages.without_last().append(Message(last.role, (*last.parts, Text(prompt))))
    points = tuple(point for point in breakpoints(linear) if point.message < len(messages) - 1 or point.message == 0)
    return View(state.begun.system, state.begun.tools, extended, points)


def _cold(state: State, linear: Linear, prompt: str, turns: int) -> View:
    message = Message("user", cold_parts(linear.opening[1:2], linear, turns, state.window_tokens, prompt))
    system = _text(state, SYSTEM, "You shorten the records of a coding agent so that it can continue its work.")
    return View(system, (), Log([message]))


def cold_parts(task: tuple[Part, ...], view: Linear, turns: int, window_tokens: int, request: str) -> tuple[Part, ...]:
    """Return the task, the last summary, the exchanges up to ``turns`` as plain text, and the request."""
    old = view.past[max(view.cut.dropped, view.rules.first) : turns]
    before = standing_for(len(view.summary or ""), view)
    text = transcript(old, int(window_tokens / 2 * CHARS_PER_TOKEN))
    return (*task, *((Text(before),) if before else ()), Text(text), Text(request))
