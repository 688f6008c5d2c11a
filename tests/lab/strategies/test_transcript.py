"""Tests for turns as text."""

from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.messages import Message, Text, ToolCall, ToolResult
from stackmem.lab.strategies.transcript import transcript
from stackmem.memory.shared.linear import Exchange


def exchange(step, text, failed=False):
    said = Message("assistant", (Text("hm"), ToolCall("1", "run_command", {"command": "make"})))
    return Exchange(step, said, Message("user", (ToolResult("1", text, failed),)), 0)


def test_every_turn_stands_under_its_step():
    assert transcript([exchange(7, "ok"), exchange(8, "no", failed=True)], 1_000) == (
        'STEP 7\nhm\nCALL run_command {"command":"make"}\nRESULT\nok\n\n'
        'STEP 8\nhm\nCALL run_command {"command":"make"}\nFAILED\nno'
    )


def test_the_longest_are_clipped_and_short_ones_stay():
    text = transcript([exchange(1, "short"), exchange(2, "x" * 5_000), exchange(3, "y" * 3_000)], 3_000)
    assert "short" in text
    assert text.count("left out ...]") == 2


@given(st.lists(st.integers(0, 3_000), max_size=8), st.integers(0, 6_000))
def test_it_is_never_much_longer_than_allowed(sizes, most):
    text = transcript([exchange(step, "z" * size) for step, size in enumerate(sizes)], most)
    assert len(text) <= most + 2 * len(sizes)


def test_no_turns_give_no_text():
    assert transcript([], 100) == ""
