"""The cache simulator: each rule with figures computed by hand."""

import pytest

from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.pricing import cost_usd
from stackmem.models.catalog import lookup
from stackmem.review.measure.cache import Cached, CacheRequest, simulate
from stackmem.review.measure.prefix import PromptBlock, text_of

SONNET = lookup("claude-sonnet-5-5")


def sized(block: PromptBlock) -> int:
    """Count tokens: a text like `600 a` has 600, anything else none."""
    first = text_of(block).split(" ", 1)[0]
    return int(first) if first.isdecimal() else 0


def user(*texts: str) -> Message:
    return Message("user", tuple(Text(text) for text in texts))


def said(text: str) -> Message:
    return Message("assistant", (Text(text),))


def ask(at: float, *messages: Message, marks=(), system: str = "0 system", tools=(), **more) -> CacheRequest:
    points = tuple(Breakpoint(message, part, ttl) for message, part, ttl in marks)
    return CacheRequest(at, View(system, tools, Log(messages), points), **more)


def figures(*requests: CacheRequest, minimum: int = 512) -> list[tuple[int, int, int, int]]:
    return [(one.read, one.written_5m, one.written_1h, one.uncached) for one in simulate(requests, minimum, sized)]


def reasons(*requests: CacheRequest, minimum: int = 512) -> list[str]:
    return [one.broken for one in simulate(requests, minimum, sized)]


def test_a_prefix_is_written_once_and_read_after_that():
    prompt = (user("600 a", "200 b", "50 c"),)
    marks = [(0, 0, "1h"), (0, 1, "5m")]
    again = [ask(at, *prompt, marks=marks) for at in (0.0, 1.0)]
    assert figures(*again) == [(0, 200, 600, 50), (800, 0, 0, 50)]


def test_what_follows_the_last_breakpoint_is_never_cached():
    assert figures(*[ask(at, user("600 a", "900 b"), marks=[(0, 0, "5m")]) for at in (0.0, 1.0)]) == [
        (0, 600, 0, 900), (600, 0, 0, 900),
    ]  # fmt: skip


def test_without_a_breakpoint_nothing_is_cached():
    assert figures(*[ask(at, user("600 a")) for at in (0.0, 1.0)]) == [(0, 0, 0, 600)] * 2
    assert reasons(ask(0.0, user("600 a"))) == ["no breakpoint"]


def test_a_prefix_below_the_minimum_is_not_written_and_nobody_says_so():
    requests = [ask(at, user("511 a"), marks=[(0, 0, "5m")]) for at in (0.0, 1.0)]
    assert figures(*requests) == [(0, 0, 0, 511)] * 2
    assert reasons(*requests) == ["first request", "below the minimum"]
    assert figures(*requests, minimum=511)[1] == (511, 0, 0, 0)


def test_the_minimum_is_that_of_the_whole_prefix():
    marks = [(-1, 0, "1h"), (0, 0, "5m")]
    assert figures(*[ask(at, user("100 a"), marks=marks, system="500 s") for at in (0.0, 1.0)]) == [
        (0, 600, 0, 0), (600, 0, 0, 0),
    ]  # fmt: skip


def test_five_minutes_count_from_the_start_of_the_last_hit():
    requests = [ask(at, user("600 a"), marks=[(0, 0, "5m")]) for at in (0.0, 299.9, 599.8, 899.8)]
    assert [read for read, *_ in figures(*requests)] == [0, 600, 600, 0]
    assert reasons(*requests) == ["first request", "", "", "expired"]


def test_an_hour_is_an_hour():
    requests = [ask(at, user("600 a"), marks=[(0, 0, "1h")]) for at in (0.0, 3_599.0, 7_199.0)]
    assert [read for read, *_ in figures(*requests)] == [0, 600, 0]


def test_a_hit_refreshes_the_entry_that_each_breakpoint_reads():
    marks = [(0, 0, "5m"), (0, 1, "5m")]
    requests = [ask(at, user("600 a", "600 b"), marks=marks) for at in (0.0, 200.0)]
    other = ask(400.0, user("600 a", "600 other"), marks=marks)
    assert figures(*requests, other)[-1] == (600, 600, 0, 0)


