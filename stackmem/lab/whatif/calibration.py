"""Adjusts token counts to what a recording states, so that every simulated prompt is as long as the provider counted.

Many recordings lack the agent's prompt and tools, images, and reminders that the agent adds. The provider counted them.
Rule 1: the first prompt's count, without its visible parts, is the length of the prompt and tools that are missing.
Rule 2: what a later prompt has grown by is the length of its new parts, as long as both numbers are plausible. Rule 3:
parts that no recorded prompt contained are counted by the median of these ratios.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import json
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied, RunStarted
from stackmem.core.messages import Text, View
from stackmem.memory.shared.linear import CHARS_PER_TOKEN
from stackmem.review.measure.cached_steps import with_prompts
from stackmem.review.measure.moments import Moment
from stackmem.review.measure.prefix import Count, Life, PromptBlock, sent

HIDDEN_PROMPT = "(the recording does not contain the prompt of this agent)"
"""Stands for the missing prompt and tools. Spaces make it as long as they are, because strategies measure prompts."""
_LEAST, _MOST = 0.25, 8.0
"""Plausible recorded tokens per counted token. Outside, a prompt grew or shrank for reasons that are not visible."""


def recorded_life(run: Sequence[Moment]) -> Life:
    """Return how long the recorded agent's cache entries lived, by what it wrote; five minutes if nothing says so."""
    usages = [moment.event.usage for moment in run if isinstance(moment.event, ModelReplied)]
    hours = sum(usage.cache_write_1h for usage in usages)
    return "1h" if hours > sum(usage.cache_write_5m for usage in usages) else "5m"


def warm_tokens(run: Sequence[Moment]) -> int:
    """Return how much of the first prompt an earlier session had cached, by the usage of the first reply."""
    first = next((moment.event for moment in run if isinstance(moment.event, ModelReplied)), None)
    return 0 if first is None or first.usage.estimated else first.usage.cache_read


def calibrated(run: tuple[Moment, ...], start: RunStarted, count: Count) -> tuple[RunStarted, Count]:
    """Return the start, with a stand-in for a missing prompt, and a counter that agrees with the recorded usage."""
    counter = _Recorded(count)
    for blocks, reported in _requests(run):
        counter.learn(blocks, reported)
    if not counter.close():
        return start, count
    return replace(start, system=start.system + counter.stand_in()), counter


def _requests(run: Sequence[Moment]) -> Iterator[tuple[list[PromptBlock], int]]:
    """Yield the new blocks of each root prompt, with the tokens of the whole prompt; 0 if they are not recorded."""
    count = 0
    for moment in with_prompts(run):
        event, view = moment.event, moment.view
        if not isinstance(event, ModelReplied) or view is None or moment.before.running.depth:
            continue
        blocks = _message_blocks(view, count) if count else [*_head_blocks(view), *_message_blocks(view, 0)]
        count = len(view.messages)
        yield blocks, 0 if event.usage.estimated else event.usage.prompt


def _head_blocks(view: View) -> list[PromptBlock]:
    tools = [PromptBlock("tool", tool) for tool in view.tools]
    return [*tools, PromptBlock("system", Text(view.system))] if view.system.strip() else tools


def _message_blocks(view: View, first: int) -> list[PromptBlock]:
    messages = view.messages[first:]
    return [PromptBlock(message.role, part) for message in messages for part in message.parts if sent(part)]


class _Recorded:
    """Counts blocks as the provider did, as far as its totals show."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._tokens: dict[bytes, int] = {}
        self._hidden, self._stand_in = 0, ""
        self._ratio = 1.0
        self._first: tuple[int, int] | None = None  # counted and recorded tokens of the first prompt
        self._last = 0  # recorded tokens of the last prompt
        self._waiting: list[PromptBlock] = []  # blocks since then
        self._grown: list[tuple[list[PromptBlock], int, float]] = []  # new blocks, their count, and the ratio

    def learn(self, blocks: list[PromptBlock], reported: int) -> None:
        """Take the next prompt."""
        self._waiting += blocks
        if not reported:
            return
        counted = sum(map(self._count, self._waiting))
        if self._first is None:
            self._first = counted, reported
        elif counted and _LEAST <= (ratio := (reported - self._last) / counted) <= _MOST:
            self._grown.append((self._waiting, counted, ratio))
        self._last, self._waiting = reported, []

    def close(self) -> bool:
        """Fix the counts. Returns False if the recording states no prompt's length."""
        if self._first is None:
            return False
        self._ratio = median(ratio for _, _, ratio in self._grown) if self._grown else 1.0
        counted, reported = self._first
        self._hidden = max(0, round(reported - self._ratio * counted))
        for blocks, total, ratio in self._grown:
            spread, running, assigned = round(total * ratio), 0, 0
            for block in blocks:  # rounded so that the parts add up to the whole
                running += self._count(block)
                tokens = round(spread * running / total) - assigned
                assigned += tokens
                self._tokens.setdefault(_key(block), tokens)
        return True

    def stand_in(self) -> str:
        """Return a text as long as the hidden part, by the estimate of strategies. Empty if nothing is hidden."""
        self._stand_in = HIDDEN_PROMPT.ljust(round(self._hidden * CHARS_PER_TOKEN)) if self._hidden else ""
        return self._stand_in

    def __call__(self, block: PromptBlock) -> int:
        content, hidden = block.content, 0
        if self._stand_in and isinstance(content, Text) and self._stand_in in content.text:
            hidden = self._hidden
            block = PromptBlock(block.place, Text(content.text.replace(self._stand_in, "")))
        tokens = self._tokens.get(_key(block))
        return hidden + (round(self._ratio * self._count(block)) if tokens is None else tokens)


def _key(block: PromptBlock) -> bytes:
    return block.place.encode() + json.encode(block.content)
