"""The cache of a server that keeps evaluated prompts, with figures computed by hand."""

from __future__ import annotations

from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, ToolSpec, View
from stackmem.review.measure.cache import CacheRequest
from stackmem.review.measure.prefix import text_of
from stackmem.review.measure.server_cache import ServerCache

TOOL = ToolSpec("read", "reads", "")


def view(*texts: str, system: str = "s" * 10) -> View:
    """A view in which user and assistant take turns; one letter is one token, the tool has 11."""
    roles = ("user", "assistant")
    messages = (Message(roles[at % 2], (Text(text),)) for at, text in enumerate(texts))  # type: ignore[arg-type]
    return View(system, (TOOL,), Log(messages))


def cache() -> ServerCache:
    return ServerCache(lambda block: len(text_of(block)))


def test_a_request_that_goes_on_evaluates_only_what_is_new() -> None:
    server = cache()
    first = server.answer(CacheRequest(0.0, view("u" * 20)))
    assert (first.read, first.uncached, first.broken) == (0, 41, "first request")
    second = server.answer(CacheRequest(1.0, view("u" * 20, "a" * 7, "r" * 5)))
    assert (second.read, second.uncached, second.broken) == (48, 5, "")


def test_a_reply_that_comes_back_in_another_form_is_evaluated() -> None:
    server = cache()
    server.answer(CacheRequest(0.0, view("u" * 20), literal=False))
    second = server.answer(CacheRequest(1.0, view("u" * 20, "a" * 7, "r" * 5)))
    assert (second.read, second.uncached, second.broken) == (41, 12, "")


def test_a_new_conversation_shares_tools_and_system_prompt() -> None:
    server = cache()
    server.answer(CacheRequest(0.0, view("one", "said", "more")))
    other = server.answer(CacheRequest(1.0, view("two")))
    assert (other.read, other.uncached, other.broken) == (21, 3, "new conversation")
    back = server.answer(CacheRequest(9_999.0, view("one", "said", "more", "again", "last")))
    assert (back.read, back.uncached, back.broken) == (21 + 3 + 4 + 4 + 5, 4, "")


def test_what_stands_before_the_messages_breaks_everything_after_it() -> None:
    server = cache()
    server.answer(CacheRequest(0.0, view("one")))
    found = server.answer(CacheRequest(1.0, view("one", system="t" * 10)))
    assert (found.read, found.uncached, found.broken) == (11, 13, "system changed")


def test_the_same_prompt_again_is_found_whole() -> None:
    server = cache()
    server.answer(CacheRequest(0.0, view("one")))
    assert server.answer(CacheRequest(1.0, view("one"))).uncached == 0


def test_a_rewritten_message_is_named() -> None:
    server = cache()
    server.answer(CacheRequest(0.0, view("one", "said", "more")))
    assert server.answer(CacheRequest(1.0, view("one", "sent", "more"))).broken == "message 2 changed"
