"""Tables drop their least important columns on a narrow terminal, and lines wrap between words."""

import os

import pytest

from stackmem.cli.screen import text
from stackmem.cli.screen.text import align, without_columns, wrapped
from stackmem.core.state import State
from stackmem.doors.chat.chat import ChatScreen
from tests.run.people import Scripted, talk
from tests.stage import Stage, pop, push

ROWS = [("strategy", "read", "output", "bill", "note"), ("stackheap", "1,014,250", "6,942", "$0.3151", "n" * 90)]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_table_fits_and_keeps_its_answer(width):
    rows = without_columns(ROWS, ("output", "read"), width)
    lines = align(rows, (0, len(rows[0]) - 1), width=width)
    assert all(len(line) <= width for line in lines)
    assert "$0.3151" in lines[1]
    assert [name for name in ROWS[0] if name not in rows[0]] == {40: ["read", "output"], 60: ["output"]}.get(width, [])


def test_a_table_that_is_not_on_a_terminal_is_whole():
    assert without_columns(ROWS, ("output",), None) == [list(row) for row in ROWS]


def test_a_line_wraps_between_words(monkeypatch):
    monkeypatch.setattr(text, "terminal_width", lambda: 20)
    assert wrapped("solved in 14 steps, 3 frames pushed, 1,200 tokens").split("\n") == [
        "solved in 14 steps,", "3 frames pushed,", "1,200 tokens",
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_status_line_of_a_conversation_fits_the_terminal_and_keeps_the_activity(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, columns: int
):
    states: list[State] = []
    script = stage.script(push("x" * 60), pop("Done."), pop("Done."))
    talk(stage, Scripted("Do."), script, observe=lambda _, state: states.append(state))
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    for plain in (False, True):
        screen = ChatScreen(color=False, plain=plain)
        for state in (each for each in states if each.stack):
            screen.state = state
            screen.busy = "thinking"
            assert len(screen.status()) <= columns
            assert screen.status().startswith("working: ") == plain
            assert columns < 80 or " s | context " in screen.status()
