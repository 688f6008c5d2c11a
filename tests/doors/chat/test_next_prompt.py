"""The next prompt by kind: it adds up to the prompt that is sent, and knows what was sent before."""

import pytest

from stackmem.core.facts import FramePopped
from stackmem.core.machine import fold
from stackmem.core.messages import ToolCall
from stackmem.core.pricing import Price
from stackmem.core.strategy import has_frames
from stackmem.doors.chat.chat import ChatScreen
from stackmem.doors.chat.next_prompt import next_prompt
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.memory.shared.linear import CHARS_PER_TOKEN
from tests.build import alloc, do, pop, push, shown_text, started
from tests.core.conversation.days import KEPT, day, flat

PRICE = Price(1.0, 5.0, 1.25, 2.0, 0.1, "test")


def shown(played):
    return next_prompt(played.state, played.strategy)


def evolved(played):
    """Return the state right after the last result."""
    last = max(place for place, event in enumerate(played.events) if isinstance(event, FramePopped))
    return fold(played.events[: last + 1])


def chars(view):
    return len(shown_text(view)) + sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in view.tools)


def sent_chars(view):
    """Return the characters of a prompt as rendered, without what separates its parts."""
    parts = [part for message in view.messages for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    texts = sum(len(part.text) for part in parts if not isinstance(part, ToolCall))
    tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in view.tools)
    return len(view.system) + tools + texts + sum(len(call.name) + len(str(call.arguments)) for call in calls)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_sum_is_the_prompt_that_follows_as_rendered(strategy):
    rules = KEPT if has_frames(open_strategy(strategy)) else flat()
    replies = [do("run_command", command="x"), pop("Done."), do("run_command", command="y")]
    played = day("# use tabs", "Go.", "Next.", replies=replies, strategy=strategy, rules=rules)
    found = shown(played)
    # each part is rounded to a token, and a heading between index and request is not in either
    assert abs(found.tokens - sent_chars(played.view) / CHARS_PER_TOKEN) <= len(found.parts) / 2 + 4
    assert found.tokens == sum(found.by_kind().values())


def test_between_requests_it_is_the_prompt_of_an_empty_request():
    played = day("# use tabs", "Go.", replies=[alloc("a", "x" * 500), pop("Done. " * 50)])
    assert played.state.session.working
    idle = next_prompt(evolved(played), played.strategy)
    kinds = idle.by_kind()
    assert list(kinds) == [
        "system", "tools", "run and project", "earlier requests", "standing words", "heap index", "this request",
    ]  # fmt: skip
    assert kinds["earlier requests"] == pytest.approx(440 / 2.5, abs=25)
    assert idle.window_tokens == started().window_tokens
    assert 0 < idle.tokens - idle.sent_tokens < 0.3 * idle.tokens


def test_the_cost_follows_from_the_price_and_from_what_was_sent():
    played = day("Go.", replies=[pop()], price=PRICE)
    found = next_prompt(evolved(played), played.strategy)
    new = found.tokens - found.sent_tokens
    assert found.usd == pytest.approx((found.sent_tokens * 0.1 + new * 1.25) / 1_000_000)
    assert shown(day("Go.", replies=[])).usd is None


def test_nothing_was_sent_before_the_first_reply():
    assert shown(day("Go.", replies=[])).sent_tokens == 0


def test_a_child_frame_and_a_long_conversation_are_measured_too():
    played = day("Go.", replies=[push(), *[do("run_command", command="x") for _ in range(5)]])
    kinds = shown(played).by_kind()
    assert {"replies", "results", "this request"} <= kinds.keys()
    assert shown(played).tokens == pytest.approx(chars(played.view) / 2.5, rel=0.06)


def test_between_requests_the_status_line_has_the_size_of_the_next_prompt():
    played = day("Go.", replies=[alloc("a", "x" * 500), pop("Done. " * 50)])
    screen = ChatScreen(color=False)
    screen.state = evolved(played)
    tokens = next_prompt(screen.state, played.strategy).tokens
    assert f"context {tokens / 1000:.1f}k" in screen.status()
    assert f"context {screen.state.running.context_tokens / 1000:.1f}k" not in screen.status()
    screen.state = played.state
    assert played.state.session.working
    assert f"context {played.state.running.context_tokens / 1000:.1f}k" in screen.status()
