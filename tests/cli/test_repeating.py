"""A call that may already have been made is repeated only after the user confirms at the terminal."""

from __future__ import annotations

import os
import sys

import pytest

from stackmem.cli.commands.resume import play_or_ask
from stackmem.run.repeats import MayRepeat


class Run:
    """A run that refuses until it is allowed to repeat the call."""

    def __init__(self) -> None:
        self.wanted: dict[str, str | None] = {}
        self.played = 0

    def __call__(self) -> None:
        if "yes" not in self.wanted:
            raise MayRepeat(
                "the run stopped in a call that may already have happened: send {}; pass --yes to repeat it"
            )
        self.played += 1


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the end of a terminal that receives typed input."""
    ours, theirs = os.openpty()
    monkeypatch.setattr(sys, "stdin", os.fdopen(theirs, encoding="utf-8"))
    return ours


def test_a_yes_at_the_terminal_makes_the_call_again(typed: int) -> None:
    os.write(typed, b"y\n")
    run = Run()
    play_or_ask(run, run.wanted, asks=True)
    assert run.played == 1


def test_a_no_at_the_terminal_leaves_the_run_as_it_was(typed: int) -> None:
    os.write(typed, b"n\n")
    run = Run()
    with pytest.raises(MayRepeat, match="send"):
        play_or_ask(run, run.wanted, asks=True)
    assert run.played == 0


def test_json_output_asks_no_questions(typed: int) -> None:
    run = Run()
    with pytest.raises(MayRepeat):
        play_or_ask(run, run.wanted, asks=False)