def test_the_longer_time_to_live_before_the_shorter_pays_each_its_own_price():
    marks = [(-1, 0, "1h"), (0, 0, "5m")]
    first = ask(0.0, user("300 a"), marks=marks, system="700 s")
    later = ask(400.0, user("300 a"), marks=marks, system="700 s")
    assert figures(first, later) == [(0, 300, 700, 0), (700, 300, 0, 0)]


def test_a_breakpoint_looks_back_over_20_positions():
    for between, read in ((18, 600), (19, 0)):
        first = ask(0.0, user("600 a"), marks=[(0, 0, "5m")])
        grown = ask(1.0, user("600 a", *(f"1 {n}" for n in range(between)), "1 end"), marks=[(0, between + 1, "5m")])
        assert figures(first, grown)[1][0] == read
        assert reasons(first, grown)[1] == ("" if read else "out of reach")


def test_a_conversation_beyond_its_look_back_is_rewritten():
    first = ask(0.0, user("600 a"), marks=[(0, 0, "5m")])
    more = [message for n in range(10) for message in (said(f"1 {n}"), user(f"1 {n}"))]
    grown = ask(1.0, user("600 a"), *more, marks=[(20, 0, "5m")])
    assert figures(first, grown)[1] == (0, 620, 0, 0)
    assert reasons(first, grown)[1] == "out of reach"
    kept = ask(1.0, user("600 a"), *more, marks=[(0, 0, "5m"), (20, 0, "5m")])
    assert figures(first, kept)[1] == (600, 20, 0, 0)


def test_calls_in_a_row_and_results_in_a_row_are_one_position_each():
    calls = Message("assistant", tuple(ToolCall(str(n), "t", {}) for n in range(40)))
    results = Message("user", tuple(ToolResult(str(n), "1 r") for n in range(40)))
    first = ask(0.0, user("600 a"), marks=[(0, 0, "5m")])
    assert figures(first, ask(1.0, user("600 a"), calls, results, marks=[(2, 39, "5m")]))[1] == (600, 40, 0, 0)


def test_another_choice_of_tools_invalidates_the_messages_and_not_the_system_prompt():
    marks = [(-1, 0, "1h"), (0, 0, "5m")]
    requests = [
        ask(at, user("300 a"), marks=marks, system="700 s", settings=settings)
        for at, settings in ((0.0, "auto"), (1.0, "none"), (2.0, "none"))
    ]
    assert figures(*requests) == [(0, 300, 700, 0), (700, 300, 0, 0), (1_000, 0, 0, 0)]
    assert reasons(*requests) == ["first request", "settings changed", ""]


def test_other_tools_invalidate_everything():
    marks = [(-1, 0, "1h"), (0, 0, "5m")]
    tools = [(ToolSpec("a", "b", "{}"),), (ToolSpec("a", "c", "{}"),)]
    requests = [ask(float(at), user("300 a"), marks=marks, system="700 s", tools=one) for at, one in enumerate(tools)]
    assert figures(*requests)[1] == (0, 300, 700, 0)
    assert reasons(*requests)[1] == "tools changed"


def test_another_system_prompt_invalidates_itself_and_the_messages():
    marks = [(-1, 0, "1h"), (0, 0, "5m")]
    requests = [ask(float(at), user("300 a"), marks=marks, system=f"700 {at}") for at in range(2)]
    assert figures(*requests)[1] == (0, 300, 700, 0)
    assert reasons(*requests)[1] == "system changed"


def test_an_edit_of_an_earlier_message_invalidates_what_follows_and_is_named():
    marks = [(-1, 0, "1h"), (2, 0, "5m")]
    first = ask(0.0, user("300 a"), said("1 b"), user("1 c"), marks=marks, system="700 s")
    edited = ask(1.0, user("300 a"), said("1 B"), user("1 c"), marks=marks, system="700 s")
    assert figures(first, edited)[1] == (700, 302, 0, 0)
    assert reasons(first, edited)[1] == "message 2 changed"


