"""Builders for runs of many steps whose outputs are identified by number, and their cache usage."""

from __future__ import annotations

from typing import Any

from stackmem.core.budgets import Limits
from stackmem.core.facts import ModelReplied, ToolReturned
from stackmem.core.messages import Text, ToolResult, View
from stackmem.core.requests import AskModel, Compact
from stackmem.review.measure.cache import Cached, CacheRequest, simulate
from stackmem.review.measure.prefix import PromptBlock, text_of
from tests.build import Played, World, do, play, started


def output(number: int, chars: int) -> str:
    """Return the output of step ``number``."""
    return f"output {number} ".ljust(chars, "x")


def commands(turns: int, chars: int = 200) -> tuple[list[ModelReplied], World]:
    """One command per step, each with an output of this many characters."""
    asked = [do("run_command", command=f"command {number}") for number in range(1, turns + 1)]
    outputs = {f"command {number}": ToolReturned(output(number, chars), exit_code=0) for number in range(1, turns + 1)}
    return asked, World(outputs=outputs)


def worked(spelled: str, turns: int, chars: int = 200, **changes: Any) -> Played:
    """A run of this many steps that waits for the next one."""
    asked, world = commands(turns, chars)
    return play(*asked, start=started(spelled, **{"limits": Limits(steps=None), **changes}), world=world)


def whole(view: View, chars: int = 200) -> list[int]:
    """Return the steps whose output is shown in full."""
    return [
        int(part.text.split()[1])
        for message in view.messages
        for part in message.parts
        if isinstance(part, ToolResult) and part.text.startswith("output ") and len(part.text) >= chars
    ]


def results(view: View) -> list[str]:
    return [part.text for message in view.messages for part in message.parts if isinstance(part, ToolResult)]


def head(view: View) -> str:
    """Return the first message's text after the run constants and the task."""
    return "\n".join(part.text for part in view.messages[0].parts[2:] if isinstance(part, Text))


def compactions(played: Played) -> list[Compact]:
    return [effect for effect in played.effects if isinstance(effect, Compact)]


def requests(played: Played) -> list[View]:
    """Return every prompt sent, including compaction requests in their place."""
    sent = [effect.view if isinstance(effect, AskModel) else effect.ask.view for effect in played.effects
            if isinstance(effect, AskModel | Compact)]  # fmt: skip
    return sent if len(sent) == len(played.asked) + len(compactions(played)) else [*sent, played.view]


def cached(played: Played) -> list[Cached]:
    """Simulate the cache for each request, ten seconds apart, with one token per character."""
    sent = [CacheRequest(10.0 * place, view) for place, view in enumerate(requests(played))]
    return list(simulate(sent, 512, chars))


def chars(block: PromptBlock) -> int:
    return len(text_of(block))


def bill(found: list[Cached]) -> float:
    """Return the cost in units of an uncached token."""
    return sum(one.uncached + 1.25 * one.written_5m + 2 * one.written_1h + 0.1 * one.read for one in found)
