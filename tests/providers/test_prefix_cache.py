"""The test server's cache in cases computed by hand from the provider's rules."""

from __future__ import annotations

from typing import Any

from .prefix_cache import PrefixCache


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def block(size: int, ttl: str | None = None, kind: str = "text", word: str = "x") -> dict[str, Any]:
    """A block that is ``size`` tokens long including its position and its JSON."""
    made: dict[str, Any] = {"type": kind, "text": ""}
    made["text"] = word * (size * 4 - len("user [null, null]" + str(made)))
    return {**made, "cache_control": {"type": "ephemeral", "ttl": ttl}} if ttl else made


def body(*blocks: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}], **other}


def figures(usage: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return tokens read, written for 5 minutes, written for 1 hour, and uncached."""
    written = usage["cache_creation"]
    short, long = written["ephemeral_5m_input_tokens"], written["ephemeral_1h_input_tokens"]
    return usage["cache_read_input_tokens"], short, long, usage["input_tokens"]


def test_a_prefix_is_written_once_and_read_after_that() -> None:
    cache = PrefixCache(512)
    prompt = body(block(600, "1h"), block(200, "5m"), block(50))
    assert figures(cache.usage(prompt)) == (0, 200, 600, 50)
    assert figures(cache.usage(prompt)) == (800, 0, 0, 50)


def test_a_prefix_below_the_minimum_is_not_written() -> None:
    cache = PrefixCache(512)
    prompt = body(block(500, "1h"))
    assert [figures(cache.usage(prompt)) for _ in range(2)] == [(0, 0, 0, 500)] * 2


def test_five_minutes_are_counted_from_the_last_hit() -> None:
    clock = Clock()
    cache = PrefixCache(512, clock)
    prompt = body(block(600, "5m"))
    read = []
    for clock.now in (0.0, 299.0, 590.0, 890.1):
        read.append(figures(cache.usage(prompt))[0])
    assert read == [0, 600, 600, 0]


def test_a_look_back_ends_after_20_positions() -> None:
    first = block(600, "5m")
    plain = {**first}
    del plain["cache_control"]
    for later, read in ((19, 600), (20, 0)):
        cache = PrefixCache(512)
        cache.usage(body(first))
        following = [block(30) for _ in range(later - 1)]
        assert figures(cache.usage(body(plain, *following, block(30, "5m"))))[0] == read, later


def test_a_run_of_results_is_one_position() -> None:
    cache = PrefixCache(512)
    first = block(600, "5m")
    cache.usage(body(first))
    results = [block(30, kind="tool_result") for _ in range(40)]
    assert figures(cache.usage(body(first, *results, block(30, "5m"))))[0] == 600


def test_another_tool_choice_invalidates_the_messages_and_not_the_system_prompt() -> None:
    cache = PrefixCache(512)
    system = [{"type": "text", "text": "x" * 3_000, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    prompt = body(block(600, "5m"), system=system)
    cache.usage(prompt)
    read = figures(cache.usage({**prompt, "tool_choice": {"type": "auto"}}))[0]
    assert 700 < read < 800


def test_an_edit_of_an_earlier_block_invalidates_everything_after_it() -> None:
    cache = PrefixCache(512)
    cache.usage(body(block(600, "5m"), block(600, "5m")))
    assert figures(cache.usage(body(block(600, "5m", word="y"), block(600, "5m"))))[0] == 0
