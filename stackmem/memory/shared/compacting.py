"""Asking the model for the text that stands for old turns: what the summarizing strategies share.

Shared prefix: the request is appended to the very prompt that the provider has in its cache; all of it is read at the
price of a read. Cold prefix: the old turns go out as plain text under a small system prompt; nothing of it is in the
cache, but the request is shorter, it holds the turns as they were recorded, and may go to a smaller context.
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

from .linear import CHARS_PER_TOKEN, Cut, Linear, Rules, breakpoints, conversation, unmoved, view, whole_result
from .offers import ONE_FRAME
from .parameters import Partial
from .transcript import transcript

Prefix = Literal["shared", "cold"]
PREFIXES = ("shared", "cold")
SYSTEM = "compaction_system"
THRESHOLD = 24_000
"""Tokens of the whole prompt at which a summary is due where nothing else is said.

A low threshold pays for many summaries, a high one reads a long history at every step. By the cache simulator, for 300
steps, summaries of 3,600 characters and reads at 0.1 of the input price, the bill is least at 12,000 tokens where a
step brings 280 of them, at 20,000 for 720 and at 28,000 for 1,440; with reads at 0.05 at 16,000, 24,000 and 40,000. It
is flat around that: 24,000 costs at most 17, 2 and 7 % more than the best of each. Each summary forgets
something, so of two thresholds that cost nearly the same the higher one is to be preferred."""


class CompactionRequest(Struct, frozen=True):
    """What is asked for."""

    # as the request's first line names it
    kind: Literal["summary", "rolling", "structured", "tier", "condenser", "handoff"]
    text: str  # name of the prompt that asks
    most: int  # characters of the answer that are shown
    prefix: Prefix = "shared"

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the prompts that a run must record."""
        return (self.text, SYSTEM) if self.prefix == "cold" else (self.text,)


class Summarizing(Struct, frozen=True):
    """A strategy of one conversation that asks the model for summaries."""

    name: str
    request: CompactionRequest
    # how many exchanges a text is to stand for now, by the model's window in tokens; None where none is due
    due: Callable[[int, Linear], int | None]
    rules: Rules  # as of the strategies that ask for none; they say nothing of the exchanges that have a text
    tools: tuple[Tool, ...] = ONE_FRAME
    prompt: str = "full"
    prefix_stable: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        return self.request.texts

    def render(self, state: State) -> View:
        return view(state, self._conversation(state))

    def upkeep(self, state: State) -> Effect | None:
        shown = self._conversation(state)
        turns = self.due(state.window_tokens, shown)
        return None if turns is None else compaction(state, shown, self.request, turns)

    def _conversation(self, state: State) -> Linear:
        return conversation(state, self.rules, self.name, summarizes=True)


def summary_rules(
    request: CompactionRequest,
    cut: Callable[[Linear], Cut] = unmoved,
    shorten: Callable[[ToolResult, int], ToolResult] = whole_result,
    *,
    first: int = 0,
) -> Rules:
    """The rules of a conversation whose beginning a text stands for, but for its ``first`` exchanges."""
    return Rules(cut, Partial(standing_for, (request.most,)), shorten, first=first)


def compaction(state: State, shown: Linear, request: CompactionRequest, turns: int) -> Compact | None:
    """The request for a text that stands for the first ``turns`` exchanges, those of the last text included.

    None where that would be no more than already has a text, the last result being kept.
    """
    turns = min(turns, shown.answer)
    if turns <= shown.cut.dropped:
        return None
    last = shown.past[turns - 1].step
    asked = _request_text(state, request, last, len(shown.past) - turns)
    wanted = _cold(state, shown, asked, turns) if request.prefix == "cold" else _shared(state, shown, asked)
    return compact(state, wanted, last)


def standing_for(most: int, shown: Linear) -> str:
    """What stands at the head of the conversation once a text has replaced its beginning."""
    if shown.summary is None:
        return ""
    last = shown.past[shown.cut.dropped - 1].step if shown.cut.dropped else 0
    text = mark_cut(shown.summary.strip(), most) or "(no summary was written; the workspace is as those steps left it)"
    return f"SUMMARY of the steps up to {last:,}, which are no longer shown:\n{text}"


def worth(shown: Linear, turns: int, tokens: float) -> bool:
    """Whether the exchanges up to that one, as they are shown, hold so many tokens."""
    chars = sum(exchange.chars for exchange in shown.past[shown.cut.dropped : turns])
    return chars >= tokens * CHARS_PER_TOKEN


def overfull(window_tokens: int, shown: Linear) -> bool:
    """Whether half of the window is filled; whatever a strategy waits for, it does not wait longer."""
    return shown.tokens >= window_tokens // 2


def _request_text(state: State, request: CompactionRequest, last: int, kept: int) -> str:
    return request_text(_text(state, request.text, _plain(request.kind)), request, last, kept)


def request_text(prompt: str, request: CompactionRequest, last: int, kept: int) -> str:
    """What asks for a text that stands for everything up to step ``last``; ``kept`` exchanges stay behind it."""
    return fill(prompt, {"most_chars": f"{request.most}", "last_step": f"{last:,}", "kept": f"{kept:,}"})


def _plain(kind: str) -> str:
    """For a run that was recorded without the prompt, such as one under another strategy."""
    return (
        f"COMPACTION REQUEST (kind: {kind}; at most {{{{most_chars}}}} characters)\n\n"
        "Answer with a text that replaces the steps up to {{last_step}}: facts verbatim, progress, what failed, what "
        "is open. The last {{kept}} steps stay. No tool call."
    )


def _text(state: State, name: str, otherwise: str) -> str:
    return next((each.text for each in state.begun.texts or () if each.name == name), otherwise)


def _shared(state: State, shown: Linear, asked: str) -> View:
    """The next prompt with the request behind it. What only this request needs is not written to the cache."""
    messages = shown.shown
    last = messages[-1]
    whole = messages.without_last().append(Message(last.role, (*last.parts, Text(asked))))
    points = tuple(point for point in breakpoints(shown) if point.message < len(messages) - 1 or point.message == 0)
    return View(state.begun.system, state.begun.tools, whole, points)


def _cold(state: State, shown: Linear, asked: str, turns: int) -> View:
    message = Message("user", cold_parts(shown.opening[1:2], shown, turns, state.window_tokens, asked))
    system = _text(state, SYSTEM, "You shorten the records of a coding agent so that it can go on with its work.")
    return View(system, (), Log([message]))


def cold_parts(task: tuple[Part, ...], shown: Linear, turns: int, window_tokens: int, asked: str) -> tuple[Part, ...]:
    """The task, the last text and the exchanges up to ``turns`` as plain text, and what asks for a new one."""
    old = shown.past[max(shown.cut.dropped, shown.rules.first) : turns]
    before = standing_for(len(shown.summary or ""), shown)
    text = transcript(old, int(window_tokens / 2 * CHARS_PER_TOKEN))
    return (*task, *((Text(before),) if before else ()), Text(text), Text(asked))