def test_a_new_conversation_reads_what_all_conversations_share():
    marks = [(-1, 0, "1h"), (0, 1, "5m")]
    parent, child = (ask(0.0, user("1 run", f"300 {name}"), marks=marks, system="700 s") for name in "ab")
    assert figures(parent, child)[1] == (700, 301, 0, 0)
    assert reasons(parent, child)[1] == "new conversation"


def test_a_parent_goes_on_where_it_stopped_unless_its_entry_has_expired():
    marks = [(-1, 0, "1h"), (0, 0, "5m")]
    child = ask(100.0, user("9 child"), marks=marks, system="700 s")
    for back, reason, read in ((299.0, "", 1_000), (301.0, "expired", 700)):
        parent = ask(0.0, user("300 parent"), marks=marks, system="700 s")
        grown = [user("300 parent"), said("1 push"), user("1 popped")]
        again = ask(back, *grown, marks=[*marks, (2, 0, "5m")], system="700 s")
        assert reasons(parent, child, again)[-1] == reason
        assert figures(parent, child, again)[-1][0] == read


def test_an_entry_can_be_read_once_the_response_that_wrote_it_has_begun():
    requests = [ask(at, user("600 a"), marks=[(0, 0, "5m")], began=at + 2.0) for at in (0.0, 1.0, 2.0)]
    assert [one[:2] for one in figures(*requests)] == [(0, 600), (0, 600), (600, 0)]
    assert reasons(*requests)[1] == "not begun"


def test_blank_text_and_foreign_thoughts_are_no_blocks():
    own, foreign = Thinking({"type": "thinking", "thinking": "5 t"}), Thinking({"type": "reasoning_content"})
    message = Message("assistant", (own, foreign, Text("  \n"), Text("3 b")))
    first = ask(0.0, user("600 a"), message, user("1 c"), marks=[(0, 0, "5m"), (2, 0, "5m")])
    assert figures(first) == [(0, 609, 0, 0)]


def test_a_mark_on_what_is_not_sent_goes_to_the_block_before_it():
    assert figures(ask(0.0, user("600 a", " "), marks=[(0, 1, "5m")])) == [(0, 600, 0, 0)]
    assert figures(ask(0.0, user(" ", "600 a"), marks=[(0, 0, "5m")])) == [(0, 0, 0, 600)]


@pytest.mark.parametrize("marks", [[(5, 0, "5m")], [(0, 9, "5m")]])
def test_a_mark_on_what_is_not_there_is_none(marks):
    assert figures(ask(0.0, user("600 a"), marks=marks)) == [(0, 0, 0, 600)]


def test_an_empty_prompt_is_answered_too():
    assert figures(ask(0.0, system="", marks=[(-1, 0, "1h")])) == [(0, 0, 0, 0)]


def hundred_steps(marked: bool) -> list[Cached]:
    """6,000 tokens at the start, 1,500 more with each of 100 steps, ten seconds apart."""
    messages = [user("0 task")]
    requests = []
    for step in range(100):
        if step:
            messages += [said(f"300 reply {step}"), user(f"1200 result {step}")]
        marks = [(at, 0, "5m") for at in (len(messages) - 3, len(messages) - 1) if at >= 0] if marked else []
        requests.append(ask(10.0 * step, *messages, system="6000 prompt", marks=marks))
    return list(simulate(requests, 512, sized))


@pytest.mark.parametrize(("marked", "usd"), [(True, 1.47), (False, 16.35)])
def test_a_hundred_steps_of_sonnet_cost_what_was_worked_out_by_hand(marked, usd):
    assert SONNET is not None
    assert SONNET.price is not None
    total = sum(cost_usd(one.usage(300), SONNET.price) for one in hundred_steps(marked))
    assert round(total, 2) == usd


def test_the_hundred_steps_in_tokens():
    steps = hundred_steps(marked=True)
    assert sum(one.read for one in steps) == 7_870_500
    assert sum(one.written_5m for one in steps) == 154_500
    assert sum(one.uncached for one in steps) == 0
    assert sum(one.uncached for one in hundred_steps(marked=False)) == 8_025_000
